/** Signed documents, the log, tokens, frames, receipts and patience, against the vectors of docs/wire.md. */

import problemsText from "vectors/services/vectors/problems";
import requestsText from "vectors/services/vectors/requests";
import signaturesText from "vectors/services/vectors/signatures";
import tokenText_ from "vectors/services/vectors/token";

import { Account, type Store } from "../src/account/account.js";
import { openProtocol } from "../src/protocol.js";
import { concat, fromBigEndian, hex, unhex, utf8 } from "../src/public/bytes.js";
import { Fraction } from "../src/public/fraction.js";
import { canonical, canonicalText, parse, type JsonObject } from "../src/public/json.js";
import { blindedWith, BlindRequest, IssuerPublicKey, tokenText } from "../src/services/admission.js";
import { verified } from "../src/services/ed25519.js";
import { verifiedHere } from "../src/services/ed25519_pure.js";
import { readLog, readSigned } from "../src/services/signing.js";
import { fetchProtocol, takePart, tookPart } from "../src/services/taking_part.js";
import { framed, readReceipt, Route } from "../src/services/wire.js";
import { equal, refusal, type Check } from "./checks.js";

const signatures = parse(signaturesText) as JsonObject & { organiser: string; server: string };
const token = parse(tokenText_) as Record<string, string>;
const requests = parse(requestsText) as unknown as { cases: { path: string; body: string; receipt: string }[] };
const problems = parse(problemsText) as Record<string, JsonObject>;
const signedText = canonicalText(signatures["signed protocol"] ?? null);
const { organiser } = signatures;
const { server } = signatures;
const log = (signatures["log"] as JsonObject[]).map((entry) => `${canonicalText(entry)}\n`).join("");

/** An account that lies in memory, for tests. */
export class MemoryStore implements Store {
  readonly name = "memory";
  text: string | null = null;

  read(): Promise<string | null> {
    return Promise.resolve(this.text);
  }

  async update(change: (text: string | null) => Promise<string>): Promise<void> {
    this.text = await change(this.text);
  }
}

/** A server that answers from a list, and writes down what it was asked. */
function answering(answers: (Response | Error)[]): { asked: { path: string; body: string }[]; fetch: typeof fetch } {
  const asked: { path: string; body: string }[] = [];
  return {
    asked,
    fetch: (input, init) => {
      const body = init?.body instanceof Uint8Array ? hex(init.body) : "";
      asked.push({ path: (input as string).slice("http://server".length), body });
      const next = answers.shift();
      if (next instanceof Response) return Promise.resolve(next);
      return Promise.reject(next ?? new Error("nobody answers"));
    },
  };
}

const WAITED: number[] = [];
const sleep = (seconds: number): Promise<void> => {
  WAITED.push(seconds);
  return Promise.resolve();
};

function problem(code: string, headers: Record<string, string> = {}): Response {
  const { status, body } = problems[code] as { status: bigint; body: JsonObject };
  return new Response(canonicalText(body), { status: Number(status), headers });
}

const receipt = (byte: number): Response => new Response(Uint8Array.of(byte));

export const checks: Check[] = [
  {
    name: "a signed protocol is read, by WebCrypto and by the curve's own arithmetic",
    async run() {
      const signed = await readSigned(signedText, organiser);
      equal(signed.key, organiser, "key");
      const { signature, ...rest } = signatures["signed protocol"] as JsonObject & { signature: string };
      equal(hex(canonical(rest)), signatures["signed text"], "what is signed");
      const [key, bytes] = [unhex(organiser), unhex(signature)];
      for (const check of [verified, verifiedHere]) {
        equal(await check(key, bytes, canonical(rest)), true, "right");
        equal(await check(key, bytes, concat(canonical(rest), Uint8Array.of(0))), false, "other content");
        equal(await check(unhex(server), bytes, canonical(rest)), false, "other key");
        for (const place of [0, 31, 32, 63]) {
          const spoilt = bytes.map((byte, i) => (i === place ? byte ^ 1 : byte));
          equal(await check(key, spoilt, canonical(rest)), false, `signature spoilt at ${place}`);
        }
      }
    },
  },
  {
    name: "a changed document, another key and another format are refused in Python's words",
    async run() {
      const changed = signedText.replace('"participants":1000', '"participants":1001');
      equal(
        await refusal(() => readSigned(changed)),
        "the protocol's signature is wrong: somebody changed it; do not take part",
        "changed",
      );
      equal(
        await refusal(() => readSigned(signedText, server)),
        `the protocol is signed with the key ${organiser.slice(0, 16)}..., not with the organiser's ` +
          `${server.slice(0, 16)}...: do not take part, and tell the organiser`,
        "key",
      );
      equal(
        await refusal(() => readSigned("{}")),
        "this is not a signed protocol that this version of sfumato reads",
        "format",
      );
    },
  },
  {
    name: "a log is read, and a changed, cut or reordered one refused",
    async run() {
      equal((await readLog(log, server)).length, 2, "entries");
      const lines = log.trim().split("\n");
      equal((await refusal(() => readLog(lines.slice(1).join("\n"), server)))?.includes("was changed"), true, "cut");
      equal((await refusal(() => readLog([...lines].reverse().join("\n"), server)))?.includes("changed"), true, "order");
      equal((await refusal(() => readLog(log.replace("2027", "2028"), server)))?.includes("changed"), true, "time");
      equal((await refusal(() => readLog(log, organiser)))?.includes("changed"), true, "key");
    },
  },
  {
    name: "a token is blinded, finished and verified as in the vectors",
    async run() {
      const key = new IssuerPublicKey(token["issuer"] ?? "");
      const prepared = unhex(token["prepared"] ?? "");
      const salt = unhex(token["salt"] ?? "");
      const request = await blindedWith(prepared, key, salt, fromBigEndian(unhex(token["factor"] ?? "")));
      equal(hex(request.blinded), token["blinded"], "blinded");
      const kept = BlindRequest.fromBytes(request.toBytes());
      const made = await kept.token(unhex(token["answer"] ?? ""), key);
      equal(hex(made), token["token"], "token");
      equal(await key.admits(made, token["fingerprint"] ?? ""), true, "admits");
      equal(await key.admits(made, "0".repeat(64)), false, "another collection");
      equal(hex(prepared.subarray(32)), hex(tokenText(token["fingerprint"] ?? "")), "text");
    },
  },
  {
    name: "a wrong blind signature is refused",
    async run() {
      const key = new IssuerPublicKey(token["issuer"] ?? "");
      const request = await blindedWith(unhex(token["prepared"] ?? ""), key, new Uint8Array(48), 12345n);
      equal(
        await refusal(() => request.token(unhex(token["answer"] ?? ""), key)),
        "the issuer's answer is no signature under its own key; ask again, or tell the organiser",
        "refusal",
      );
      equal(
        await refusal(() => new IssuerPublicKey("00")),
        "an issuer's public key is a SubjectPublicKeyInfo in hexadecimal digits",
        "key",
      );
    },
  },
  ...requests.cases.map(({ body, receipt }, number) => ({
    name: `frames and receipt ${number}`,
    run() {
      const content = unhex(body);
      const frames: Uint8Array[] = [];
      for (let at = 0; at < content.length; ) {
        const size = new DataView(content.buffer).getUint32(at, true);
        frames.push(content.slice(at + 4, at + 4 + size));
        at += 4 + size;
      }
      equal(hex(framed(...frames)), body, "body");
      equal(readReceipt(unhex(receipt), frames.length).length, frames.length, "fates");
    },
  })),
  {
    name: "a receipt that is none is refused",
    async run() {
      equal(await refusal(() => readReceipt(Uint8Array.of(9), 1)), "the server's answer is no receipt; update sfumato", "9");
      equal(
        await refusal(() => readReceipt(Uint8Array.of(0, 0), 1)),
        "the server's receipt is about 2 frames, and 1 were sent",
        "2",
      );
    },
  },
  {
    name: "an answer is sent again, the same bytes, until there is a receipt, and never drawn twice",
    async run() {
      const signed = await readSigned(signedText, organiser);
      const protocol = await openProtocol(signed);
      const store = new MemoryStore();
      const account = new Account(store, "4");
      const { asked, fetch } = answering([
        new Error("lost"),
        problem("busy", { "retry-after": "7" }),
        problem("storage"),
        receipt(0),
        receipt(0),
        receipt(4),
      ]);
      WAITED.length = 0;
      const route = new Route("http://server/", { fetch, sleep });
      const given = { route, signed, protocol, account, point: [0.25, 0.5] };
      equal(await tookPart(account, signed.fingerprint), false, "before");
      const first = await takePart(given);
      equal(await tookPart(account, signed.fingerprint), true, "after");
      equal((await takePart({ ...given, point: [0.9, 0.9] })).digest, first.digest, "again");
      equal(new Set(asked.map(({ body }) => body)).size, 1, "distinct bodies");
      equal(asked[0]?.path, requests.cases[0]?.path, "path");
      equal(WAITED.length === 3 && WAITED[1] === 7 && (WAITED[0] ?? 1) <= 0.5 && (WAITED[2] ?? 3) <= 2, true, "waits");
      equal(await account.spent(), "2", "spent");
      equal(await refusal(() => takePart(given)), "the server refused what was sent: conflict (see docs/wire.md)", "fate");
    },
  },
  {
    name: "what is refused for good is not sent again, and a server that stays away costs nothing more",
    async run() {
      const signed = await readSigned(signedText, organiser);
      const protocol = await openProtocol(signed);
      const account = new Account(new MemoryStore(), "4");
      const { asked, fetch } = answering([problem("closed")]);
      const given = { signed, protocol, account, point: [0.25, 0.5] };
      const route = new Route("http://server", { fetch, sleep, tries: 3 });
      const said = await refusal(() => takePart({ ...given, route }));
      equal(said, "http://server refused: closed: The collection is over.", "closed");
      equal((await refusal(() => takePart({ ...given, route })))?.includes("nothing is lost"), true, "away");
      equal(asked.length, 4, "asked");
      equal(await account.spent(), "2", "spent");
    },
  },
  {
    name: "the newest protocol is fetched, and one that is not in the log refused",
    async run() {
      const { fingerprint } = await readSigned(signedText);
      const listed = canonicalText({ role: "collector", key: server, collections: [{ fingerprint }] });
      const one = log.split("\n")[0] ?? "";
      const answers = (entries: string): Response[] => [listed, signedText, entries].map((text) => new Response(text));
      const { fetch } = answering([...answers(log), ...answers("")]);
      const route = new Route("http://server", { fetch, sleep, tries: 1 });
      equal(one.includes(fingerprint), true, "the vectors' log is about their protocol");
      equal((await fetchProtocol(route, organiser)).fingerprint, fingerprint, "fingerprint");
      equal((await refusal(() => fetchProtocol(route, organiser)))?.includes("public log"), true, "not in the log");
    },
  },
  {
    name: "an account refuses what goes beyond its budget, another budget, and damage",
    async run() {
      const store = new MemoryStore();
      const account = new Account(store, "5/2");
      const answer = await account.remembered("a", new Fraction(2), () => utf8("one"));
      equal(hex(await account.remembered("a", new Fraction(2), () => utf8("two"))), hex(answer), "kept");
      equal(
        await refusal(() => account.remembered("b", new Fraction(1), () => utf8("x"))),
        "this device has 0.5 of its epsilon left and a report takes 1: nothing was reported",
        "budget",
      );
      equal(await account.spent(), "2", "spent");
      equal(await account.keeps("b"), false, "nothing kept");
      equal((await refusal(() => new Account(store, "3").spent()))?.includes("made with a budget of 5/2"), true, "other");
      store.text = (store.text ?? "").replace('"reports": 1', '"reports": 0');
      equal((await refusal(() => account.spent()))?.includes("is damaged"), true, "damage");
    },
  },
  {
    name: "an account of the first version, which had no checksum, is read and goes on as one of the second",
    async run() {
      const store = new MemoryStore();
      const account = new Account(store, "5/2");
      const answer = await account.remembered("a", new Fraction(2), () => utf8("one"));
      const { sha256, ...rest } = parse(store.text ?? "") as JsonObject;
      store.text = canonicalText({ ...rest, version: 1n });
      equal(await account.spent(), "2", "spent");
      equal(hex(await account.remembered("a", new Fraction(2), () => utf8("two"))), hex(answer), "kept");
      equal((parse(store.text) as JsonObject)["version"], 2n, "version");
      equal((parse(store.text) as JsonObject)["sha256"], sha256, "checksum");
      store.text = canonicalText({ ...rest, version: 2n });
      equal((await refusal(() => account.spent()))?.includes("is damaged"), true, "the second has a checksum");
    },
  },
  {
    name: "an answer without end is read no further than the largest that there can be",
    async run() {
      const [size, most] = [1 << 20, 64];
      let given = 0;
      const body = new ReadableStream<Uint8Array>({
        pull(controller) {
          if (given++ < most) controller.enqueue(new Uint8Array(size));
          else controller.close();
        },
      });
      const { fetch } = answering([new Response(body), new Response(new Uint8Array(1 << 24).fill(7)), new Response(null)]);
      const route = new Route("http://server", { fetch, sleep, tries: 1 });
      equal((await refusal(() => route.ask("/v1/log")))?.includes("the answer is too long"), true, "refusal");
      equal(given <= 18, true, "read"); // 16 MiB, the piece beyond them and the one that a stream keeps ready
      equal((await route.ask("/v1/log")).every((byte) => byte === 7), true, "the largest answer");
      equal((await route.ask("/v1/log")).length, 0, "an answer without a body");
    },
  },
];
