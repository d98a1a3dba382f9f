/** Taking part over a network: the newest protocol, a token where one is needed, one answer that is kept and sent. */

import { sha256 } from "@noble/hashes/sha2.js";

import type { Account } from "../account/account.js";
import { InputError, RefusedError } from "../errors.js";
import { concat, hex, utf8 } from "../public/bytes.js";
import { Fraction } from "../public/fraction.js";
import { isObject, parse } from "../public/json.js";
import type { Protocol } from "../protocol.js";
import { LARGEST, readLog, readSigned, type SignedProtocol } from "./signing.js";
import { framed, readReceipt, ROOT, type Route } from "./wire.js";

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
  const { route, signed, protocol, account, point } = asked;
  if (protocol.fingerprint !== signed.fingerprint) throw new InputError("the protocol is not the one that was signed");
  const { group, fresh } = await prepared(asked);
  const token = await tokenFor(asked);
  const content = await account.remembered(signed.fingerprint, protocol.price, () => fresh(point));
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

type Fresh = (point: readonly number[]) => Uint8Array | Promise<Uint8Array>;

/** The group that the answer goes to, and how it is made; a class is reported first, at its own price. */
async function prepared({ protocol, account, label }: TakingPart): Promise<{ group: number; fresh: Fresh }> {
  if (protocol.trust === "local") return { group: 0, fresh: (point) => protocol.report(point) };
  if (!(await account.keeps(protocol.fingerprint))) await protocol.checkBeforeClass(account);
  const reported = await protocol.reportedClass(label ?? null, account);
  return { group: protocol.groupOf(reported), fresh: (point) => protocol.sealed(point, reported) };
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
