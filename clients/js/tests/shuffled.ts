/** Shuffled devices against Python's: features, messages from fixed coins, sealing, labels, refusals word for word. */

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256 as Native, HkdfSha256 } from "@hpke/core";
import { DhkemX25519HkdfSha256 as Pure } from "@hpke/dhkem-x25519";
import { sha256 } from "@noble/hashes/sha2.js";
import text from "vectors/clients/vectors/shuffled";

import { Account } from "../src/account/account.js";
import { hex, unhex } from "../src/public/bytes.js";
import { Coins } from "../src/public/coins.js";
import { Fraction } from "../src/public/fraction.js";
import { fingerprint, parse, plain, type Json, type JsonObject } from "../src/public/json.js";
import { cosineTable } from "../src/shuffled/features.js";
import { LabelResponse, type Label } from "../src/shuffled/labels.js";
import { ShuffledProtocol } from "../src/shuffled/protocol.js";
import { curveOf, Sender } from "../src/shuffled/hpke.js";
import { MESSAGE_BYTES, Sealer, submission } from "../src/shuffled/sealing.js";
import { takePart } from "../src/services/taking_part.js";
import { Route } from "../src/services/wire.js";
import { equal, refusal, type Check } from "./checks.js";
import { changed } from "./local.js";
import { MemoryStore } from "./services.js";
import { SeededWords } from "./words.js";

interface Vector {
  name: string;
  document: JsonObject;
  fingerprint: string;
  statement: string;
  epsilon: string;
  integers: bigint[][];
  label: Label | null;
  group: bigint;
  /** Of very many messages the digest. */
  plaintexts: ([bigint, bigint][] | string)[];
}
interface Sealed extends Record<"public" | "fingerprint" | "ephemeral" | "message", string> {
  group: bigint;
  instance: bigint;
  content: bigint;
}
interface Vectors {
  tables: [bigint, bigint, string][];
  protocols: Vector[];
  changed: { protocol: string; path: string[]; value: Json; refused: string | null }[];
  sealed: Sealed[];
  submissions: { identity: string; messages: string[]; bytes: string }[];
  labels: { classes: Label[]; epsilon: string; keep: string; codes: bigint[]; question: string }[];
}

const read = parse(text);
const vectors = read as unknown as Vectors;
const points = plain((read as JsonObject)["points"] ?? null) as unknown as number[][];
const protocols = new Map<string, Promise<ShuffledProtocol>>();

function vectorOf(name: string): Vector {
  const found = vectors.protocols.find((protocol) => protocol.name === name);
  if (!found) throw new Error(name);
  return found;
}

function open(name: string): Promise<ShuffledProtocol> {
  const made = protocols.get(name) ?? ShuffledProtocol.open(vectorOf(name).document);
  protocols.set(name, made);
  return made;
}

function fixedCoins(content: string): Coins {
  return Object.assign(new Coins(), { take: () => unhex(content) });
}

function digestOf(integers: number[]): string {
  return hex(sha256(new Uint8Array(BigInt64Array.from(integers, BigInt).buffer)));
}

/** An ephemeral key of a given private half, for WebCrypto or for the pure curve. */
async function ephemeralOf(webCrypto: boolean, key: string): Promise<CryptoKeyPair> {
  const kem = webCrypto ? new Native() : new Pure();
  const privateKey = await kem.importKey("raw", unhex(key).buffer, false);
  const { _prim: curve } = kem as unknown as { _prim: { derivePublicKey: (key: CryptoKey) => Promise<CryptoKey> } };
  return { privateKey, publicKey: await curve.derivePublicKey(privateKey) };
}

/** What another implementation of HPKE reads from a message. */
async function opened(message: Uint8Array<ArrayBuffer>, secret: string, info: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const suite = new CipherSuite({ kem: new Native(), kdf: new HkdfSha256(), aead: new Aes128Gcm() });
  const recipientKey = await suite.kem.importKey("raw", unhex(secret).buffer, false);
  const receiver = await suite.createRecipientContext({ recipientKey, enc: message.slice(0, 32), info });
  return new Uint8Array(await receiver.open(message.slice(32)));
}

export const checks: Check[] = [
  ...vectors.tables.map(([radius, bits]) => ({
    name: `table of cosines of radius ${radius}`,
    run() {
      equal(cosineTable(Number(radius), Number(bits)).length, 2 ** Number(bits), "cells");
    },
  })),
  {
    name: "a table that nobody published is refused",
    async run() {
      equal(await refusal(() => cosineTable(1000, 12)), "no table of cosines of radius 1000 is published", "refusal");
    },
  },
  ...vectors.protocols.map((vector) => ({
    name: `features and messages of ${vector.name}`,
    async run() {
      equal(fingerprint(vector.document), vector.fingerprint, "fingerprint");
      const protocol = await open(vector.name);
      equal(protocol.statement(), vector.statement, "statement");
      equal(protocol.epsilon, vector.epsilon, "epsilon");
      equal(protocol.groupOf(vector.label), Number(vector.group), "group");
      for (const [place, point] of points.entries()) {
        const features = (protocol as unknown as { features: { clipped: (p: number[]) => number[]; integers: (p: number[]) => number[] } }).features;
        equal(features.integers(features.clipped(point)), vector.integers[place]?.map(Number), `integers ${place}`);
        const words = await SeededWords.from(`${vector.name} ${place}`);
        const made = protocol.plaintexts(point, Number(vector.group), words).map((one) => [one.instance, one.content]);
        const expected = vector.plaintexts[place] ?? [];
        if (typeof expected === "string") equal(digestOf(made.flat()), expected, `plaintexts ${place}`);
        else equal(made, expected.map((pair) => pair.map(Number)), `plaintexts ${place}`);
      }
    },
  })),
  ...vectors.changed.map(({ protocol, path, value, refused }, number) => ({
    name: `refusal ${number}: ${protocol} with another ${path.join(".")}`,
    async run() {
      const document = changed(vectorOf(protocol).document, path, value, false);
      equal(await refusal(() => ShuffledProtocol.open(document)), refused, "refusal");
    },
  })),
  ...vectors.sealed.map((vector, number) => ({
    name: `sealing ${number}`,
    async run() {
      const { public: key, fingerprint, ephemeral, message, group, instance, content } = vector;
      const sealer = await Sealer.to(key, fingerprint, Number(group));
      const plaintext = { instance: Number(instance), content: Number(content) };
      equal(hex(await sealer.seal(plaintext, await ephemeralOf(true, ephemeral))), message, "by WebCrypto");
      const fresh = await sealer.seal(plaintext);
      equal(fresh.length, MESSAGE_BYTES, "length");
      equal(hex(fresh) === message, false, "a fresh message has another key");
    },
  })),
  {
    name: "the pure curve seals to the same bytes",
    async run() {
      const { public: key, fingerprint, ephemeral, message, group, instance, content } = vectors.sealed[3] as Sealed;
      const sealer = await Sealer.to(key, fingerprint, Number(group), await curveOf(false));
      const plaintext = { instance: Number(instance), content: Number(content) };
      equal(hex(await sealer.seal(plaintext, await ephemeralOf(false, ephemeral))), message, "message");
    },
  },
  ...[true, false].map((webCrypto) => ({
    name: `another implementation of HPKE opens what is sealed, ${webCrypto ? "by WebCrypto" : "by the pure curve"}`,
    async run() {
      const receiver = await ephemeralOf(true, "77".repeat(32));
      const raw = new Uint8Array(await crypto.subtle.exportKey("raw", receiver.publicKey));
      const info = Uint8Array.of(1, 2, 3);
      const sender = await Sender.to(raw, info, await curveOf(webCrypto));
      const message = Uint8Array.from(await sender.seal(Uint8Array.of(4, 5, 6)));
      equal([...(await opened(message, "77".repeat(32), info))], [4, 5, 6], "content");
    },
  })),
  {
    name: "a key of low order is refused",
    async run() {
      const said = await refusal(() => Sealer.to("00".repeat(32), "11".repeat(32), 0));
      equal(said?.includes("anybody can open what is sealed to it"), true, "zero");
    },
  },
  ...vectors.submissions.map(({ identity, messages, bytes }) => ({
    name: `submission of ${messages.length} messages`,
    run() {
      equal(hex(submission(messages.map(unhex), fixedCoins(identity))), bytes, "bytes");
    },
  })),
  ...vectors.labels.map(({ classes, epsilon, keep, codes, question }) => ({
    name: `classes ${classes.join(", ")} at epsilon ${epsilon}`,
    async run() {
      const [above = "", below = "1"] = epsilon.split("/");
      const response = new LabelResponse(classes, new Fraction(BigInt(above), BigInt(below)));
      equal(response.keep.toString(), keep, "keep");
      equal(response.question("00".repeat(32)), question, "question");
      for (const [i, code] of codes.entries()) {
        equal(response.reportCode(1, await SeededWords.from(`label ${i}`)), Number(code), `code ${i}`);
      }
    },
  })),
  {
    name: "a class is answered once, and again the same; the messages are charged apart",
    async run() {
      const protocol = await open("private classes");
      const account = new Account(new MemoryStore(), "4");
      await protocol.checkBeforeClass(account);
      const first = await protocol.reportedClass("b", account);
      for (let i = 0; i < 20; i++) equal(await protocol.reportedClass(7, account), first, "again");
      equal(await account.spent(), "3/2", "spent");
      equal(await refusal(() => protocol.reportedClass("c", account)), "'c' is not one of the protocol's classes [\"it's\", 'b', 7]", "class");
      await protocol.checkBeforeClass(account);
      const small = new Account(new MemoryStore(), "3");
      equal((await refusal(() => protocol.checkBeforeClass(small)))?.includes("a report takes 3.5"), true, "budget");
    },
  },
  {
    name: "a class whose number would become another one is refused by name",
    async run() {
      const { document } = vectorOf("public classes");
      const labelled = (label: bigint): JsonObject => changed(document, ["mechanism", "groups", "2", "label"], label, false);
      equal((await ShuffledProtocol.open(labelled(2n ** 53n - 1n))).classes?.[2], 2 ** 53 - 1, "exact");
      for (const label of [2n ** 53n + 1n, -(2n ** 53n) - 1n]) {
        const said = await refusal(() => ShuffledProtocol.open(labelled(label)));
        equal(said, `the class ${label} is a number beyond 2^53, which is not exact here; take part with Python`, "refusal");
      }
    },
  },
  {
    name: "an answer that is kept goes to its own class, whichever is named later",
    async run() {
      const protocol = await open("public classes");
      const signed = { document: protocol.document, issuer: null, shuffler: null, key: "", signature: "", fingerprint: protocol.fingerprint };
      const [account, asked]: [Account, string[]] = [new Account(new MemoryStore(), "4"), []];
      const fetch = (where: unknown): Promise<Response> => {
        asked.push(String(where));
        return Promise.resolve(new Response(Uint8Array.of(0)));
      };
      const given = { route: new Route("http://server", { fetch }), signed, protocol, account, point: [0.2, 0.7] };
      equal((await refusal(() => takePart(given)))?.includes("pass label="), true, "no class");
      const first = await takePart({ ...given, label: "ü" });
      equal((await takePart(given)).digest, first.digest, "no class is named");
      const other = await refusal(() => takePart({ ...given, label: "a" }));
      equal(other, "this device answered as 'ü', and its answer is kept: name that class, or none", "another class");
      equal(asked.map((where) => where.slice(-9)), ["/1/frames", "/1/frames"], "where it went");
      equal(await account.spent(), "2", "spent");
    },
  },
];
