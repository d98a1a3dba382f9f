/**
 * Whether one instance of `pure` keeps an epsilon with no delta, in integers.
 *
 * The condition, (1 - q) (f(j) - e^(e - e') f(j - 1)) <= (e^e - 1) q f(j + s) for every j >= 0 and the flood's law f, and
 * its proof are those of `sfumato.shuffled.bitsum.signed`. Over f(j) both sides fall with j, so that the left side at one j
 * against the right side at a later one checks all in between. Logarithms are off by far less than the margin.
 */

import { Fraction } from "../public/fraction.js";
import { ceilDivide } from "../public/integers.js";
import type { Pure } from "./bitsums.js";
import { exponential, fixed, logarithm, ONE } from "./fixed.js";

const MARGIN = ONE >> 100n;
/** Checks of blocks at most; a document that needs more has no flood that anybody would choose. */
const MOST_CHECKS = 20_000;

export function keepsPurely({ rate, drop, copies, floodShape, floodRate }: Pure, epsilon: Fraction): boolean {
  const slack = epsilon.minus(rate);
  if (slack.compare(0) <= 0) return false;
  const others = floodShape - 1n;
  const growth = exponential(fixed(slack.plus(floodRate))) - 1n;
  // From here on the left side is not positive; at 0 it always is, as nothing comes before.
  const last = others ? ceilDivide(others * ONE, growth - ONE) : 1n;
  const gain =
    logarithm(exponential(fixed(epsilon)) - ONE - 1n) +
    logarithm(fixed(drop.over(new Fraction(1).minus(drop)))) -
    fixed(floodRate.times(copies));
  const left = (j: bigint): bigint => ONE - (j && (growth * j) / (j + others)) + 4n;
  const right = (j: bigint): bigint => gain + logarithm(rising(j + copies, others)) - logarithm(rising(j, others));
  let [start, width] = [0n, 1n];
  for (let checks = 0; start < last; checks++) {
    const end = start + width < last ? start + width - 1n : last - 1n;
    if (logarithm(left(start)) + MARGIN <= right(end)) [start, width] = [end + 1n, 2n * width];
    else if (width > 1n && checks < MOST_CHECKS) width = ceilDivide(width, 4n);
    else return false;
  }
  return true;
}

/** (j + 1) (j + 2) ... (j + count) */
function rising(j: bigint, count: bigint): bigint {
  if (count < 16n) {
    let product = 1n;
    for (let i = 1n; i <= count; i++) product *= j + i;
    return product;
  }
  const half = count / 2n;
  return rising(j, half) * rising(j + half, count - half);
}
