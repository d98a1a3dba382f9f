/**
 * What a device has spent and answered, written before anything leaves.
 *
 * The content is that of Python's `DeviceAccount`, version 2 (version 1 had no checksum, and is read too): of each collection how many answers were charged and at
 * what epsilon, the answers themselves, the budget over all, and a checksum that tells damage. Where it is kept is a
 * `Store`'s matter: it hands out one account at a time, and a change is durable when `update` returns.
 */

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";

import { BudgetError, InputError, SfumatoError, StorageError } from "../errors.js";
import { promisedEpsilon } from "../public/amounts.js";
import { hex, unhex, utf8 } from "../public/bytes.js";
import { anything, hexadecimal, oneOf, ratio, readFields, whole } from "../public/codec.js";
import { Coins } from "../public/coins.js";
import { Fraction } from "../public/fraction.js";
import { emptyObject, isObject, parse, pythonJson, type Json, type JsonObject } from "../public/json.js";
import { amountText } from "../public/text.js";

const FORMAT = "sfumato-device-account";
const VERSION = 2n;
const KEY_BYTES = 16;
const NAME_DIGITS = 32;

/** Where an account lies; `name` is for messages. */
export interface Store {
  readonly name: string;
  read(): Promise<string | null>;
  /** Read, let the caller change, and make it durable; nobody else reads or writes in between. */
  update(change: (text: string | null) => Promise<string>): Promise<void>;
}

interface Content {
  budget: string;
  key: string;
  /** Of each question the price of an answer and how many were charged. */
  protocols: Map<string, { epsilon: Fraction; reports: number }>;
  /** Of each question the answers by a keyed hash of the point, which is empty here: one answer a question. */
  kept: JsonObject;
}

export class Account {
  private readonly budget: Fraction;

  /** `budget` is the largest sum of epsilons over all answers, ever; an existing account must have been made with it. */
  constructor(
    private readonly store: Store,
    budget: string,
  ) {
    this.budget = promisedEpsilon(budget);
  }

  /** Sum of all charges, a fraction's text. */
  async spent(): Promise<string> {
    return spentOf(this.contentOf(await this.store.read())).toString();
  }

  /** Whether an answer to a question is kept. */
  async keeps(question: string): Promise<boolean> {
    const kept = this.contentOf(await this.store.read()).kept[question];
    return isObject(kept) && Object.keys(kept).length > 0;
  }

  /** Throw a `BudgetError` if so much is not left; nothing is written. */
  async check(price: Fraction): Promise<void> {
    this.checkLeft(this.contentOf(await this.store.read()), price);
  }

  /** The answer kept for a question, or charge for a fresh one and keep it; durable when this returns. */
  async remembered(question: string, price: Fraction, fresh: () => Uint8Array | Promise<Uint8Array>): Promise<Uint8Array> {
    let answer = new Uint8Array(0);
    await this.store.update(async (text) => {
      const content = this.contentOf(text);
      const given = content.kept[question];
      const kept = isObject(given) ? given : emptyObject();
      const name = pointName(content.key);
      const before = kept[name];
      if (typeof before === "string") answer = unhex(before);
      else {
        this.charge(content, question, price);
        answer = Uint8Array.from(await fresh());
        kept[name] = hex(answer);
      }
      content.kept[question] = kept;
      return written(content);
    });
    return answer;
  }

  private checkLeft(content: Content, price: Fraction): void {
    const left = this.budget.minus(spentOf(content));
    if (price.compare(left) <= 0) return;
    const shown = amountText(left.compare(0) > 0 ? left : new Fraction(0), false);
    throw new BudgetError(
      `this device has ${shown} of its epsilon left and a report takes ${amountText(price)}: nothing was reported`,
    );
  }

  private charge(content: Content, question: string, price: Fraction): void {
    this.checkLeft(content, price);
    const charged = content.protocols.get(question) ?? { epsilon: price, reports: 0 };
    if (!charged.epsilon.equals(price)) {
      throw new StorageError(`'${this.store.name}' holds another epsilon for this protocol`);
    }
    content.protocols.set(question, { epsilon: price, reports: charged.reports + 1 });
  }

  private contentOf(text: string | null): Content {
    if (text === null) {
      const key = hex(new Coins().take(KEY_BYTES));
      return { budget: this.budget.toString(), key, protocols: new Map(), kept: emptyObject() };
    }
    let content: Content;
    try {
      content = checked(parse(text));
    } catch (problem) {
      if (!(problem instanceof SfumatoError)) throw problem;
      throw new StorageError(
        `'${this.store.name}' is no device's account, or is damaged, and what was spent is lost with it: restore a ` +
          "backup, or begin a new account with what all reports ever sent leave of the budget",
      );
    }
    if (content.budget !== this.budget.toString()) {
      throw new StorageError(
        `'${this.store.name}' was made with a budget of ${content.budget}, not ${this.budget.toString()}: pass that one`,
      );
    }
    return content;
  }
}

/** HMAC-SHA-256 of no point under the account's key: of each question there is one answer. */
function pointName(key: string): string {
  return hex(hmac(sha256, unhex(key), new Uint8Array(0))).slice(0, NAME_DIGITS);
}

function spentOf(content: Content): Fraction {
  return [...content.protocols.values()].reduce(
    (sum, { epsilon, reports }) => sum.plus(epsilon.times(reports)),
    new Fraction(0),
  );
}

function toDocument(content: Content): JsonObject {
  const protocols = emptyObject();
  for (const [question, { epsilon, reports }] of content.protocols) {
    protocols[question] = { epsilon: epsilon.toString(), reports: BigInt(reports) };
  }
  return { format: FORMAT, version: VERSION, budget: content.budget, key: content.key, protocols, kept: content.kept };
}

function written(content: Content): string {
  const document = toDocument(content);
  return pythonJson({ ...document, sha256: checksum(document) });
}

function checksum(document: JsonObject): string {
  return hex(sha256(utf8(pythonJson(document))));
}

const FIRST_FIELDS = {
  format: oneOf(FORMAT),
  version: whole(1, 1),
  budget: ratio(),
  key: hexadecimal(2 * KEY_BYTES),
  protocols: anything,
  kept: anything,
};
const FIELDS = { ...FIRST_FIELDS, version: whole(2, 2), sha256: hexadecimal(64) };
const CHARGE = { epsilon: ratio(), reports: whole(0, Number.MAX_SAFE_INTEGER) };

function checked(document: Json): Content {
  const first = isObject(document) && document["version"] === 1n;
  const read = first ? { ...readFields(document, "", FIRST_FIELDS), sha256: null } : readFields(document, "", FIELDS);
  if (!isObject(read.protocols) || !isObject(read.kept)) throw new InputError("no objects");
  const protocols = new Map(
    Object.entries(read.protocols).map(([question, charge]) => [question, readFields(charge, question, CHARGE)]),
  );
  for (const kept of Object.values(read.kept)) {
    const answers = isObject(kept) ? Object.values(kept) : [null];
    if (!answers.every((answer) => typeof answer === "string" && /^([0-9a-f]{2})*$/.test(answer))) {
      throw new InputError("no answers");
    }
  }
  const content = { budget: read.budget.toString(), key: read.key, protocols, kept: read.kept };
  if (!first && checksum(toDocument(content)) !== read.sha256) throw new InputError("checksum");
  return content;
}
