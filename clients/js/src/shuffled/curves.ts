/**
 * Privacy curves of one instance, and an upper bound of the delta of all of them together, in integers.
 *
 * The construction is that of `sfumato.shuffled.bitsum.curves`, where the proofs stand: one curve above every case, in
 * either order, known on a grid and joined by straight lines in e^t; the pair of laws whose curve that is, composed with
 * itself. Everything is rounded up. Where Python convolves by a Fourier transform and bounds its errors, polynomials are
 * multiplied here as whole numbers (L. Kronecker's substitution), without error.
 */

import { InputError } from "../errors.js";
import { Fraction } from "../public/fraction.js";
import { ceilDivide } from "../public/integers.js";
import { BITS, exponential, fixed, ONE, over, times } from "./fixed.js";
import { sumOf, type Pair } from "./laws.js";

const MOST_POINTS = 20_000;
const STEP_BITS = 64;
/** Of every height: weights are exact to 100 bits, of which differences of them lose less than 40. */
const MARGIN_BITS = 44n;
export const MASS_BITS = 96;
export const MASS = 1n << BigInt(MASS_BITS);
/** Part of delta that is spent on tails of the composed law, each time that one is cut. */
const TAIL_BITS = 40n;
const SLOT_BITS = 2 * MASS_BITS + 16;
const DIGITS = SLOT_BITS / 4;

/** The losses at which curves are known: multiples of a step, from 0 on. */
export class Grid {
  readonly step: Fraction;
  /** e^loss at each of them. */
  readonly powers: bigint[];

  constructor(step: number, largest: number) {
    if (!(step > 0 && step < Infinity && largest >= 0 && largest < Infinity)) {
      throw new InputError("so little noise leaves no law that can be computed; take a smaller epsilon or delta");
    }
    const width = Math.max(step, largest / MOST_POINTS);
    this.step = new Fraction(BigInt(Math.ceil(width * 2 ** STEP_BITS)), 1n << BigInt(STEP_BITS));
    const growth = exponential(fixed(this.step));
    this.powers = [ONE];
    const points = Math.ceil(largest / width) + 2;
    for (let j = 1; j < points; j++) this.powers.push(times(this.powers[j - 1] ?? ONE, growth));
  }
}

/** One pair of several, and the probability that it is the one. */
export interface Part {
  weight: bigint;
  pair: Pair;
}

/** Upper bounds of a curve at the grid's losses; the last one holds for all larger ones. */
export class Curve {
  readonly heights: bigint[];

  constructor(readonly grid: Grid) {
    this.heights = grid.powers.map(() => 0n);
  }

  /** Lift the curve above a pair of laws. */
  include(pair: Pair): void {
    this.lift(this.heightsOf([{ weight: ONE, pair }]));
  }

  lift(heights: readonly bigint[]): void {
    heights.forEach((height, j) => {
      if (height > (this.heights[j] ?? 0n)) this.heights[j] = height;
    });
  }

  /** The curve of a view that says which of some pairs the rest follows, in the order in which it is higher. */
  heightsOf(parts: readonly Part[], lost = 0n): bigint[] {
    const orders = [true, false].map((forward) => {
      const heights = this.heights.map(() => 0n);
      let added = lost;
      for (const { weight, pair } of parts) {
        const [first, second] = [pair.first, pair.second].map((law) => law.map((mass) => times(weight, mass)));
        if (forward) this.add(heights, first ?? [], second ?? []);
        else this.add(heights, second?.reverse() ?? [], first?.reverse() ?? []);
        // Every number is rounded once, by less than a unit.
        added += times(weight, (forward ? pair.onlyFirst : pair.onlySecond) + pair.lost) + BigInt(pair.first.length + 2);
      }
      return heights.map((excess) => excess + (excess >> MARGIN_BITS) + added);
    });
    return orders.reduce((left, right) => left.map((height, j) => larger(height, right[j] ?? 0n)));
  }

  /** Add P(E) - e^t Q(E): atoms ascend in P / Q, those with P > e^t Q are the last ones, and fewer as t grows. */
  private add(heights: bigint[], first: readonly bigint[], second: readonly bigint[]): void {
    let [P, Q] = [sumOf(first), sumOf(second)];
    const ratios = first.map((mass, i) => over(mass, larger(second[i] ?? 0n, 1n)));
    let atom = 0;
    for (const [j, power] of this.grid.powers.entries()) {
      while (atom < first.length && (ratios[atom] ?? 0n) <= power) {
        P -= first[atom] ?? 0n;
        Q -= second[atom] ?? 0n;
        atom++;
      }
      if (atom === first.length) break;
      heights[j] = (heights[j] ?? 0n) + P - times(power, Q);
    }
  }

  /** Probabilities of the losses -m, ..., m steps and of an infinite one, of the pair whose curve this is; rounded up. */
  masses(): { law: Law; infinite: bigint } {
    const { heights, grid } = this;
    const growth = grid.powers[1] ?? ONE;
    const above = heights.slice(1).map((height, j) => {
      const fall = (heights[j] ?? 0n) - height;
      return (fall << BigInt(2 * BITS)) / ((grid.powers[j] ?? ONE) * (growth - ONE));
    });
    above.push(0n);
    const up = above.slice(1).map((next, j) => {
      const mass = times(grid.powers[j + 1] ?? ONE, (above[j] ?? 0n) - next);
      return mass > 0n ? mass + 1n : 0n; // where rounding leaves a dent, filling it lifts the curve
    });
    const down = up.map((mass, j) => (mass << BigInt(BITS)) / (grid.powers[j + 1] ?? ONE) + (mass ? 1n : 0n));
    const infinite = heights[heights.length - 1] ?? 0n;
    const left = ONE - infinite - sumOf(up) - sumOf(down);
    const all = [...down.reverse(), left > 0n ? left : 0n, ...up];
    const entries = all.map((mass) => ceilDivide(mass, 1n << BigInt(BITS - MASS_BITS)));
    return { law: { low: -up.length, entries }, infinite };
  }
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

/** Upper bounds of the probabilities of the losses low, low + 1, ... steps, in units of 2^-MASS_BITS. */
export interface Law {
  low: number;
  entries: bigint[];
}

function packed(entries: readonly bigint[]): bigint {
  let text = "";
  for (let i = entries.length - 1; i >= 0; i--) text += (entries[i] ?? 0n).toString(16).padStart(DIGITS, "0");
  return BigInt(`0x${text || "0"}`);
}

/** The law of a sum of two losses, exactly but for rounding up at the end. */
export function convolved(a: Law, b: Law): Law {
  const left = packed(a.entries);
  const product = left * (a === b ? left : packed(b.entries));
  const size = a.entries.length + b.entries.length - 1;
  const text = product.toString(16).padStart(size * DIGITS, "0");
  const entries = Array.from({ length: size }, (_, i) => {
    const end = text.length - i * DIGITS;
    return ceilDivide(BigInt(`0x${text.slice(end - DIGITS, end)}`), MASS);
  });
  return { low: a.low + b.low, entries };
}

/** Cut the ends off a law: what lies below is counted at its lowest loss, what lies above is returned as lost. */
function trimmed(law: Law, allowed: bigint): { law: Law; lost: bigint } {
  const { entries } = law;
  let [start, below] = [0, 0n];
  while (start < entries.length - 1 && below + (entries[start] ?? 0n) <= allowed) below += entries[start++] ?? 0n;
  let [end, lost] = [entries.length, 0n];
  while (end > start + 1 && lost + (entries[end - 1] ?? 0n) <= allowed) lost += entries[--end] ?? 0n;
  const kept = entries.slice(start, end);
  kept[0] = (kept[0] ?? 0n) + below;
  return { law: { low: law.low + start, entries: kept }, lost };
}

/** An upper bound of delta at epsilon for independent instances, each below the curve, in units of 2^-BITS. */
export function composedDelta(curve: Curve, instances: number, epsilon: Fraction, delta: bigint): bigint {
  const one = curve.masses();
  let law = one.law;
  let lost = one.infinite * BigInt(instances);
  let copies = 1;
  const most = BigInt(instances);
  const cut = (): void => {
    const budget = (delta >> BigInt(BITS - MASS_BITS)) >> TAIL_BITS;
    const result = trimmed(law, (budget * BigInt(copies)) / most);
    law = result.law;
    // Of a law of so many losses there are instances / copies in all.
    lost += (result.lost << BigInt(BITS - MASS_BITS)) * ceilDivide(most, BigInt(copies));
  };
  for (const bit of instances.toString(2).slice(1)) {
    law = convolved(law, law);
    copies *= 2;
    cut();
    if (bit === "1") {
      law = convolved(law, one.law);
      copies += 1;
      cut();
    }
  }
  return lost + excess(law, curve.grid.step, epsilon);
}

/** The sum over losses l > epsilon of their probability times 1 - e^(epsilon - l). */
function excess(law: Law, step: Fraction, epsilon: Fraction): bigint {
  const first = epsilon.over(step);
  const start = Number(first.numerator / first.denominator) + 1;
  const shrink = exponential(-fixed(step));
  let power = exponential(fixed(epsilon.minus(step.times(start))));
  let sum = 0n;
  for (let l = start; l < law.low + law.entries.length; l++) {
    // A power that is rounded down makes the sum larger.
    if (l >= law.low) sum += (law.entries[l - law.low] ?? 0n) * (ONE - power + 1n);
    power = times(power, shrink);
  }
  return ceilDivide(sum, MASS);
}
