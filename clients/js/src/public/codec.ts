/** Fields of documents: the one place where what was written is checked; what is refused is named by its path. */

import { InputError } from "../errors.js";
import { Fraction } from "./fraction.js";
import { isObject, type Json, type JsonObject } from "./json.js";
import { brief, shortNumber, shown, UNPRINTABLE } from "./text.js";

export type Field<T> = (value: Json, path: string) => T;

export function refuse(path: string, wanted: string, value: Json | undefined): InputError {
  return new InputError(`${path || "the document"} must be ${wanted}, got ${brief(value)}`);
}

/** A whole number within a range that may be beyond binary64. */
export function big(least: bigint, most: bigint): Field<bigint> {
  return (value, path) => {
    if (typeof value !== "bigint" || value < least || value > most) {
      throw refuse(path, `a whole number from ${least} to ${most}`, value);
    }
    return value;
  };
}

export function whole(least: number, most: number): Field<number> {
  const read = big(BigInt(least), BigInt(most));
  return (value, path) => Number(read(value, path));
}

export function real(least = -Infinity, most = Infinity): Field<number> {
  return (value, path) => {
    const number = typeof value === "bigint" ? Number(value) : value;
    if (typeof number !== "number" || !(least <= number && number <= most) || !(Math.abs(number) <= 1e308)) {
      throw refuse(path, `a number from ${shortNumber(least)} to ${shortNumber(most)}`, value);
    }
    return number;
  };
}

const RATIO = /^[0-9]{1,1100}(\/[0-9]{1,1100})?$/;

/** A fraction from 0 on as text in lowest terms. */
export function ratio(options: { largest?: bigint; positive?: boolean } = {}): Field<Fraction> {
  return (value, path) => {
    const found = typeof value === "string" ? ratioFromText(value) : null;
    if (!found || found.toString() !== value || (options.positive && !found.numerator)) {
      const kind = options.positive ? "a positive" : "a";
      throw refuse(path, `${kind} fraction's text in lowest terms, such as '1/3'`, value);
    }
    const { largest } = options;
    if (largest !== undefined && (found.numerator > largest || found.denominator > largest)) {
      throw refuse(path, `a fraction with terms up to ${largest}`, value);
    }
    return found;
  };
}

function ratioFromText(text: string): Fraction | null {
  const [above = "", below = "1"] = text.split("/");
  return RATIO.test(text) && BigInt(below) ? new Fraction(BigInt(above), BigInt(below)) : null;
}

/** A positive fraction as text, from one number on and below another. */
export function between(least: Fraction, limit: Fraction): Field<Fraction> {
  const read = ratio({ largest: 1n << 120n, positive: true });
  return (value, path) => {
    const found = read(value, path);
    if (found.compare(least) < 0 || found.compare(limit) >= 0) {
      throw refuse(path, `a positive fraction from ${least.toString()} on and below ${limit.toString()}`, value);
    }
    return found;
  };
}

/** A positive whole number as text. */
export function countText(most: bigint): Field<bigint> {
  return (value, path) => {
    if (typeof value !== "string" || !/^[0-9]{1,20}$/.test(value)) throw refuse(path, "a whole number's text", value);
    if (value.startsWith("0") || BigInt(value) > most) {
      throw refuse(path, `a whole number's text from 1 to ${most}`, value);
    }
    return BigInt(value);
  };
}

/** A whole number from 0 on as text. */
export function digits(most: bigint): Field<bigint> {
  return (value, path) => {
    const good = typeof value === "string" && /^[0-9]+$/.test(value) && value.length <= `${most}`.length;
    if (!good || `${BigInt(value)}` !== value || BigInt(value) > most) {
      throw refuse(path, "the digits of a whole number", value);
    }
    return BigInt(value);
  };
}

export function oneOf<T extends string>(...choices: readonly T[]): Field<T> {
  return (value, path) => {
    const found = choices.find((choice) => choice === value);
    if (found === undefined) throw refuse(path, `one of ${choices.map((choice) => shown(choice)).join(", ")}`, value);
    return found;
  };
}

export function line(longest = 1000): Field<string> {
  return (value, path) => {
    if (typeof value !== "string" || UNPRINTABLE.test(value) || [...value].length > longest) {
      throw refuse(path, `one line of printable text, of up to ${longest} characters`, value);
    }
    return value;
  };
}

export function hexadecimal(count: number): Field<string> {
  return (value, path) => {
    if (typeof value !== "string" || value.length !== count || !/^[0-9a-f]*$/.test(value)) {
      throw refuse(path, `${count} lower-case hexadecimal digits`, value);
    }
    return value;
  };
}

export const flag: Field<boolean> = (value, path) => {
  if (typeof value !== "boolean") throw refuse(path, "true or false", value);
  return value;
};

export const anything: Field<Json> = (value) => value;

export function optional<T>(of: Field<T>): Field<T | null> {
  return (value, path) => (value === null ? null : of(value, path));
}

export function many<T>(of: Field<T>, most: number, least = 0): Field<T[]> {
  return (value, path) => {
    if (!Array.isArray(value) || value.length < least || value.length > most) {
      const size = Array.isArray(value) ? BigInt(value.length) : value;
      throw refuse(path, `a list of ${least} to ${most} values`, size);
    }
    return value.map((part, index) => of(part, `${path}[${index}]`));
  };
}

/** A list of numbers that is not empty. */
export function reals(least: number, most: number, longest: number): Field<number[]> {
  const read = many(real(least, most), longest);
  return (value, path) => {
    if (!Array.isArray(value) || value.length < 1 || value.length > longest) {
      const size = Array.isArray(value) ? BigInt(value.length) : value;
      throw refuse(path, `a list of 1 to ${longest} numbers`, size);
    }
    return read(value, path);
  };
}

type Fields = Record<string, Field<unknown>>;
export type Read<F extends Fields> = { [K in keyof F]: ReturnType<F[K]> };

/** Read exactly these fields of an object, and those that have one value, in this order. */
export function readFields<F extends Fields>(document: Json, path: string, fields: F, fixed: JsonObject = {}): Read<F> {
  if (!isObject(document)) throw refuse(path, "an object", document);
  const place = path || "the document";
  for (const name of [...Object.keys(fixed), ...Object.keys(fields)]) {
    if (!(name in document)) throw new InputError(`${place} lacks the field ${shown(name)}`);
  }
  for (const name of Object.keys(document)) {
    if (!Object.hasOwn(fixed, name) && !Object.hasOwn(fields, name)) {
      throw new InputError(`${place} has a field ${shown(name).slice(0, 40)} that is not known here`);
    }
  }
  const dotted = path ? `${path}.` : "";
  for (const [name, value] of Object.entries(fixed)) {
    if (document[name] !== value) throw refuse(`${dotted}${name}`, shown(value), document[name]);
  }
  const made = {} as Record<string, unknown>;
  for (const [name, field] of Object.entries(fields)) made[name] = field(document[name] ?? null, `${dotted}${name}`);
  return made as Read<F>;
}

