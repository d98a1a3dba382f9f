/** The opt-in round: which class one is in, by randomised response over a public list. */

import { sha256 } from "@noble/hashes/sha2.js";

import type { Account } from "../account/account.js";
import { InputError } from "../errors.js";
import { exactPositive } from "../public/amounts.js";
import { bigEndian, concat, fromBigEndian, hex, utf8 } from "../public/bytes.js";
import { Fraction, power } from "../public/fraction.js";
import { byCodePoint, pythonJson, type Json } from "../public/json.js";
import { keepsEpsilon } from "../public/response.js";
import { represented, shown } from "../public/text.js";
import { SecretWords } from "./words.js";

export type Label = string | bigint;

const LARGEST_EPSILON = 20;
const CHANCE_BITS = 40;
const BITS = 256;
const PLACE_BYTES = 2;
export const MOST_CLASSES = 10_000;

/** A class of a document: a whole number below 2^63, or a text. */
export function plainLabel(value: Json): Label {
  const limit = 1n << 63n;
  if (typeof value === "string" || (typeof value === "bigint" && value > -limit && value < limit)) return value;
  throw new InputError(`a class must be a whole number or a text, got ${shown(value).slice(0, 40)}`);
}

export class LabelResponse {
  /** Probability of the true class. */
  readonly keep: Fraction;
  private readonly names: readonly Label[];

  constructor(
    readonly classes: readonly Label[],
    readonly epsilon: Fraction,
  ) {
    if (!exactPositive(epsilon, "label_epsilon", LARGEST_EPSILON).equals(epsilon)) {
      throw new InputError("the protocol's label_epsilon has too many digits");
    }
    if (!classes.length) throw new InputError(`classes must be from 1 to ${MOST_CLASSES} distinct ones, got ()`);
    if (classes.length < 2) {
      throw new InputError("label_epsilon hides one class among others: pass two classes or more, or leave it out");
    }
    this.keep = keepChance(classes.length, epsilon);
    this.names = [...classes].sort((a, b) => byCodePoint(represented(a), represented(b)));
  }

  /** Randomise the place of a class in the list. */
  reportCode(code: number, words: SecretWords): number {
    const size = this.classes.length;
    const truthful = words.coins(1, this.keep)[0];
    const other = (code + 1 + Number(words.below(BigInt(size - 1), 1)[0])) % size;
    return truthful ? code : other;
  }

  /** Report one's own class: the account pays once, keeps the answer and gives it again ever after. */
  async answer(label: Label, account: Account, collection: string, words: SecretWords = new SecretWords()): Promise<Label> {
    const code = this.classes.indexOf(label);
    if (code < 0) {
      throw new InputError(`${represented(label)} is not one of the protocol's classes ${listed(this.classes)}`);
    }
    const kept = await account.remembered(this.question(collection), this.epsilon, () => {
      const reported = this.classes[this.reportCode(code, words)];
      return bigEndian(this.names.indexOf(reported ?? label), PLACE_BYTES);
    });
    const name = this.names[Number(fromBigEndian(kept))];
    if (name === undefined) throw new InputError("the account keeps a class that the protocol does not have");
    return name;
  }

  /** What `answer` would charge now: nothing if it was given before. */
  async price(account: Account, collection: string): Promise<Fraction> {
    return (await account.keeps(this.question(collection))) ? new Fraction(0) : this.epsilon;
  }

  /** The name under which the answer is kept; another order of the classes is the same question. */
  question(collection: string): string {
    const names = this.names.map(represented);
    return hex(sha256(concat(utf8("sfumato-labels\0"), utf8(pythonJson([collection, names])))));
  }
}

export function listed(classes: readonly Label[]): string {
  return `[${classes.map(represented).join(", ")}]`;
}

/** e^e / (e^e - 1 + m) less 10^-12, rounded down to a multiple of 2^-40, and down further until it surely keeps e. */
function keepChance(size: number, epsilon: Fraction): Fraction {
  const odds = power(epsilon, BITS);
  const all = odds + (BigInt(size - 1) << BigInt(BITS));
  const unit = 1n << BigInt(CHANCE_BITS);
  const aim = new Fraction(odds, all).minus(new Fraction(1n, 10n ** 12n)).times(unit);
  let heads = aim.numerator / aim.denominator;
  if (heads * BigInt(size) <= unit) {
    throw new InputError(
      `label_epsilon = ${epsilon.toString()} is too small for a report to say anything; pass a larger one`,
    );
  }
  while (!keepsEpsilon(BigInt(size - 1) * heads, unit - heads, epsilon)) heads--;
  return new Fraction(heads, unit);
}
