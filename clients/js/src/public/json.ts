/**
 * JSON with one form: what is hashed, signed or compared must not depend on who wrote it.
 *
 * Whole numbers are bigints, numbers with a point or an exponent are numbers, objects have no prototype. A real number
 * of a document is {"decimal": "0.25"}, the shortest decimal that reads back as the same binary64 number.
 */

import { sha256 } from "@noble/hashes/sha2.js";

import { InputError } from "../errors.js";
import { hex, utf8 } from "./bytes.js";
import { bitLength } from "./integers.js";
import { floatText, shown } from "./text.js";

export type Json = null | boolean | string | bigint | number | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

const LARGEST_TEXT = 1 << 26;
const MOST_DEPTH = 32;
const MOST_CANONICAL_DEPTH = 16;
const MOST_BITS = 1023;
const MOST_DIGITS = 4300;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const SPACE = /[ \t\n\r]*/y;
// What a string may hold between its quotes, control characters excluded.
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPED: Record<string, string> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

class Problem extends Error {}

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  whole(): Json {
    const value = this.value(0);
    this.match(SPACE);
    if (this.at < this.text.length) throw new Problem(`Extra data (char ${this.at})`);
    return value;
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  private next(): string {
    this.match(SPACE);
    return this.text[this.at] ?? "";
  }

  private take(one: string): boolean {
    if (this.next() !== one) return false;
    this.at++;
    return true;
  }

  private value(depth: number): Json {
    if (depth >= MOST_DEPTH) throw new Problem("nested too deeply");
    const first = this.next();
    if (first === "{") return this.object(depth);
    if (first === "[") return this.list(depth);
    if (first === '"') return this.string();
    for (const [word, value] of [
      ["null", null],
      ["true", true],
      ["false", false],
    ] as const) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  private number(): Json {
    for (const word of ["NaN", "Infinity", "-Infinity"]) {
      if (this.text.startsWith(word, this.at)) throw new Problem(`${floatText(Number(word))} is no finite number`);
    }
    const found = this.match(NUMBER);
    if (!found) throw new Problem(`Expecting value (char ${this.at})`);
    if (found[1] !== undefined || found[2] !== undefined) {
      const value = Number(found[0]);
      if (!Number.isFinite(value)) throw new Problem(`${floatText(value)} is no finite number`);
      return value;
    }
    if (found[0].length > MOST_DIGITS) throw new Problem("a number has too many digits");
    const value = BigInt(found[0]);
    if (bitLength(value) > MOST_BITS) throw new Problem("a number has too many digits");
    return value;
  }

  private string(): string {
    let made = "";
    for (this.at++; ; ) {
      made += this.match(PLAIN)?.[0] ?? "";
      const end = this.text[this.at++];
      if (end === '"') break;
      if (end !== "\\") throw new Problem(`Invalid or unterminated text (char ${this.at - 1})`);
      const mark = this.text[this.at++] ?? "";
      if (mark === "u") {
        const digits = this.text.slice(this.at, this.at + 4);
        if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new Problem(`Invalid \\uXXXX escape (char ${this.at})`);
        made += String.fromCharCode(parseInt(digits, 16));
        this.at += 4;
      } else if (mark in ESCAPED) made += ESCAPED[mark] ?? "";
      else throw new Problem(`Invalid \\escape (char ${this.at - 2})`);
    }
    if (!wellFormed(made)) throw new Problem("surrogates not allowed");
    return made;
  }

  private list(depth: number): Json[] {
    const made: Json[] = [];
    this.at++;
    if (this.take("]")) return made;
    for (;;) {
      made.push(this.value(depth + 1));
      if (this.take("]")) return made;
      if (!this.take(",")) throw new Problem(`Expecting ',' delimiter (char ${this.at})`);
    }
  }

  private object(depth: number): JsonObject {
    const made = emptyObject();
    this.at++;
    if (this.take("}")) return made;
    if (depth + 1 >= MOST_DEPTH) throw new Problem("nested too deeply");
    for (;;) {
      if (this.next() !== '"') {
        throw new Problem(`Expecting property name enclosed in double quotes (char ${this.at})`);
      }
      const key = this.string();
      if (!this.take(":")) throw new Problem(`Expecting ':' delimiter (char ${this.at})`);
      if (key in made) throw new Problem(`the key ${shown([...key].slice(0, 40).join(""))} occurs twice`);
      made[key] = this.value(depth + 1);
      if (this.take("}")) return made;
      if (!this.take(",")) throw new Problem(`Expecting ',' delimiter (char ${this.at})`);
    }
  }
}

function wellFormed(text: string): boolean {
  return !/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text);
}

export function emptyObject(): JsonObject {
  return Object.create(null) as JsonObject;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Read JSON from anywhere, within bounds, or throw an `InputError` that names it by `what`. */
export function parse(content: Uint8Array | string, what = "the document", largest = LARGEST_TEXT): Json {
  if (content.length > largest) {
    throw new InputError(`${what} has ${content.length} bytes, more than the ${largest} that are read`);
  }
  try {
    const text = typeof content === "string" ? content : new TextDecoder("utf-8", { fatal: true }).decode(content);
    return new Reader(text).whole();
  } catch (problem) {
    const said = problem instanceof Problem ? problem.message : "invalid UTF-8";
    throw new InputError(`${what} is not JSON as it is read here: ${said.slice(0, 200)}`);
  }
}

/** Undo `exact`: decimals become numbers. */
export function plain(value: Json): Json {
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  const keys = Object.keys(value);
  if (keys.length === 1 && keys[0] === "decimal") return numberFromText(value["decimal"]);
  return mapped(value, plain);
}

/** Replace every number by {"decimal": text}. */
export function exact(value: Json): Json {
  if (typeof value === "number") return { decimal: floatText(value + 0) };
  if (Array.isArray(value)) return value.map(exact);
  return isObject(value) ? mapped(value, exact) : value;
}

function mapped(value: JsonObject, change: (part: Json) => Json): JsonObject {
  const made = emptyObject();
  for (const key of Object.keys(value)) made[key] = change(value[key] ?? null);
  return made;
}

function numberFromText(text: Json | undefined): number {
  const number = typeof text === "string" && text !== "" ? Number(text) : NaN;
  if (!Number.isFinite(number) || floatText(number) !== text) {
    const said = typeof text === "string" ? text : shown(text);
    throw new InputError(`${shown([...said].slice(0, 40).join(""))} is not a number as protocols write it`);
  }
  return number;
}

export function byCodePoint(left: string, right: string): number {
  const [a, b] = [utf8(left), utf8(right)]; // UTF-8 keeps the order of code points, UTF-16 does not
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference) return difference;
  }
  return a.length - b.length;
}

export function sortedKeys(value: JsonObject): string[] {
  return Object.keys(value).sort(byCodePoint);
}

function written(value: Json, depth: number): string {
  if (depth > MOST_CANONICAL_DEPTH) throw new InputError("a protocol's document is nested too deeply");
  if (Array.isArray(value)) return `[${value.map((part) => written(part, depth + 1)).join(",")}]`;
  if (isObject(value)) {
    const parts = sortedKeys(value).map((key) => `${JSON.stringify(key)}:${written(value[key] ?? null, depth + 1)}`);
    return `{${parts.join(",")}}`;
  }
  if (typeof value === "number") {
    throw new InputError("a protocol's document holds no float: pass it through exact()");
  }
  return typeof value === "bigint" ? `${value}` : JSON.stringify(value);
}

/** The one form of a document that is hashed, as text. */
export function canonicalText(document: Json): string {
  return written(document, 0);
}

export function canonical(document: Json): Uint8Array<ArrayBuffer> {
  return utf8(canonicalText(document));
}

/** SHA-256 of the canonical form, 64 hexadecimal digits. */
export function fingerprint(document: Json): string {
  return hex(sha256(canonical(document)));
}

/** JSON as Python's json.dumps(sort_keys=True) writes it: in ASCII, with spaces. */
export function pythonJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(", ")}]`;
  if (isObject(value)) {
    return `{${sortedKeys(value)
      .map((key) => `${pythonJson(key)}: ${pythonJson(value[key] ?? null)}`)
      .join(", ")}}`;
  }
  if (typeof value === "bigint") return `${value}`;
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (one) =>
    one === "\u007f" ? one : `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
