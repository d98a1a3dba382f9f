/**
 * Messages that only the analyzer can read: HPKE with an ephemeral key for each; the info binds it to one protocol and
 * one group.
 */

import { sha256 } from "@noble/hashes/sha2.js";

import { InputError } from "../errors.js";
import { concat, hex, littleEndian, unhex, utf8 } from "../public/bytes.js";
import { Coins } from "../public/coins.js";
import { blake2b } from "./blake2b.js";
import { Sender, type Curve } from "./hpke.js";

const PLAINTEXT_BYTES = 5;
export const MESSAGE_BYTES = 32 + PLAINTEXT_BYTES + 16;
const IDENTITY_BYTES = 16;
const DIGEST_BYTES = 16;
/** Instance of a message that says nothing. */
export const COVER = 2 ** 32 - 1;

/** A short name of a public key: the first 8 bytes of its SHA-256. */
export function keyName(publicKey: string): string {
  return hex(sha256(unhex(publicKey))).slice(0, 16);
}

export interface Plaintext {
  instance: number;
  content: number;
}

/** Seals messages to one key, for one protocol and group. */
export class Sealer {
  private constructor(private readonly sender: Sender) {}

  /** Refuse a public key that is none: a point of low order opens to everybody. */
  static async to(publicKey: string, fingerprint: string, group: number, curve?: Curve): Promise<Sealer> {
    const info = concat(utf8("sfumato-shuffled-2\0"), unhex(fingerprint), littleEndian(group, 4));
    try {
      const sealer = new Sealer(await Sender.to(unhex(publicKey), info, curve));
      await sealer.seal({ instance: COVER, content: 0 });
      return sealer;
    } catch {
      throw new InputError(
        "the analyzer's key in the protocol is no key: anybody can open what is sealed to it; do not take part, and " +
          "ask the organiser for a document with a key from AnalyzerKey.generate()",
      );
    }
  }

  /** Seal one message; `ephemeral` is for tests. */
  seal({ instance, content }: Plaintext, ephemeral?: CryptoKeyPair): Promise<Uint8Array> {
    return this.sender.seal(concat(littleEndian(instance, 4), littleEndian(content, 1)), ephemeral);
  }
}

/** A submission: a random identity, a digest that finds accidents, and the sealed messages. */
export function submission(messages: readonly Uint8Array[], coins: Coins = new Coins()): Uint8Array {
  const identity = coins.take(IDENTITY_BYTES);
  const sealed = concat(...messages);
  return concat(identity, blake2b(concat(identity, sealed), DIGEST_BYTES), sealed);
}
