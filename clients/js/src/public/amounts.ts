/** Epsilons and deltas as fractions: a decimal means what it says, and what is too long is rounded down. */

import { InputError } from "../errors.js";
import { Fraction } from "./fraction.js";
import { floatText, shown } from "./text.js";

const LARGEST_DENOMINATOR = 10n ** 6n;
const SIGNIFICANT_DIGITS = 6;
const LARGEST_EPSILON = 1000;
const SMALLEST_EXPONENT = -400;
const MOST_BITS = 3600;
const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?$/;

/** The fraction that a text stands for, a decimal or two whole numbers with a stroke; null if it is no number. */
export function fractionFromText(text: string): Fraction | null {
  const parts = /^(\d{1,1100})\/(\d{1,1100})$/.exec(text);
  if (parts) return BigInt(parts[2] ?? 0) ? new Fraction(BigInt(parts[1] ?? 0), BigInt(parts[2] ?? 1)) : null;
  if (!DECIMAL.test(text) || text.length > 1100) return null;
  const [front = "", exponent = "0"] = text.toLowerCase().split("e");
  const [before = "", after = ""] = front.split(".");
  const size = Number(exponent) - after.length;
  if (Math.abs(size) > 2000) return null;
  const digits = BigInt(`${before.replace(/^[+-]/, "")}${after}`) * (front.startsWith("-") ? -1n : 1n);
  return size < 0 ? new Fraction(digits, 10n ** BigInt(-size)) : new Fraction(digits * 10n ** BigInt(size));
}

/** The fraction that noise is calibrated to; throw unless it is above 0 and at most 1000. */
export function exactEpsilon(value: Fraction | string): Fraction {
  return exactPositive(value, "epsilon", LARGEST_EPSILON);
}

export function exactPositive(value: Fraction | string, name: string, largest: number): Fraction {
  const parsed = typeof value === "string" ? fractionFromText(value) : value;
  const said = typeof value === "string" ? shown(value) : value.shown;
  if (!parsed || parsed.numerator <= 0n || parsed.compare(largest) > 0) {
    throw new InputError(
      `${name} must be a finite number above 0 and at most ${largest}, such as 1, 0.5, '0.1' or Fraction(1, 3); got ` +
        `${said}.`,
    );
  }
  if (typeof value === "string" && !value.includes("/") && parsed.compare(new Fraction(1, 10n ** 400n)) < 0) {
    throw new InputError(`${name} is too small to be of use: got ${said}. Pass at least 1e${SMALLEST_EXPONENT}.`);
  }
  return roundedDown(parsed);
}

function roundedDown(value: Fraction): Fraction {
  if (value.denominator <= LARGEST_DENOMINATOR) return value;
  let scale = 1n;
  let exponent = 0;
  while (value.times(scale).compare(10n ** BigInt(SIGNIFICANT_DIGITS - 1)) < 0) [scale, exponent] = [scale * 10n, exponent + 1];
  if (exponent === 0) {
    const size = 10n ** BigInt(`${value.numerator / value.denominator}`.length - SIGNIFICANT_DIGITS);
    return new Fraction((value.numerator / (value.denominator * size)) * size);
  }
  return new Fraction((value.numerator * scale) / value.denominator, scale);
}

/** An epsilon without any rounding: a promise or a charge that is rounded down would claim too much. */
export function promisedEpsilon(value: Fraction | string): Fraction {
  exactEpsilon(value);
  const exact = typeof value === "string" ? fractionFromText(value) : value;
  if (!exact || exact.denominator.toString(2).length > MOST_BITS) {
    throw new InputError("epsilon has more than a thousand digits; round it up to fewer");
  }
  return exact;
}

export function checkedDelta(delta: number): number {
  if (!(delta >= 0 && delta < 1)) {
    throw new InputError(`delta must be a number with 0 <= delta < 1, got ${floatText(delta)}`);
  }
  return delta;
}
