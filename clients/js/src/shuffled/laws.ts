/**
 * The two laws of what an analyzer sees of one instance, depending on one user's bit: exact up to a common factor.
 *
 * Weights are whole numbers of at least 100 significant bits; windows leave out at most the stated tail. The laws and
 * their proofs are those of `sfumato.shuffled.bitsum`.
 */

import { InputError } from "../errors.js";
import { Fraction } from "../public/fraction.js";
import { ceilDivide, floorDivide, integerRoot } from "../public/integers.js";
import { approximate, BITS, exponential, fixed, logarithm, ONE } from "./fixed.js";

/** Laws P and Q by atoms in ascending order of P / Q; all numbers are multiples of 2^-BITS. */
export interface Pair {
  first: bigint[];
  second: bigint[];
  /** What the curve may miss, under either law. */
  lost: bigint;
  /** Probabilities of atoms that the other law does not have. */
  onlyFirst: bigint;
  onlySecond: bigint;
}

const UNIT = 1n << 200n;
const NEGLIGIBLE = 1n << 90n;
const MOST_ATOMS = 1 << 19;
const BLOCKS = 1000;

/** Divide weights by their sum. */
function normalised(weights: readonly bigint[], total: bigint): bigint[] {
  return weights.map((weight) => (weight << BigInt(BITS)) / total);
}

export function sumOf(values: readonly bigint[]): bigint {
  return values.reduce((sum, value) => sum + value, 0n);
}

/** Standard deviation of the loss under P, and the largest loss, roughly: they choose a grid, which proves nothing. */
export function spread(pair: Pair): { deviation: number; largest: number } {
  const atoms = pair.first.map((first, i) => {
    const [p, q] = [approximate(first), approximate(pair.second[i] ?? 1n)];
    return { p, loss: p > 0 && q > 0 ? Math.log(p / q) : 0 };
  });
  const mean = atoms.reduce((sum, { p, loss }) => sum + p * loss, 0);
  const square = atoms.reduce((sum, { p, loss }) => sum + p * (loss - mean) ** 2, 0);
  const largest = atoms.reduce((most, { loss }) => Math.max(most, Math.abs(loss)), 0);
  return { deviation: Math.sqrt(square), largest };
}

/** Numbers of ones among the others for which pairs bound all, and how many participants those pairs have. */
export function responseCases(n: number): { participants: number; ones: number[] } {
  const width = Math.floor(n / BLOCKS);
  const ones: number[] = [];
  for (let k = 0; k <= Math.floor((n - 1) / 2); k += width + 1) ones.push(k);
  return { participants: n - width, ones };
}

/** Laws of the number of ones among the messages of randomised response, the last user's bit being 1 or 0. */
export function responsePair(participants: number, ones: number, flip: Fraction, tail: bigint): Pair {
  const law = onesInWindow(participants - 1, ones, flip, tail).weights;
  const [f, keep] = [flip.numerator, flip.denominator - flip.numerator];
  const total = flip.denominator * sumOf(law);
  const mixed = (a: bigint, b: bigint): bigint[] =>
    normalised(
      law.slice(1).map((weight, i) => a * weight + b * (law[i] ?? 0n)),
      total,
    );
  return { first: mixed(f, keep), second: mixed(keep, f), lost: tail, onlyFirst: 0n, onlySecond: 0n };
}

/** Weights of the number of ones among flipped bits, but for the stated tail. */
export function onesInWindow(count: number, ones: number, flip: Fraction, tail: bigint): { low: number; weights: bigint[] } {
  const { low, high } = bernsteinWindow(count, ones, flip, tail);
  return { low: low - 1, weights: onesAmongOthers(count, ones, flip, low, high) };
}

/** Bernstein's inequality for independent bits of total variance others p (1 - p), rounded outwards. */
function bernsteinWindow(others: number, ones: number, flip: Fraction, tail: bigint): { low: number; high: number } {
  const needed = logarithm((2n * ONE * ONE) / tail) + 1n;
  const chances = flip.times(new Fraction(1).minus(flip));
  const variance = fixed(chances.times(others)) + 1n;
  const root = integerRoot((needed * needed) / 9n + 2n * variance * needed) + 1n;
  const reach = needed / 3n + root + 1n;
  const keep = new Fraction(1).minus(flip);
  const mean = fixed(keep.times(ones).plus(flip.times(others - ones)));
  const low = Number(floorDivide(mean - reach, ONE));
  const high = Number(ceilDivide(mean + reach + 1n, ONE));
  return { low: Math.max(low, 0), high: Math.min(high, others) };
}

/** Weights of Bin(ones, 1 - p) + Bin(others - ones, p) from low - 1 to high + 1, by the recurrence of `rr`. */
function onesAmongOthers(others: number, ones: number, flip: Fraction, low: number, high: number): bigint[] {
  const [N, k] = [BigInt(others), BigInt(ones)];
  const [f, q] = [flip.numerator, flip.denominator - flip.numerator];
  const [product, squares, linear] = [f * q, f * f + q * q, k * q * q + (N - k) * f * f];
  const turn = Math.min(Math.max(Number(linear / squares), low), high);
  const law = new Array<bigint>(high - low + 3).fill(0n); // from low - 1 on
  const at = (value: number): number => value - low + 1;
  const get = (value: number): bigint => law[at(value)] ?? 0n;
  law[at(low)] = UNIT;
  if (low > 0) law[at(low - 1)] = neighbour(others, ones, f, q, low - 1, false);
  for (let s = low; s < turn; s++) {
    const S = BigInt(s);
    const ahead = (linear - squares * S) * get(s) + product * (N - S + 1n) * get(s - 1);
    law[at(s + 1)] = ahead / (product * (S + 1n));
  }
  const right = new Map<number, bigint>([[high, UNIT]]);
  if (high < others) right.set(high + 1, neighbour(others, ones, f, q, high, true));
  for (let s = high; s > turn; s--) {
    const S = BigInt(s);
    const behind = (squares * S - linear) * (right.get(s) ?? 0n) + product * (S + 1n) * (right.get(s + 1) ?? 0n);
    right.set(s - 1, behind / (product * (N - S + 1n)));
  }
  const [here, there] = [get(turn), right.get(turn) ?? 1n]; // where both meet
  for (const [s, weight] of right) if (s > turn) law[at(s)] = (weight * here) / there;
  return law;
}

/** W(v) of W(v + 1) = UNIT, or W(v + 1) of W(v) = UNIT: sums over how many of the ones were kept. */
function neighbour(others: number, ones: number, f: bigint, q: bigint, v: number, above: boolean): bigint {
  const zeros = others - ones;
  const start = likeliest(v, ones, zeros, f, q);
  // Both sums have the term of `start` kept ones; of v + 1 it is this many times that of v.
  const [more, less] = [BigInt(zeros - v + start) * f, BigInt(v + 1 - start) * q];
  const lower = keptSum(v, ones, zeros, f, q, start);
  const upper = (keptSum(v + 1, ones, zeros, f, q, start) * more) / less;
  return above ? (UNIT * upper) / lower : (UNIT * lower) / upper;
}

/** Of the terms T(j + 1) / T(j) in numerator and denominator, for v ones in all of which j were kept. */
function rise(v: number, j: number, ones: number, zeros: number, f: bigint, q: bigint): [bigint, bigint] {
  return [BigInt(ones - j) * BigInt(v - j) * q * q, BigInt(j + 1) * BigInt(zeros - v + j + 1) * f * f];
}

/** The j of the largest term of v, such that v + 1 has a term for it too. */
function likeliest(v: number, ones: number, zeros: number, f: bigint, q: bigint): number {
  let [low, high] = [Math.max(0, v + 1 - zeros), Math.min(ones, v)];
  while (low < high) {
    const middle = (low + high) >> 1;
    const [top, bottom] = rise(v, middle, ones, zeros, f, q);
    if (top >= bottom) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Sum of the terms of v over that of `start`, in UNITs; terms that cannot matter are left out. */
function keptSum(v: number, ones: number, zeros: number, f: bigint, q: bigint, start: number): bigint {
  let sum = UNIT;
  let term = UNIT;
  for (let j = start; j < Math.min(ones, v); j++) {
    const [top, bottom] = rise(v, j, ones, zeros, f, q);
    term = (term * top) / bottom;
    sum += term;
    if (term < NEGLIGIBLE && top < bottom) break;
  }
  term = UNIT;
  for (let j = start - 1; j >= Math.max(0, v - zeros); j--) {
    const [top, bottom] = rise(v, j, ones, zeros, f, q);
    term = (term * bottom) / top;
    sum += term;
    if (term < NEGLIGIBLE && bottom < top) break;
  }
  return sum;
}

/** A log-concave law of counts by the ratios of neighbours, Pr[v] / Pr[v - 1], cut where less than `tail` is left. */
export function countLaw(mode: number, ratio: (v: number) => Fraction, tail: bigint): { low: number; weights: bigint[] } {
  const up = [UNIT];
  for (let v = mode + 1; ; v++) {
    const { numerator, denominator } = ratio(v);
    const term = ((up[up.length - 1] ?? 0n) * numerator) / denominator;
    up.push(term);
    // What follows is below a geometric series of the next ratio.
    if (numerator < denominator && (term * numerator) / (denominator - numerator) <= (UNIT * tail) >> BigInt(BITS + 1)) break;
    if (up.length > MOST_ATOMS) throw tooMany();
  }
  const down: bigint[] = [];
  let term = UNIT;
  for (let v = mode; v > 0; v--) {
    const { numerator, denominator } = ratio(v);
    term = (term * denominator) / numerator;
    down.push(term);
    if (term * BigInt(v) <= (UNIT * tail) >> BigInt(BITS + 1)) break; // so many values are left at most, all smaller
    if (down.length > MOST_ATOMS) throw tooMany();
  }
  return { low: mode - down.length, weights: [...down.reverse(), ...up] };
}

export function tooMany(): InputError {
  return new InputError("the protocol's noise needs more messages than this device can check: take part with Python's");
}

/** Laws of N and N + 1. */
function shiftedPair(law: { weights: bigint[] }, tail: bigint): Pair {
  const masses = normalised(law.weights, sumOf(law.weights)).reverse();
  const [highest = 0n, lowest = 0n] = [masses[0], masses[masses.length - 1]];
  return {
    first: masses.slice(0, -1),
    second: masses.slice(1),
    lost: tail,
    onlyFirst: lowest,
    onlySecond: highest,
  };
}

export function poissonPair(mean: Fraction, tail: bigint): Pair {
  const mode = Number(mean.numerator / mean.denominator);
  return shiftedPair(
    countLaw(mode, (v) => rawFraction(mean.numerator, mean.denominator * BigInt(v)), tail),
    tail,
  );
}

/** Negative binomial counts: Pr[v] / Pr[v - 1] = (v + shape - 1) / v e^-rate. */
function negativeBinomialLaw(shape: bigint, rate: Fraction, tail: bigint): { low: number; weights: bigint[] } {
  const decay = exponential(-fixed(rate));
  const mode = Number(((shape - 1n) * decay) / (ONE - decay));
  return countLaw(
    mode,
    (v) => rawFraction((BigInt(v) + shape - 1n) * decay, BigInt(v) * ONE),
    tail,
  );
}

/** A fraction that need not be in lowest terms: looking for common factors would take most of the time. */
export function rawFraction(numerator: bigint, denominator: bigint): Fraction {
  return Object.assign(Object.create(Fraction.prototype) as Fraction, { numerator, denominator });
}

export function negativeBinomialPair(shape: bigint, rate: Fraction, tail: bigint): Pair {
  return shiftedPair(negativeBinomialLaw(shape, rate, tail), tail);
}

/** Laws of the loss of 3NB for the bits 0 and 1: -rate wherever A > B, else rate + ln(H(A) / H(A - 1)). */
export function threePair(rate: Fraction, floodShape: bigint, floodRate: Fraction, tail: bigint): Pair {
  // H needs the flood from further below, and to further above, than where its own values matter.
  const { low, weights } = negativeBinomialLaw(floodShape, floodRate, (tail * tail) >> BigInt(BITS + 4));
  const flood = normalised(weights, sumOf(weights));
  const decay = exponential(-fixed(rate));
  const twice = (decay * decay) >> BigInt(BITS);
  const smeared: bigint[] = [];
  let H = 0n;
  // Beyond the flood H falls like e^(-2 rate): until less than the tail is left.
  for (let a = 0; a < flood.length || H > (tail * (ONE - twice)) >> BigInt(BITS + 2); a++) {
    H = ((H * twice) >> BigInt(BITS)) + (flood[a] ?? 0n);
    smeared.push(H);
    if (smeared.length > MOST_ATOMS) throw tooMany();
  }
  const rest = ONE - decay;
  const first = smeared.slice(1).map((value) => (rest * value) >> BigInt(BITS));
  const second = smeared.slice(0, -1).map((value) => (((rest * decay) >> BigInt(BITS)) * value) >> BigInt(BITS));
  const equal = (ONE * ONE) / (ONE + decay);
  const empty = (rest * (smeared[0] ?? 0n)) >> BigInt(BITS);
  return {
    first: [(equal * decay) >> BigInt(BITS), ...first.reverse()],
    second: [equal, ...second.reverse()],
    lost: tail,
    // The lowest value has no partner here: at 0 there is none at all, else it is below the tail.
    onlyFirst: low === 0 ? empty : 0n,
    onlySecond: 0n,
  };
}
