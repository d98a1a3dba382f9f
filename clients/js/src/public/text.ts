/** Numbers and values as Python writes them, so that messages and documents have the same words. */

import { Fraction, power } from "./fraction.js";
import type { Json } from "./json.js";

/** A binary64 number by its shortest digits: 0.5, 1.0, 1e-05, 1e+16. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0.0";
  const [digits = "", exponent = "0"] = value.toExponential().split("e");
  const size = Number(exponent);
  if (value === 0 || (size >= -4 && size < 16)) {
    const text = String(value);
    return text.includes(".") ? text : `${text}.0`;
  }
  return `${digits}e${size < 0 ? "-" : "+"}${String(Math.abs(size)).padStart(2, "0")}`;
}

/** Six significant digits, as %g. */
export function shortNumber(value: number, digits = 6): string {
  if (!Number.isFinite(value)) return floatText(value);
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const [front = "", exponent = "0"] = value.toExponential(digits - 1).split("e");
  const size = Number(exponent);
  const bare = (text: string): string => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (size >= -4 && size < digits) return bare(value.toFixed(digits - 1 - size));
  return `${bare(front)}e${size < 0 ? "-" : "+"}${String(Math.abs(size)).padStart(2, "0")}`;
}

/** Controls, formatting, surrogates, unassigned and private characters, and all spaces but the plain one. */
export const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

const ESCAPES: Record<string, string> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function quoted(text: string, ascii = true): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  let made = mark;
  for (const one of text) {
    const code = one.codePointAt(0) ?? 0;
    if (one === mark) made += `\\${one}`;
    else if (one in ESCAPES) made += ESCAPES[one] ?? "";
    else if (code < 0x20 || code === 0x7f || (code > 0x7f && code < 0x100 && (ascii || UNPRINTABLE.test(one)))) made += `\\x${hexDigits(code, 2)}`;
    else if (code < 0x7f || (!ascii && !UNPRINTABLE.test(one))) made += one;
    else made += code < 0x10000 ? `\\u${hexDigits(code, 4)}` : `\\U${hexDigits(code, 8)}`;
  }
  return made + mark;
}

function hexDigits(code: number, count: number): string {
  return code.toString(16).padStart(count, "0");
}

/** A class as Python's repr() shows it. */
export function represented(value: string | bigint): string {
  return typeof value === "bigint" ? `${value}` : quoted(value, false);
}

/** A JSON value as Python's ascii() shows it. */
export function shown(value: Json | undefined): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "bigint") return `${value}`;
  if (typeof value === "number") return floatText(value);
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map(shown).join(", ")}]`;
  return `{${Object.entries(value)
    .map(([key, part]) => `${quoted(key)}: ${shown(part)}`)
    .join(", ")}}`;
}

/** The same, cut after 40 characters. */
export function brief(value: Json | undefined): string {
  const text = shown(value);
  return text.length <= 40 ? text : `${text.slice(0, 40)}...`;
}

/** digits times 10^exponent as Python's Decimal writes it; `plain` never takes an exponent. */
function decimalText(digits: bigint, exponent: number, plain: boolean): string {
  const text = `${digits}`;
  const adjusted = exponent + text.length - 1;
  if (plain || (exponent <= 0 && adjusted >= -6)) {
    if (exponent >= 0) return text + "0".repeat(exponent);
    const padded = text.padStart(1 - exponent, "0");
    return `${padded.slice(0, exponent)}.${padded.slice(exponent)}`;
  }
  const front = text.length > 1 ? `${text[0]}.${text.slice(1)}` : text;
  return `${front}E${adjusted < 0 ? "-" : "+"}${Math.abs(adjusted)}`;
}

/** So many significant digits of a positive fraction, rounded up or down; `rest` tells whether something was left. */
function significant(amount: Fraction, digits: number, up: boolean): { digits: bigint; exponent: number; rest: boolean } {
  let exponent = `${amount.numerator}`.length - `${amount.denominator}`.length - digits - 1;
  for (;;) {
    const scale = 10n ** BigInt(Math.abs(exponent));
    const [top, bottom] =
      exponent < 0 ? [amount.numerator * scale, amount.denominator] : [amount.numerator, amount.denominator * scale];
    const rest = top % bottom !== 0n;
    const found = top / bottom + (rest && up ? 1n : 0n);
    if (`${found}`.length <= digits) return { digits: found, exponent, rest };
    exponent++;
  }
}

function stripped(digits: bigint, exponent: number, most: number): [bigint, number] {
  while (exponent < most && digits !== 0n && digits % 10n === 0n) [digits, exponent] = [digits / 10n, exponent + 1];
  return digits === 0n ? [0n, 0] : [digits, exponent];
}

/** A fraction from 0 on: exactly where that is short, else six digits marked "about", rounded up by default. */
export function amountText(amount: Fraction, up = true): string {
  if (amount.numerator === 0n) return "0";
  const exact = significant(amount, 12, false);
  if (!exact.rest) {
    const [digits, exponent] = stripped(exact.digits, exact.exponent, 0);
    return decimalText(digits, exponent, exponent + `${digits}`.length - 1 >= -6);
  }
  if (amount.toString().length <= 12) return amount.toString();
  const rounded = significant(amount, 6, up);
  const [digits, exponent] = stripped(rounded.digits, rounded.exponent, Infinity);
  return `about ${decimalText(digits, exponent, false)}`;
}

/** e to the power epsilon in four digits, rounded up, and what it is. */
export function factorText(epsilon: Fraction): string {
  const named = `e to the power epsilon, with epsilon = ${amountText(epsilon)}`;
  if (epsilon.compare(20) > 0) return `${named}, which is so large that it promises almost nothing`;
  const factor = significant(new Fraction(power(epsilon, 128), 1n << 128n), 4, true);
  return `${decimalText(factor.digits, factor.exponent, true)} (${named})`;
}
