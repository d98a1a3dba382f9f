/** Positive real numbers as whole multiples of 2^-BITS: what a certificate computes with, far beyond what it needs. */

import { Fraction, power } from "../public/fraction.js";
import { bitLength } from "../public/integers.js";

export const BITS = 256;
const SHIFT = BigInt(BITS);
export const ONE = 1n << SHIFT;

export function times(a: bigint, b: bigint): bigint {
  return (a * b) >> SHIFT;
}

export function over(a: bigint, b: bigint): bigint {
  return (a << SHIFT) / b;
}

export function fixed(value: Fraction): bigint {
  return (value.numerator << SHIFT) / value.denominator;
}

/** e^x, for x of either sign. */
export function exponential(x: bigint): bigint {
  return power(new Fraction(x, ONE), BITS);
}

/** ln(1 + t) - ln(1 - t) for a small t: twice the series of the inverse hyperbolic tangent. */
function doubledAtanh(t: bigint): bigint {
  const square = times(t, t);
  let [sum, term] = [0n, t];
  for (let k = 1n; term; k += 2n, term = times(term, square)) sum += term / k;
  return 2n * sum;
}

const LOG_2 = doubledAtanh(ONE / 3n);

/** Natural logarithm of a positive number. */
export function logarithm(x: bigint): bigint {
  const exponent = bitLength(x) - BITS;
  const mantissa = exponent >= 0 ? x >> BigInt(exponent) : x << BigInt(-exponent);
  const size = mantissa - ONE;
  const sign = size < 0n ? -1n : 1n;
  return BigInt(exponent) * LOG_2 + sign * doubledAtanh(over(sign * size, mantissa + ONE));
}

/** As a double, for choices on which nothing rests. */
export function approximate(x: bigint): number {
  const surplus = Math.max(0, bitLength(x) - 64);
  return Number(x >> BigInt(surplus)) * 2 ** (surplus - BITS);
}
