/** Secret 64-bit words, and the samplers that read them, in the order in which Python's read theirs. */

import { Fraction } from "../public/fraction.js";

const LAST_WORD = (1n << 64n) - 1n;
const MOST_AT_ONCE = 8192;
const SMALLEST_CHUNK = 16;
const LARGEST_CHUNK = 1 << 16;

/** A source of uniform words; WebCrypto's by default. */
export class SecretWords {
  words(count: number): BigUint64Array {
    const made = new BigUint64Array(count);
    for (let at = 0; at < count; at += MOST_AT_ONCE) crypto.getRandomValues(made.subarray(at, at + MOST_AT_ONCE));
    return made;
  }

  /** So many samples, each a function of the words from where the one before it ended; words come in chunks. */
  draw(count: number, wordsEach: number, sample: (next: Next) => bigint): bigint[] {
    const made: bigint[] = [];
    let chunk = new BigUint64Array(0);
    let at = 0;
    const word = (): bigint => {
      if (at === chunk.length) {
        const expected = Math.floor(wordsEach * (count - made.length)) + SMALLEST_CHUNK;
        chunk = this.words(Math.min(expected, LARGEST_CHUNK)) as BigUint64Array<ArrayBuffer>;
        at = 0;
      }
      return chunk[at++] ?? 0n;
    };
    const next = (bound: bigint): bigint => {
      const lastBlock = LAST_WORD - (bound - 1n);
      for (;;) {
        const drawn = word();
        const value = drawn % bound;
        if (drawn - value <= lastBlock) return value;
      }
    };
    while (made.length < count) made.push(sample(next));
    return made;
  }

  /** So many integers, exactly uniform in [0, bound). */
  below(bound: bigint, count: number): bigint[] {
    return this.draw(count, 1, (next) => next(bound));
  }

  /** Coins that fall true with a rational chance. */
  coins(count: number, chance: Fraction): boolean[] {
    return this.below(chance.denominator, count).map((value) => value < chance.numerator);
  }

  /** The numbers from 0 to count - 1 in a uniformly random order. */
  permutation(count: number): number[] {
    let place = 0n;
    const swaps = this.draw(count, 1.1, (next) => next(++place));
    const order = Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const other = Number(swaps[i] ?? 0n);
      [order[i], order[other]] = [order[other] ?? 0, order[i] ?? 0];
    }
    return order;
  }
}

/** Read an integer uniform below a bound. */
export type Next = (bound: bigint) => bigint;

/** Toss a coin of probability exp(-numerator / denominator), for 0 <= numerator <= denominator. */
function fractionCoin(next: Next, numerator: bigint, denominator: bigint): boolean {
  if (!numerator) return true;
  for (let step = 1n; ; step++) {
    if (next(denominator) >= numerator || (step > 1n && next(step))) return step % 2n === 1n;
  }
}

/** Toss a coin of probability 1/e; a first coin of probability 1/1 needs no word. */
function inverseCoin(next: Next): boolean {
  for (let step = 2n; ; step++) if (next(step)) return step % 2n === 1n;
}

/** A geometric count of a rational rate. */
function geometricCount(next: Next, rate: Fraction): bigint {
  let remainder: bigint;
  do remainder = next(rate.denominator);
  while (!fractionCoin(next, remainder, rate.denominator));
  let units = 0n;
  while (inverseCoin(next)) units++;
  return (remainder + rate.denominator * units) / rate.numerator;
}

/** A Poisson count of a rational mean below 1: J. von Neumann's scheme. */
function smallPoisson(next: Next, mean: Fraction): bigint {
  for (;;) {
    let count = 0n;
    while (next(mean.denominator) < mean.numerator) count++;
    let factor = 2n;
    while (factor <= count && !next(factor)) factor++;
    if (factor > count) return count;
  }
}

const MOST_PIECES = 4096n;

export function poisson(words: SecretWords, count: number, mean: Fraction): bigint[] {
  const doubled = mean.times(2);
  const parts = doubled.numerator / doubled.denominator / MOST_PIECES + 1n;
  const each = doubled.over(parts);
  const pieces = each.numerator / each.denominator + 1n; // of mean below 1/2: four in five proposals are kept
  const chance = mean.over(parts * pieces);
  const samples = words.draw(count * Number(parts), 2.5 * Number(pieces), (next) => {
    let total = 0n;
    for (let piece = 0n; piece < pieces; piece++) total += smallPoisson(next, chance);
    return total;
  });
  return Array.from({ length: count }, (_, i) =>
    samples.slice(i * Number(parts), (i + 1) * Number(parts)).reduce((sum, part) => sum + part, 0n),
  );
}

/** Negative binomial counts of a rational shape; shares of shape r / n give shape r together. */
export function negativeBinomial(words: SecretWords, count: number, shape: Fraction, rate: Fraction): bigint[] {
  const whole = shape.numerator / shape.denominator;
  const part = shape.minus(new Fraction(whole));
  const inverse = Number(rate.denominator) / Number(rate.numerator);
  const wordsEach = 12 * (Number(shape.numerator) / Number(shape.denominator) + 1) + (part.numerator ? inverse : 0);
  return words.draw(count, wordsEach, (next) => {
    let total = 0n;
    for (let unit = 0n; unit < whole; unit++) total += geometricCount(next, rate);
    return part.numerator ? total + urnShare(next, geometricCount(next, rate), part) : total;
  });
}

/** Of so many units, those that go to a part of this weight when each joins its like (Polya's urn). */
function urnShare(next: Next, units: bigint, part: Fraction): bigint {
  let mine = 0n;
  for (let step = 1n; step <= units; step++) {
    if (next(part.denominator * step) < part.numerator + part.denominator * mine) mine++;
  }
  return mine;
}
