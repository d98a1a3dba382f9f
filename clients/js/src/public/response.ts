/** Randomised response in exact integers; see `sfumato.privacy.response` for the proof. */

import { InputError } from "../errors.js";
import type { Coins } from "./coins.js";
import { Fraction, power } from "./fraction.js";

const BITS = 256;
const MARGIN = 10n ** 40n;
/** Beyond it every pair of weights that a protocol may hold keeps the promise. */
const SURELY_KEPT = 2000;
/** Beyond it Python's decimals overflow, and so the document is refused. */
const OVERFLOW = 2_302_585;

/** Whether the odds same / other are at most e^epsilon, with a margin of 10^-40. */
export function keepsEpsilon(same: bigint, other: bigint, epsilon: Fraction): boolean {
  if (!(0n < other && other <= same)) return false;
  if (epsilon.compare(OVERFLOW) > 0) throw new RangeError("Overflow");
  if (epsilon.compare(SURELY_KEPT) > 0) return true;
  return (same * MARGIN) << BigInt(BITS) <= other * (power(epsilon, BITS) - 1n) * (MARGIN - 1n);
}

export function checkWeights(same: bigint, other: bigint, epsilon: Fraction): void {
  if (!keepsEpsilon(same, other, epsilon)) {
    throw new InputError(
      "the protocol's probabilities do not keep the epsilon that it promises: do not report under it, and tell the " +
        "organiser",
    );
  }
}

/** Of `outcomes` outputs in a circle, `width` in a row have the weight `same` each, all others `other`. */
export class Response {
  readonly total: bigint;

  constructor(
    readonly same: bigint,
    readonly other: bigint,
    readonly outcomes: number,
    readonly width = 1,
  ) {
    this.total = BigInt(width) * same + BigInt(outcomes - width) * other;
  }

  /** The output that a number below `total` picks, for a window that begins at `start`. */
  output(start: number, number: bigint): number {
    const inner = BigInt(this.width) * this.same;
    const step = number < inner ? number / this.same : BigInt(this.width) + (number - inner) / this.other;
    const place = (start + Number(step)) % this.outcomes;
    return place < 0 ? place + this.outcomes : place;
  }

  draw(start: number, coins: Coins): number {
    return this.output(start, coins.below(this.total));
  }
}
