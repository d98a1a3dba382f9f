/** Public parameters of a collection as one document that every participant and the collector read the same way. */

import { sha256 } from "@noble/hashes/sha2.js";

import { InputError } from "../errors.js";
import { concat, hex, utf8 } from "./bytes.js";
import { Domain } from "./domain.js";
import { canonical, emptyObject, isObject, plain, type Json, type JsonObject } from "./json.js";
import { shown } from "./text.js";

const FORMAT = "sfumato-protocol";
const VERSION = 2n;
const MODELS = ["local", "shuffled"] as const;
const FIELDS = [
  ...["format", "version", "model", "kernel", "dimension", "domain", "epsilon", "delta", "participants"],
  ...["guarantee", "seed", "expires", "mechanism"],
];
const MOST_COLUMNS = 2n ** 20n;
const MOST_PARTICIPANTS = 2n ** 40n;
const SEED = /^[0-9a-f]{64}$/;
const TIME = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)Z$/;

/** The seed that belongs to all other fields of a local document. */
export function seedOf(document: JsonObject): string {
  const others = emptyObject();
  for (const name of Object.keys(document)) if (name !== "seed") others[name] = document[name] ?? null;
  return hex(sha256(concat(utf8("sfumato-seed-1\0"), canonical(others))));
}

/** Milliseconds since 1970 of a UTC time as documents write it; NaN for anything else. */
export function timeOf(text: Json | undefined): number {
  const found = typeof text === "string" ? TIME.exec(text) : null;
  if (!found || typeof text !== "string") return NaN;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = found.slice(1).map(Number);
  const moment = new Date(0);
  moment.setUTCFullYear(year, month - 1, day);
  moment.setUTCHours(hour, minute, second);
  return year >= 1 && moment.toISOString() === `${text.slice(0, -1)}.000Z` ? moment.getTime() : NaN;
}

/** Whether devices must not report any more under what holds a field "expires". */
export function expired(holder: JsonObject, now: Date = new Date()): boolean {
  const until = holder["expires"];
  return until !== null && until !== undefined && !(now.getTime() <= timeOf(until));
}

/** Throw an `InputError` unless the shared fields of a document are what they should be. */
export function checkDocument(document: Json, model?: string): asserts document is JsonObject {
  if (!isObject(document) || document["format"] !== FORMAT) {
    throw new InputError("this is not a protocol of sfumato; ask the organiser for the file again");
  }
  const { model: named, version } = document;
  if (!MODELS.some((each) => each === named) || (model !== undefined && model !== named)) {
    const wanted = model ?? "one of ('local', 'shuffled')";
    throw new InputError(`the protocol is for the model ${shown(named).slice(0, 40)}, not ${wanted}`);
  }
  if (version !== VERSION) {
    const fix = version === 1n || version === true ? "ask the organiser for a new one" : "update sfumato";
    throw new InputError(
      `the protocol has version ${shown(version).slice(0, 40)} and this sfumato reads ${VERSION}; ${fix}`,
    );
  }
  const fields = named === "local" ? [...FIELDS, "nonce"] : FIELDS;
  const odd = [
    ...fields.filter((name) => !(name in document)),
    ...Object.keys(document).filter((name) => !fields.includes(name)),
  ];
  if (odd.length) {
    const names = odd.map((name) => shown(name)).sort();
    throw new InputError(`the protocol's document has missing or unknown fields: ${names.join(", ")}`);
  }
  canonical(document);
  checkShared(document);
}

function checkShared(document: JsonObject): void {
  const { dimension, participants, expires } = document;
  if (typeof dimension !== "bigint" || dimension < 1n || dimension > MOST_COLUMNS) {
    throw new InputError(`the protocol's dimension must be from 1 to ${MOST_COLUMNS}, got ${shown(dimension)}`);
  }
  if (typeof participants !== "bigint" || participants < 1n || participants >= MOST_PARTICIPANTS) {
    throw new InputError(
      `the protocol's participants must be a positive integer below 2**40, got ${shown(participants)}`,
    );
  }
  if (Domain.fromDocument(document["domain"] ?? null).dimension !== Number(dimension)) {
    throw new InputError("the protocol's domain has another number of columns than its dimension");
  }
  for (const name of ["seed", "nonce"]) {
    const text = name in document ? document[name] : "0".repeat(64);
    if (typeof text !== "string" || !SEED.test(text)) {
      throw new InputError(`the protocol's ${name} must be 64 lower-case hexadecimal digits`);
    }
  }
  for (const name of ["kernel", "guarantee", "mechanism"]) {
    if (!isObject(document[name])) throw new InputError(`the protocol's field ${shown(name)} must be an object`);
  }
  if (typeof objectIn(document, "mechanism")["name"] !== "string") {
    throw new InputError("the protocol does not name its mechanism");
  }
  if (typeof document["epsilon"] !== "string" || typeof plain(document["delta"] ?? null) !== "number") {
    throw new InputError("the protocol's epsilon must be a fraction's text, and its delta a decimal");
  }
  if (expires !== null && Number.isNaN(timeOf(expires))) {
    throw new InputError(`the protocol's expiry is no UTC time: ${shown(expires)}`);
  }
}

/** A field of a checked document that is an object. */
export function objectIn(document: JsonObject, name: string): JsonObject {
  const value = document[name];
  if (!isObject(value)) throw new InputError(`the protocol's field ${shown(name)} must be an object`);
  return value;
}
