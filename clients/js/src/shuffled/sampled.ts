/**
 * Randomised response of which everybody sends only some: a curve above all numbers of ones among the others.
 *
 * The reductions and their proofs are those of `SampledResponse` in `sfumato.shuffled.bitsum.rr`: groups of numbers of
 * messages are bounded by their largest, blocks of numbers of ones by giving messages away. Given the number of messages,
 * the ones are a mixture over how many of the senders hold a one; where Python takes a Fourier transform, the mixture is
 * multiplied out by halves, in whole numbers that are rounded up.
 */

import { InputError } from "../errors.js";
import { breath } from "../public/breath.js";
import { Fraction } from "../public/fraction.js";
import { ceilDivide } from "../public/integers.js";
import { shortNumber } from "../public/text.js";
import { convolved, Curve, Grid, MASS, MASS_BITS, type Law, type Part } from "./curves.js";
import { approximate, BITS, fixed, ONE } from "./fixed.js";
import { countLaw, onesInWindow, rawFraction, spread, sumOf, type Pair } from "./laws.js";

const BLOCKS = 400;
const LIFT = 1000n; // a larger block may raise the curve by one in so many
const LEAST_LIFT = ONE / 10n ** 12n;
const GROUPS = 48; // half as many again as Python has, as a margin
const MOST_SENT = 10 ** 6;
/** Of each probability: halves are put together at most 16 times, and each time an error doubles and four are added. */
const ERROR = ONE >> 72n;
const TRUSTED = MASS >> 56n; // smaller probabilities are counted as lost

/** A curve above every case; lets the page breathe in between. */
export async function sampledCurve(n: number, flip: Fraction, send: Fraction, tail: bigint, steps: number): Promise<Curve> {
  const [smallest, last, mixing] = [Math.floor(n / BLOCKS), (n - 1) >> 1, new Mixing(flip)];
  const first = await view(n - smallest, 0, send, mixing, tail);
  const chance = approximate(fixed(flip));
  const { deviation, largest } = spreadOf(first);
  const curve = new Curve(new Grid(deviation / steps, Math.min(1.5 * largest, Math.log((1 - chance) / chance))));
  curve.lift(curve.heightsOf(first, tail / 2n));
  let [ones, width] = [smallest + 1, smallest];
  while (ones <= last) {
    width = Math.min(2 * width + 1, last - ones);
    for (;;) {
      const block = curve.heightsOf(await view(n - width, ones, send, mixing, tail), tail / 2n);
      const higher = block.some((height, j) => {
        const before = curve.heights[j] ?? 0n;
        return height > before + before / LIFT + LEAST_LIFT;
      });
      if (higher && width > smallest) {
        width = Math.max(width >> 1, smallest);
        continue;
      }
      curve.lift(block);
      break;
    }
    ones += width + 1;
  }
  return curve;
}

/** Root mean square of the parts' deviations, and the largest loss. */
function spreadOf(parts: readonly Part[]): { deviation: number; largest: number } {
  const each = parts.map(({ weight, pair }) => ({ share: approximate(weight), ...spread(pair) }));
  return {
    deviation: Math.sqrt(each.reduce((sum, { share, deviation }) => sum + share * deviation ** 2, 0)),
    largest: each.reduce((most, { largest }) => Math.max(most, largest), 0),
  };
}

/** What is seen if `ones` of the others hold a one, by groups of numbers of messages, but for half of the tail. */
async function view(participants: number, ones: number, send: Fraction, mixing: Mixing, tail: bigint): Promise<Part[]> {
  const [N, { numerator, denominator }] = [BigInt(participants), send];
  const mean = (participants * Number(numerator)) / Number(denominator);
  if (mean > MOST_SENT) {
    throw new InputError(
      `a message budget is certified for up to ${MOST_SENT} messages an instance; ${participants} participants would ` +
        `send ${shortNumber(mean, 2)}. Lower the budget, or leave out messages.`,
    );
  }
  const rest = denominator - numerator;
  const { low, weights } = countLaw(
    Number((N * numerator) / denominator),
    (v) => rawFraction((N - BigInt(v) + 1n) * numerator, BigInt(v) * rest),
    tail / 4n,
  );
  const total = sumOf(weights);
  const parts: Part[] = [];
  let start = 0;
  for (let group = 1; group <= GROUPS; group++) {
    await breath();
    const end = Math.ceil((group * weights.length) / GROUPS);
    const weight = ceilDivide(sumOf(weights.slice(start, end)) << BigInt(BITS), total);
    if (end > start) parts.push({ weight, pair: pairGiven(low + end - 1, participants, ones, mixing, tail / 2n) });
    start = end;
  }
  return parts;
}

/** Laws of the number of ones among so many messages, the user's bit being 1 or 0. */
function pairGiven(messages: number, participants: number, ones: number, mixing: Mixing, tail: bigint): Pair {
  const [with1, with0] = [1, 0].map((bit) => onesGiven(messages, participants, ones + bit, mixing, tail / 8n)) as [Law, Law];
  const low = Math.min(with1.low, with0.low);
  const high = Math.max(with1.low + with1.entries.length, with0.low + with0.entries.length);
  const [first, second]: [bigint[], bigint[]] = [[], []];
  let unknown = 0n;
  for (let value = low; value < high; value++) {
    const [a, b] = [with1, with0].map((law) => law.entries[value - law.low] ?? 0n) as [bigint, bigint];
    if (a > TRUSTED && b > TRUSTED) {
      first.push(a << BigInt(BITS - MASS_BITS));
      second.push(b << BigInt(BITS - MASS_BITS));
    } else unknown += (a + b) << BigInt(BITS - MASS_BITS);
  }
  const odds = ceilDivide(mixing.flip.denominator, mixing.flip.numerator); // no loss that is looked at is above its logarithm
  const lost = tail + unknown + ERROR * BigInt(high - low) * (1n + odds);
  return { first, second, lost, onlyFirst: 0n, onlySecond: 0n };
}

/** Law of the ones among flipped bits drawn from the participants, of whom `ones` hold a 1. */
function onesGiven(messages: number, participants: number, ones: number, mixing: Mixing, tail: bigint): Law {
  const [t, N, K] = [BigInt(messages), BigInt(participants), BigInt(ones)];
  const held = countLaw(
    Math.max(Math.floor((messages * ones) / participants), messages + ones - participants),
    (v) => rawFraction((K - BigInt(v) + 1n) * (t - BigInt(v) + 1n), BigInt(v) * (N - K - t + BigInt(v))),
    tail,
  );
  while (held.weights.length > 1 && !held.weights[held.weights.length - 1]) held.weights.pop();
  while (held.weights.length > 1 && !held.weights[0]) [held.low, held.weights] = [held.low + 1, held.weights.slice(1)];
  const varied = held.weights.length - 1; // so many senders hold a one or not, the bits of all others are known
  const { low, weights } = onesInWindow(messages - varied, held.low, mixing.flip, tail);
  const known = { low, entries: shares(weights) };
  return convolved(known, mixing.of(shares(held.weights)));
}

/** Weights over their sum, in units of 2^-MASS_BITS. */
function shares(weights: readonly bigint[]): bigint[] {
  const total = sumOf(weights);
  return weights.map((weight) => ceilDivide(weight << BigInt(MASS_BITS), total));
}

/** The law of so many flipped bits of which h are ones with a given chance. */
class Mixing {
  private readonly powers = new Map<number, Law>();
  private readonly one: Law;

  constructor(readonly flip: Fraction) {
    const zero = ceilDivide(flip.numerator << BigInt(MASS_BITS), flip.denominator);
    this.one = { low: 0, entries: [zero, MASS - zero + 1n] };
  }

  /** Of so many bits that are one. */
  private ones(count: number): Law {
    if (count === 1) return this.one;
    const half = count >> 1;
    const made = this.powers.get(count) ?? convolved(this.ones(half), this.ones(count - half));
    this.powers.set(count, made);
    return made;
  }

  private zeros(count: number): Law {
    const { entries } = this.ones(count);
    return { low: 0, entries: [...entries].reverse() };
  }

  of(chances: readonly bigint[]): Law {
    if (chances.length === 1) return { low: 0, entries: [...chances] };
    const half = chances.length >> 1;
    const few = convolved(this.of(chances.slice(0, half)), this.zeros(chances.length - half));
    const many = convolved(this.of(chances.slice(half)), this.ones(half));
    return { low: 0, entries: few.entries.map((entry, s) => entry + (many.entries[s] ?? 0n)) };
  }
}
