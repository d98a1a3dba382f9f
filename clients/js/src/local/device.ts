/**
 * The contract of a local mechanism on a device: a clipped point becomes a short random payload.
 *
 * A document is not believed. `certify` checks that the parameters lie within limits and keep the epsilon, and
 * `guarantee` is the whole promise as it follows from them, to which the document's must be equal.
 */

import { InputError } from "../errors.js";
import { exactEpsilon } from "../public/amounts.js";
import { unhex } from "../public/bytes.js";
import { big, ratio, readFields, type Field, type Read } from "../public/codec.js";
import type { Coins } from "../public/coins.js";
import { objectIn } from "../public/document.js";
import { Domain } from "../public/domain.js";
import type { Fraction } from "../public/fraction.js";
import { Guarantee } from "../public/guarantee.js";
import { bitLength } from "../public/integers.js";
import { plain, type JsonObject } from "../public/json.js";
import { amountText } from "../public/text.js";

export const MOST_BITS = 62;
/** Of an outcome. */
export const WEIGHT = big(1n, (1n << BigInt(MOST_BITS)) - 1n);

/** Of one answer: `likely` of the `outcomes` possible ones have weight `same` each, all others `other`. */
export interface AnswerLaw {
  outcomes: number;
  likely: number;
  same: bigint;
  other: bigint;
}

export abstract class Device {
  abstract readonly name: string;
  abstract readonly payloadBytes: number;
  abstract readonly law: AnswerLaw;
  readonly parameters: JsonObject;
  readonly domain: Domain;
  readonly epsilon: Fraction;
  readonly seed: Uint8Array;

  constructor(readonly document: JsonObject) {
    this.parameters = objectIn(document, "mechanism");
    this.domain = Domain.fromDocument(document["domain"] ?? null);
    this.epsilon = ratio()(document["epsilon"] ?? null, "epsilon");
    this.seed = unhex(document["seed"] as string);
  }

  /** The parameters as fields of stated kinds and ranges. */
  protected read<F extends Record<string, Field<unknown>>>(name: string, fields: F): Read<F> {
    return readFields(plain(this.parameters), "mechanism", fields, { name });
  }

  certify(): void {
    if (!exactEpsilon(this.epsilon).equals(this.epsilon) || this.epsilon.toString() !== this.document["epsilon"]) {
      throw new InputError("the protocol's epsilon is no fraction in lowest terms, or has too many digits");
    }
    for (const [name, value] of Object.entries(this.parameters)) {
      if (typeof value === "bigint" && bitLength(value) > MOST_BITS) {
        throw new InputError(`the protocol's ${name} has more than ${MOST_BITS} bits`);
      }
    }
    this.domain.checkLimits();
  }

  /** What the guarantee is subject to beside clipping, such as a radius. */
  conditions(): string[] {
    return [];
  }

  /** Which changes of a point epsilon is for; empty where it is for all. */
  get within(): string {
    return "";
  }

  /** The promise of one report, all of it. */
  guarantee(): Guarantee {
    const once = `every person reports once (k reports cost k times ${amountText(this.epsilon)})`;
    const conditions = [this.domain.condition(), once, ...this.conditions()];
    return new Guarantee("local", "record", this.epsilon, 0, conditions, this.within);
  }

  /** Randomise one clipped point into a payload. */
  abstract encode(point: readonly number[], coins: Coins): Uint8Array;

  /** One throw-away digit for a picture; what is drawn here must not be sent. */
  abstract preview(point: readonly number[], coins: Coins): { row: number; truth: number; reported: number };
}
