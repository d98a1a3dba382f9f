/** Signed documents and the public log: what an organiser published, and what a server says that it did. */

import { sha256 } from "@noble/hashes/sha2.js";

import { InputError, StorageError } from "../errors.js";
import { hex, unhex } from "../public/bytes.js";
import { anything, hexadecimal, line, oneOf, optional, readFields, whole } from "../public/codec.js";
import { checkDocument } from "../public/document.js";
import { canonical, fingerprint, isObject, parse, type JsonObject } from "../public/json.js";
import { verified } from "./ed25519.js";

const FORMAT = "sfumato-signed-protocol";
const VERSION = 1n;
export const LARGEST = 1 << 24;
const LARGEST_ENTRY = 1000;

/** A protocol that its organiser signed. */
export interface SignedProtocol {
  readonly document: JsonObject;
  /** The key that tokens are signed with, or null: then anybody may report. */
  readonly issuer: string | null;
  readonly shuffler: string | null;
  /** The organiser's public key, and the signature, in hexadecimal. */
  readonly key: string;
  readonly signature: string;
  readonly fingerprint: string;
}

const FIELDS = {
  document: anything,
  issuer: optional(line(2000)),
  shuffler: optional(hexadecimal(64)),
  key: hexadecimal(64),
  signature: hexadecimal(128),
};

/**
 * Read a signed protocol, and refuse it unless the signature is right.
 *
 * `organiser` is the organiser's public key as the device knows it; without one, any key that signed will do.
 */
export async function readSigned(content: Uint8Array | string, organiser?: string | null): Promise<SignedProtocol> {
  const fields = parse(content, "the signed protocol", LARGEST);
  if (!isObject(fields) || fields["format"] !== FORMAT || fields["version"] !== VERSION) {
    throw new InputError("this is not a signed protocol that this version of sfumato reads");
  }
  const rest = { ...fields };
  for (const name of ["format", "version"]) Reflect.deleteProperty(rest, name);
  const { document, issuer, shuffler, key, signature } = readFields(rest, "", FIELDS);
  checkDocument(document);
  if (organiser !== undefined && organiser !== null && key !== organiser) {
    throw new InputError(
      `the protocol is signed with the key ${key.slice(0, 16)}..., not with the organiser's ` +
        `${organiser.slice(0, 16)}...: do not take part, and tell the organiser`,
    );
  }
  const text = canonical({ format: FORMAT, version: VERSION, document, issuer, shuffler, key });
  if (!(await verified(unhex(key), unhex(signature), text))) {
    throw new InputError("the protocol's signature is wrong: somebody changed it; do not take part");
  }
  return { document, issuer, shuffler, key, signature, fingerprint: fingerprint(document) };
}

const ENTRY = {
  number: whole(0, 2 ** 40),
  time: line(40),
  event: oneOf("opened", "closed", "published", "key-deleted", "messages-deleted"),
  fingerprint: hexadecimal(64),
  previous: hexadecimal(64),
  signature: hexadecimal(128),
};

/** Read a server's log, and refuse it unless every entry is signed and holds the hash of the one before. */
export async function readLog(content: string, key: string): Promise<{ event: string; fingerprint: string }[]> {
  const entries: { event: string; fingerprint: string }[] = [];
  let previous = "0".repeat(64);
  for (const text of content.split(/\r?\n/).filter((text) => text)) {
    const parsed = parse(text, "an entry of the log", LARGEST_ENTRY);
    const { number, signature, ...entry } = readFields(parsed, "", ENTRY);
    const unsigned = { number: BigInt(number), ...entry };
    if (!(await verified(unhex(key), unhex(signature), canonical(unsigned))) || number !== entries.length) {
      throw new StorageError("the log was changed: an entry is missing, or not signed by the server's key");
    }
    if (entry.previous !== previous) {
      throw new StorageError("the log was changed: an entry does not follow from the one before");
    }
    previous = hex(sha256(canonical({ ...unsigned, signature })));
    entries.push(entry);
  }
  return entries;
}
