/** A shuffled collection on a device: its whole promise certified, and submissions made under it. */

import type { Account } from "../account/account.js";
import { InputError } from "../errors.js";
import { checkLimits, type Limits } from "../limits.js";
import type { AnswerLaw } from "../local/device.js";
import { checkedDelta } from "../public/amounts.js";
import { anything, hexadecimal, line, oneOf, optional, ratio, readFields, refuse, whole } from "../public/codec.js";
import { Coins } from "../public/coins.js";
import { checkDocument, expired, timeOf } from "../public/document.js";
import { Fraction } from "../public/fraction.js";
import type { Guarantee } from "../public/guarantee.js";
import { canonicalText, fingerprint, plain, type Json, type JsonObject } from "../public/json.js";
import { represented } from "../public/text.js";
import { randomised, type Counts } from "./bitsums.js";
import { certify } from "./certificate.js";
import { Features } from "./features.js";
import { checkSummary, guaranteeOf, NAMES, readGroups, type Group, type Promised, type Threat } from "./groups.js";
import { LabelResponse, listed, type Label } from "./labels.js";
import { COVER, keyName, Sealer, submission, type Plaintext } from "./sealing.js";
import { SecretWords } from "./words.js";

const MAX_EPSILON = "8";
const MAX_DELTA = "1e-4";
const LARGEST_INSTANCES = 10 ** 6;
const LARGEST_TERM = 10n ** 20n;
const MOST_MESSAGES = 2 ** 24;
const BEFORE = "this device answered before: send that answer again, a second one would cost more";
const SEALED_AT_ONCE = 32;

interface Key {
  public: string;
  expires: string | null;
}

const KEY = { id: hexadecimal(16), public: hexadecimal(64), expires: optional(line(40)) };
const MECHANISM = {
  bitsum: oneOf(...NAMES),
  quantizer: (value: Json): Json => plain(value),
  arrays: anything,
  instances: whole(1, LARGEST_INSTANCES),
  groups: readGroups,
  label_epsilon: optional(ratio({ largest: LARGEST_TERM, positive: true })),
  threat: oneOf("communication", "model"),
  key: optional(readKey),
};

function readKey(value: Json, path: string): Key {
  const read = readFields(value, path, KEY);
  if (read.id !== keyName(read.public)) throw refuse(`${path}.id`, "the name of the analyzer's public key", read.id);
  if (read.expires !== null && Number.isNaN(timeOf(read.expires))) {
    throw refuse(`${path}.expires`, "a UTC time such as '2027-01-31T00:00:00Z'", read.expires);
  }
  return read;
}

export class ShuffledProtocol {
  readonly trust = "shuffled";
  readonly fingerprint: string;
  /** The promise as the document states it. */
  readonly guarantee: Guarantee;
  /** What the messages cost, without a reported class. */
  readonly price: Fraction;
  private readonly sealers = new Map<number, Promise<Sealer>>();

  private constructor(
    readonly document: JsonObject,
    private readonly features: Features,
    private readonly promised: Promised,
    threat: Threat,
    private readonly key: Key | null,
  ) {
    this.fingerprint = fingerprint(document);
    this.guarantee = guaranteeOf(promised, threat);
    this.price = promised.epsilon;
  }

  /** Read a document, certify that its noise keeps its promise, and hold it to the owner's limits. */
  static async open(document: JsonObject, limits: Limits = {}): Promise<ShuffledProtocol> {
    checkDocument(document, "shuffled");
    const read = readFields(document["mechanism"] ?? null, "mechanism", MECHANISM, { name: "shuffled" });
    const features = await Features.read(document, read.quantizer, read.arrays, read.instances);
    const epsilon = ratio({ largest: LARGEST_TERM, positive: true })(document["epsilon"] ?? null, "epsilon");
    const delta = checkedDelta(plain(document["delta"] ?? null) as number);
    const { groups } = read;
    const response = responseOf(groups, read.label_epsilon);
    const promised = { epsilon, delta, groups, response, points: features.domain.condition() };
    for (const group of groups) await certify(group, { epsilon, delta, instances: features.instances });
    checkSummary(groups, document["participants"], read.bitsum);
    const made = new ShuffledProtocol(document, features, promised, read.threat, read.key);
    if (canonicalText(made.guarantee.toDocument()) !== canonicalText(document["guarantee"] ?? null)) {
      throw new InputError("the protocol promises something else than its parameters do; do not take part");
    }
    if (read.key) await Sealer.to(read.key.public, made.fingerprint, 0);
    checkLimits(
      guaranteeOf(promised, "communication").epsilon,
      delta,
      limits.maxEpsilon ?? MAX_EPSILON,
      limits.maxDelta ?? MAX_DELTA,
    );
    groups.forEach(checkSize);
    groups.forEach(checkLabel);
    return made;
  }

  get dimension(): number {
    return this.features.domain.dimension;
  }

  get lower(): readonly number[] {
    return this.features.domain.lower;
  }

  get upper(): readonly number[] {
    return this.features.domain.upper;
  }

  /** What taking part costs at most, a reported class included. */
  get epsilon(): string {
    return guaranteeOf(this.promised, "communication").epsilon.toString();
  }

  get delta(): number {
    return this.promised.delta;
  }

  get expires(): string | null {
    const moments = [this.document["expires"] as string | null, this.key?.expires ?? null];
    return moments.filter((moment) => moment !== null).sort()[0] ?? null;
  }

  get conditions(): readonly string[] {
    return this.guarantee.conditions;
  }

  /** Messages that everybody sends, cover included; of the largest group. */
  get messageCount(): number {
    return Math.max(...this.promised.groups.map((group) => group.messages));
  }

  get classes(): (string | number)[] | null {
    const labels = this.promised.groups.flatMap(({ label }) => (label === null ? [] : [label]));
    return labels.length ? labels.map((label) => (typeof label === "bigint" ? Number(label) : label)) : null;
  }

  /** Of one bit under randomised response; noise that is added hides bits in the crowd instead. */
  get law(): AnswerLaw {
    const { bitsum } = this.promised.groups[0] as Group;
    const flip = bitsum.kind === "rr" || bitsum.kind === "sampled-rr" ? bitsum.flip : new Fraction(0);
    return { outcomes: 2, likely: 1, same: flip.denominator - flip.numerator, other: flip.numerator };
  }

  statement(): string {
    return this.guarantee.statement();
  }

  expired(now: Date = new Date()): boolean {
    return expired(this.document, now) || (this.key !== null && expired({ expires: this.key.expires }, now));
  }

  /** The place of a (reported) class among the groups. */
  groupOf(label: Label | number | null): number {
    const name = typeof label === "number" ? BigInt(label) : label;
    const place = this.promised.groups.findIndex((group) => group.label === name);
    if (place >= 0) return place;
    if (name === null) throw new InputError("the protocol has classes: pass label=, the class that was reported");
    const classes = this.promised.groups.flatMap((group) => (group.label === null ? [] : [group.label]));
    throw new InputError(`${represented(name)} is not one of the protocol's classes ${listed(classes)}`);
  }

  /** Throw whatever would refuse the messages, whichever class is reported: a report of the class may cost by itself. */
  async checkBeforeClass(account: Account): Promise<void> {
    this.checkOpen();
    const { response, epsilon } = this.promised;
    const price = response ? await response.price(account, this.fingerprint) : new Fraction(0);
    if (await account.keeps(this.fingerprint)) throw new InputError(BEFORE);
    await account.check(epsilon.plus(price));
  }

  /** Report a true class: by randomised response where classes are private, one answer ever. */
  async reportedClass(label: string | number | null, account: Account, words?: SecretWords): Promise<Label | null> {
    const name = typeof label === "number" ? BigInt(label) : label;
    const { response } = this.promised;
    if (name === null || !response) return name;
    return response.answer(name, account, this.fingerprint, words);
  }

  /** The sealed messages for a point as one submission; whoever calls sees to it that it is made once. */
  async sealed(point: readonly number[], label: Label | number | null = null, words = new SecretWords()): Promise<Uint8Array> {
    this.checkOpen();
    const place = this.groupOf(label);
    if (!this.key) throw new InputError("the protocol has no analyzer's key, so messages cannot be sealed: pass key= to Protocol");
    const plaintexts = this.plaintexts(point, place, words);
    const sealer = await this.sealerOf(this.key, place);
    const messages: Uint8Array[] = [];
    for (let at = 0; at < plaintexts.length; at += SEALED_AT_ONCE) {
      const some = plaintexts.slice(at, at + SEALED_AT_ONCE);
      messages.push(...(await Promise.all(some.map((plaintext) => sealer.seal(plaintext)))));
    }
    return submission(messages);
  }

  private sealerOf(key: Key, place: number): Promise<Sealer> {
    const made = this.sealers.get(place) ?? Sealer.to(key.public, this.fingerprint, place);
    this.sealers.set(place, made);
    return made;
  }

  /** The same for a class by its name, with secret coins. */
  messages(point: readonly number[], options: { label?: string | number } = {}): Promise<Uint8Array> {
    return this.sealed(point, options.label ?? null);
  }

  /** What is sealed, in the order in which it is sent. */
  plaintexts(point: readonly number[], place: number, words: SecretWords): Plaintext[] {
    const group = this.promised.groups[place] as Group;
    const bits = this.bits(point, words);
    const counts = fitting(group, bits, words);
    const messages: Plaintext[] = [];
    counts.ones.forEach((count, instance) => { repeat(messages, count, { instance, content: 1 }); });
    counts.zeros.forEach((count, instance) => { repeat(messages, count, { instance, content: 0 }); });
    repeat(messages, BigInt(group.messages - messages.length), { instance: COVER, content: 0 });
    return words.permutation(group.messages).map((i) => messages[i] as Plaintext);
  }

  /** Each integer of the point, rounded at random to one end of its range. */
  private bits(point: readonly number[], words: SecretWords): boolean[] {
    const { largest } = this.features;
    const integers = this.features.integers(this.features.clipped(point));
    const uniform = words.below(BigInt(2 * largest), integers.length);
    return integers.map((value, i) => (uniform[i] ?? 0n) < BigInt(value + largest));
  }

  /** Throw-away bits of all instances before and after the coins, for a picture; they must not be sent. */
  preview(point: readonly number[], coins: Coins = new Coins()): { truth: number; reported: number }[] {
    const { same, other } = this.law;
    return this.bits(point, new SecretWords()).map((bit) => {
      const turned = coins.below(same + other) < other;
      return { truth: Number(bit), reported: Number(bit !== turned) };
    });
  }

  private checkOpen(): void {
    if (this.expired()) {
      throw new InputError("the collection or its key has expired; ask the organiser for a new protocol");
    }
  }
}

/** Draw the messages of every instance, again if they are more than everybody sends. */
function fitting(group: Group, bits: readonly boolean[], words: SecretWords): Counts {
  for (;;) {
    const counts = randomised(group.bitsum, group.participants, bits, words);
    const size = [...counts.ones, ...counts.zeros].reduce((sum, count) => sum + count, 0n);
    if (size <= BigInt(group.messages)) return counts;
  }
}

function repeat(messages: Plaintext[], count: bigint, message: Plaintext): void {
  for (let i = 0n; i < count; i++) messages.push(message);
}

function checkSize(group: Group): void {
  if (group.messages > MOST_MESSAGES) {
    throw new InputError(
      `everybody would have to send ${group.messages} messages, more than ${MOST_MESSAGES}; ask for a protocol with the ` +
        "bit sum 'rr', fewer instances or a larger epsilon",
    );
  }
}

/** Refuse a class whose number would become another one in `classes`. */
function checkLabel({ label }: Group): void {
  if (typeof label === "bigint" && !Number.isSafeInteger(Number(label))) {
    throw new InputError(`the class ${label} is a number beyond 2^53, which is not exact here; take part with Python`);
  }
}

function responseOf(groups: readonly Group[], epsilon: Fraction | null): LabelResponse | null {
  if (epsilon === null) return null;
  return new LabelResponse(
    groups.flatMap(({ label }) => (label === null ? [] : [label])),
    epsilon,
  );
}
