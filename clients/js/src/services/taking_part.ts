/** Taking part over a network: the newest protocol, a token where one is needed, one answer that is kept and sent. */

import { sha256 } from "@noble/hashes/sha2.js";

import type { Account } from "../account/account.js";
import { InputError, RefusedError } from "../errors.js";
import type { LocalProtocol } from "../local/protocol.js";
import { bigEndian, concat, fromBigEndian, hex, utf8 } from "../public/bytes.js";
import { Fraction } from "../public/fraction.js";
import { isObject, parse } from "../public/json.js";
import { represented } from "../public/text.js";
import type { Protocol } from "../protocol.js";
import type { ShuffledProtocol } from "../shuffled/protocol.js";
import { LARGEST, readLog, readSigned, type SignedProtocol } from "./signing.js";
import { framed, readReceipt, ROOT, type Route } from "./wire.js";

const GROUP_BYTES = 2;

/** Fetch the newest protocol of a server, and refuse it unless it is signed and stands in the server's log. */
export async function fetchProtocol(route: Route, organiser: string | null, log: Route = route): Promise<SignedProtocol> {
  const listed = parse(await route.ask(`${ROOT}/collections`), "the server's collections", LARGEST);
  const collections = isObject(listed) && Array.isArray(listed["collections"]) ? listed["collections"] : [];
  const newest = collections[collections.length - 1];
  const key = isObject(listed) ? listed["key"] : null;
  if (!isObject(newest) || typeof newest["fingerprint"] !== "string" || typeof key !== "string") {
    throw new InputError("the server lists no collections; update sfumato, or tell the organiser");
  }
  const name = newest["fingerprint"];
  if (!/^[0-9a-f]{64}$/.test(name) || !/^[0-9a-f]{64}$/.test(key)) {
    throw new InputError("the server lists no collections; update sfumato, or tell the organiser");
  }
  const signed = await readSigned(await route.ask(`${ROOT}/collections/${name}/protocol`), organiser);
  const entries = await readLog(new TextDecoder().decode(await log.ask(`${ROOT}/log`)), key);
  if (!entries.some((entry) => entry.fingerprint === signed.fingerprint && entry.event === "opened")) {
    throw new InputError(
      "the protocol is not in the server's public log: it may be made for you alone; do not take part",
    );
  }
  return signed;
}

export interface TakingPart {
  route: Route;
  signed: SignedProtocol;
  protocol: Protocol;
  account: Account;
  point: readonly number[];
  /** One's own class, where there are classes. */
  label?: string | number;
  /** Who admits devices, and one's invitation, where tokens are needed. */
  issuer?: Route;
  invitation?: string;
}

export interface Receipt {
  fingerprint: string;
  group: number;
  bytes: number;
  /** SHA-256 of what was sent, in hexadecimal. */
  digest: string;
}

/** Draw the answer once, keep it, and send it until it is acknowledged; called again it sends the same bytes again. */
export async function takePart(asked: TakingPart): Promise<Receipt> {
  const { route, signed, protocol } = asked;
  if (protocol.fingerprint !== signed.fingerprint) throw new InputError("the protocol is not the one that was signed");
  const { group, content, token } = protocol.trust === "local" ? await report(asked, protocol) : await messages(asked, protocol);
  const where = `${ROOT}/collections/${signed.fingerprint}/${group}/frames`;
  const fate = readReceipt(await route.ask(where, framed(concat(token, content))), 1)[0] ?? "";
  if (fate !== "held") {
    throw new RefusedError(`the server refused what was sent: ${fate} (see docs/wire.md)`, fate);
  }
  return { fingerprint: signed.fingerprint, group, bytes: content.length, digest: hex(sha256(content)) };
}

/** Whether this device has made its answer; it may still have to be sent. */
export async function tookPart(account: Account, fingerprint: string): Promise<boolean> {
  return account.keeps(fingerprint);
}

/** What leaves: an answer that is kept, the group that it is for, and a token where one is needed. */
interface Leaving {
  group: number;
  content: Uint8Array;
  token: Uint8Array;
}

async function report(asked: TakingPart, protocol: LocalProtocol): Promise<Leaving> {
  const token = await tokenFor(asked);
  const fresh = (): Uint8Array => protocol.report(asked.point);
  return { group: 0, content: await asked.account.remembered(protocol.fingerprint, protocol.price, fresh), token };
}

/** A class is reported first, at its own price; the group stands before the messages that are sealed for it. */
async function messages(asked: TakingPart, protocol: ShuffledProtocol): Promise<Leaving> {
  const { account, point, label } = asked;
  const answered = await account.keeps(protocol.fingerprint);
  if (!answered) await protocol.checkBeforeClass(account);
  const reported = await protocol.reportedClass(label ?? null, account);
  const place = answered && reported === null ? null : protocol.groupOf(reported);
  const token = await tokenFor(asked);
  const kept = await account.remembered(protocol.fingerprint, protocol.price, async () =>
    concat(bigEndian(place ?? 0, GROUP_BYTES), await protocol.sealed(point, reported)),
  );
  if (kept.length <= GROUP_BYTES) {
    throw new InputError("this device's messages were written to a file before: send those, a second set costs more");
  }
  const group = Number(fromBigEndian(kept.subarray(0, GROUP_BYTES)));
  if (place !== null && place !== group) {
    const name = protocol.classes?.[group];
    const shown = typeof name === "string" ? represented(name) : String(name);
    throw new InputError(`this device answered as ${shown}, and its answer is kept: name that class, or none`);
  }
  return { group, content: kept.slice(GROUP_BYTES), token };
}

/** A token that admits one answer: what was blinded is kept before it is sent, the token before it is used. */
async function tokenFor({ signed, account, issuer, invitation }: TakingPart): Promise<Uint8Array> {
  if (signed.issuer === null) return new Uint8Array(0);
  if (!issuer || invitation === undefined) {
    throw new InputError("the collection admits by invitation: pass issuer and invitation");
  }
  const { BlindRequest, blind, IssuerPublicKey, tokenText } = await import("./admission.js");
  const key = new IssuerPublicKey(signed.issuer);
  const free = new Fraction(0);
  const asked = `token-request ${signed.fingerprint}`;
  const drawn = await account.remembered(asked, free, async () =>
    (await blind(tokenText(signed.fingerprint), key)).toBytes(),
  );
  const request = BlindRequest.fromBytes(drawn);
  return account.remembered(`token ${signed.fingerprint}`, free, async () => {
    const frames = framed(utf8(invitation.trim()), request.blinded);
    return request.token(await issuer.ask(`${ROOT}/collections/${signed.fingerprint}/token`, frames), key);
  });
}
