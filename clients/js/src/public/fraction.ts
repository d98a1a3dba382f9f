/** Exact fractions, and the power e^x of one to any number of digits. */

import { bitLength, exactDouble, gcd } from "./integers.js";

export class Fraction {
  readonly numerator: bigint;
  readonly denominator: bigint;

  constructor(numerator: bigint | number, denominator: bigint | number = 1n) {
    let [a, b] = [BigInt(numerator), BigInt(denominator)];
    if (b < 0n) [a, b] = [-a, -b];
    const common = gcd(a, b);
    this.numerator = common > 1n ? a / common : a;
    this.denominator = common > 1n ? b / common : b;
  }

  static ofDouble(value: number): Fraction {
    return new Fraction(...exactDouble(value));
  }

  plus(other: Fraction): Fraction {
    return new Fraction(
      this.numerator * other.denominator + other.numerator * this.denominator,
      this.denominator * other.denominator,
    );
  }

  minus(other: Fraction): Fraction {
    return this.plus(new Fraction(-other.numerator, other.denominator));
  }

  times(other: Fraction | bigint | number): Fraction {
    const factor = other instanceof Fraction ? other : new Fraction(other);
    return new Fraction(this.numerator * factor.numerator, this.denominator * factor.denominator);
  }

  over(other: Fraction | bigint | number): Fraction {
    const divisor = other instanceof Fraction ? other : new Fraction(other);
    return new Fraction(this.numerator * divisor.denominator, this.denominator * divisor.numerator);
  }

  /** Below 0, 0 or above 0 as this is below, equal to or above the other. */
  compare(other: Fraction | bigint | number): number {
    const right = other instanceof Fraction ? other : new Fraction(other);
    const difference = this.numerator * right.denominator - right.numerator * this.denominator;
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }

  equals(other: Fraction): boolean {
    return this.numerator === other.numerator && this.denominator === other.denominator;
  }

  /** Lowest terms, whole numbers without a denominator. */
  toString(): string {
    return this.denominator === 1n ? `${this.numerator}` : `${this.numerator}/${this.denominator}`;
  }

  /** As Python shows it in messages. */
  get shown(): string {
    return `Fraction(${this.numerator}, ${this.denominator})`;
  }
}

const GUARD = 64;

/** e^x times 2^bits, less than 1 below or above; x may be negative. */
export function power(x: Fraction, bits: number): bigint {
  const size = Math.max(0, bitLength(x.numerator) - bitLength(x.denominator) + 1);
  const halvings = size + 16;
  // Of the result, e^x has at most 1.5 |x| bits before the point; each squaring doubles the error.
  const whole = x.numerator > 0n ? Number(x.numerator / x.denominator) + 1 : 0;
  const work = BigInt(bits + Math.ceil(1.5 * whole) + halvings + GUARD);
  const one = 1n << work;
  const step = (x.numerator << work) / (x.denominator << BigInt(halvings));
  let [sum, term] = [one, one];
  for (let k = 1n; term !== 0n && term !== -1n; k++) {
    term = ((term * step) >> work) / k;
    sum += term;
  }
  for (let i = 0; i < halvings; i++) sum = (sum * sum) >> work;
  return sum >> (work - BigInt(bits));
}
