/** A local collection on a device: its whole promise checked, and reports made under it. */

import { InputError, SfumatoError } from "../errors.js";
import { checkLimits, type Limits } from "../limits.js";
import { concat, unhex } from "../public/bytes.js";
import { Coins } from "../public/coins.js";
import { checkDocument, expired, objectIn, seedOf } from "../public/document.js";
import type { Fraction } from "../public/fraction.js";
import type { Guarantee } from "../public/guarantee.js";
import { canonicalText, fingerprint, plain, sortedKeys, type Json, type JsonObject } from "../public/json.js";
import { shown } from "../public/text.js";
import type { AnswerLaw, Device } from "./device.js";
import { MetricPhases, MetricRows, Phases, Rows } from "./pooled.js";
import { Vector } from "./vector.js";

const ID_BYTES = 6;
const PREFIX_BYTES = 4;
const MAX_EPSILON = "4";
const MAX_DELTA = "1e-6";
const DEVICES: Record<string, new (document: JsonObject) => Device> = {
  rows: Rows,
  phases: Phases,
  "metric-phases": MetricPhases,
  "metric-rows": MetricRows,
  vector: Vector,
};
/** Mechanisms of publications, which Python's devices know and this one does not. */
const PUBLISHED = ["mldp-kde", "fkm-lr", "fkm-ll", "race", "dm", "pm", "sw", "gi"];

export class LocalProtocol {
  readonly trust = "local";
  readonly classes = null;
  readonly fingerprint: string;
  readonly guarantee: Guarantee;
  /** What one report costs. */
  readonly price: Fraction;
  private readonly device: Device;
  /** The first bytes of the fingerprint, which every report carries. */
  private readonly prefix: Uint8Array;

  /** Throw an `InputError` unless the document promises just what its mechanism does on this device, within limits. */
  constructor(
    readonly document: JsonObject,
    limits: Limits = {},
  ) {
    checkDocument(document, "local");
    this.device = promisedDevice(document);
    this.price = this.device.epsilon;
    checkLimits(this.price, 0, limits.maxEpsilon ?? MAX_EPSILON, limits.maxDelta ?? MAX_DELTA);
    this.guarantee = this.device.guarantee();
    this.fingerprint = fingerprint(document);
    this.prefix = unhex(this.fingerprint).slice(0, PREFIX_BYTES);
  }

  get dimension(): number {
    return this.device.domain.dimension;
  }

  get lower(): readonly number[] {
    return this.device.domain.lower;
  }

  get upper(): readonly number[] {
    return this.device.domain.upper;
  }

  get epsilon(): string {
    return this.price.toString();
  }

  get delta(): number {
    return 0;
  }

  get expires(): string | null {
    return this.document["expires"] as string | null;
  }

  get conditions(): readonly string[] {
    return this.guarantee.conditions;
  }

  get law(): AnswerLaw {
    return this.device.law;
  }

  statement(): string {
    return this.guarantee.statement();
  }

  expired(now: Date = new Date()): boolean {
    return expired(this.document, now);
  }

  /** Randomise one point into a report that may be sent to anybody; whoever calls sees to it that it is done once. */
  report(point: readonly number[], coins: Coins = new Coins()): Uint8Array {
    if (this.expired()) {
      throw new InputError(`the protocol expired at ${this.expires}; ask the organiser for a new one`);
    }
    const clipped = this.device.domain.clip(point);
    const identity = coins.take(ID_BYTES);
    return concat(this.prefix, identity, this.device.encode(clipped, coins));
  }

  /** One throw-away digit for a picture on the screen; it must not be sent. */
  preview(point: readonly number[], coins: Coins = new Coins()): { row: number; truth: number; reported: number } {
    return this.device.preview(this.device.domain.clip(point), coins);
  }
}

function deviceFor(document: JsonObject): Device {
  const name = objectIn(document, "mechanism")["name"] as string;
  if (PUBLISHED.includes(name)) {
    throw new InputError(`the mechanism ${name} is not made by this device: report with Python's, or not at all`);
  }
  if (!Object.hasOwn(DEVICES, name)) {
    const known = [...Object.keys(DEVICES), ...PUBLISHED].join(", ");
    throw new InputError(`unknown local mechanism ${shown(name)}; known: ${known}`);
  }
  const Made = DEVICES[name] as new (document: JsonObject) => Device;
  try {
    const device = new Made(document);
    device.certify();
    return device;
  } catch (problem) {
    if (problem instanceof SfumatoError) throw problem;
    const said = problem instanceof RangeError ? problem.message : "TypeError";
    throw new InputError(
      `the protocol's parameters are damaged (${said}); ask the organiser for the file again`,
    );
  }
}

/** Build the device of a checked protocol, and compare its promise with the document's field by field. */
function promisedDevice(document: JsonObject): Device {
  const device = deviceFor(document);
  const [real, stated] = [device.guarantee().toDocument(), objectIn(document, "guarantee")];
  for (const field of sortedKeys({ ...real, ...stated })) {
    const [given, kept] = [shownField(stated, field), shownField(real, field)];
    if (given !== kept) {
      throw new InputError(
        `the protocol promises another ${shown(field)} than ${device.name} keeps (${start(given)} instead of ` +
          `${start(kept)}): do not report under it, and tell the organiser`,
      );
    }
  }
  if (plain(document["delta"] ?? null) !== 0) {
    throw new InputError("the protocol has another 'delta' than 0, which it promises: do not report under it");
  }
  if (document["seed"] !== seedOf(document)) {
    throw new InputError("the protocol's seed does not belong to its other fields: do not report under it");
  }
  return device;
}

function shownField(promise: JsonObject, field: string): string {
  if (!Object.hasOwn(promise, field)) return "nothing";
  const only: Record<string, Json> = { [field]: promise[field] ?? null };
  return canonicalText(only);
}

/** The first 200 characters, not halves of them. */
function start(text: string): string {
  return [...text].slice(0, 200).join("");
}
