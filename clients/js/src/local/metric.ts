/** What the metric mechanisms share: the radius, and scales of noise that are rounded up, in exact arithmetic. */

import { InputError } from "../errors.js";
import { real } from "../public/codec.js";
import { LARGEST, SMALLEST, type Domain } from "../public/domain.js";
import { Fraction } from "../public/fraction.js";
import { bitLength, ceilDivide, integerRoot } from "../public/integers.js";
import { floatText, shortNumber } from "../public/text.js";

/** A radius. */
export const LENGTH = real(SMALLEST, LARGEST);
const LEAST_RADIUS = 1e-6;
const DEFAULT_SPAN = 2 ** 18;
const SIGNIFICANT_BITS = 6;
/** Python computes norms in floating point, to more digits than this. */
const NORM_ERROR = new Fraction(10n ** 9n + 1n, 10n ** 9n);
const ROOT_BITS = 96n;

/** Refuse a radius within which nothing is hidden: below a millionth of the width, or of a length. */
export function checkRadius(radius: number, domain: Domain, pointBits: number, scales: readonly number[]): void {
  const width = domain.declared
    ? domain.widest
    : Math.max(2 ** pointBits / Math.min(...scales), domain.widest / DEFAULT_SPAN);
  if (!(radius >= LEAST_RADIUS * width)) {
    throw new InputError(
      `the protocol's radius ${floatText(radius)} is less than a millionth of ${shortNumber(width)}: it hides nothing`,
    );
  }
}

export function near(radius: number): string {
  return `points within ${floatText(radius)} of each other`;
}

/** How much noise covers what rounding moves either of two points by, in steps of the grid. */
export function stepsApart(reach: bigint): Fraction {
  return new Fraction((1n << 50n) + 1n + reach, 1n << 50n);
}

/** Square root of a fraction from 0 on, rounded up in about the 96th bit. */
function rootAbove(value: Fraction): Fraction {
  const bits = ROOT_BITS + BigInt(Math.max(0, bitLength(value.denominator) - bitLength(value.numerator)));
  const scaled = ceilDivide(value.numerator << (2n * bits), value.denominator);
  const root = integerRoot(scaled);
  return new Fraction(root * root === scaled ? root : root + 1n, 1n << bits);
}

/** How far a radius moves a projection: radius times the norm of its slopes, and what rounding adds. */
export function moved(
  direction: readonly number[],
  scales: readonly Fraction[],
  radius: Fraction,
  apart: Fraction,
  euclidean: boolean,
): Fraction {
  const slopes = direction.map((a, j) => (scales[j] ?? new Fraction(0)).times(BigInt(Math.abs(a))));
  const size = euclidean
    ? rootAbove(slopes.reduce((sum, slope) => sum.plus(slope.times(slope)), new Fraction(0)))
    : slopes.reduce((most, slope) => (slope.compare(most) > 0 ? slope : most), new Fraction(0));
  const total = direction.reduce((sum, a) => sum + BigInt(Math.abs(a)), 0n);
  return radius.times(size).plus(apart.times(total));
}

/** Round a scale, with its margin, up to a whole number of six significant bits. */
export function coarse(scale: Fraction): bigint {
  const exact = scale.times(NORM_ERROR);
  const whole = ceilDivide(exact.numerator, exact.denominator);
  const surplus = BigInt(Math.max(0, bitLength(whole) - SIGNIFICANT_BITS));
  return ceilDivide(whole, 1n << surplus) << surplus;
}
