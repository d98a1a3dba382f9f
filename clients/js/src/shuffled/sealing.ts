/**
 * Messages that only the analyzer can read: HPKE (RFC 9180), base mode, X25519, HKDF-SHA256, AES-128-GCM.
 *
 * WebCrypto multiplies on the curve where it knows it, else a pure implementation does. Every message has an ephemeral
 * key of its own; the info binds it to one protocol and one group.
 */

import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { sha256 } from "@noble/hashes/sha2.js";

import { InputError } from "../errors.js";
import { concat, hex, littleEndian, unhex, utf8 } from "../public/bytes.js";
import { Coins } from "../public/coins.js";
import { blake2b } from "./blake2b.js";

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

export type Ephemeral = CryptoKeyPair;

/** Seals messages to one key, for one protocol and group. */
export class Sealer {
  private constructor(
    private readonly suite: CipherSuite,
    private readonly key: CryptoKey,
    private readonly info: Uint8Array<ArrayBuffer>,
  ) {}

  /** Refuse a public key that is none: a point of low order opens to everybody. */
  static async to(publicKey: string, fingerprint: string, group: number, given?: CipherSuite): Promise<Sealer> {
    const info = concat(utf8("sfumato-shuffled-2\0"), unhex(fingerprint), littleEndian(group, 4));
    const suite = given ?? (await suiteHere());
    try {
      const sealer = new Sealer(suite, await suite.kem.importKey("raw", unhex(publicKey).buffer, true), info);
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
  async seal({ instance, content }: Plaintext, ephemeral?: Ephemeral): Promise<Uint8Array> {
    const sender = await this.suite.createSenderContext({
      recipientPublicKey: this.key,
      info: this.info,
      ...(ephemeral ? { ekm: ephemeral } : {}),
    });
    const plaintext = concat(littleEndian(instance, 4), littleEndian(content, 1));
    return concat(new Uint8Array(sender.enc), new Uint8Array(await sender.seal(plaintext)));
  }
}

let chosen: Promise<CipherSuite> | null = null;

function suiteHere(): Promise<CipherSuite> {
  return (chosen ??= webCryptoHasX25519().then((has) => suiteWith(has)));
}

/** The suite with WebCrypto's curve or with a pure implementation. */
export async function suiteWith(webCrypto: boolean): Promise<CipherSuite> {
  const pure = webCrypto ? null : await import("./x25519_pure.js");
  const kem = pure ? new pure.DhkemX25519HkdfSha256() : new DhkemX25519HkdfSha256();
  return new CipherSuite({ kem, kdf: new HkdfSha256(), aead: new Aes128Gcm() });
}

async function webCryptoHasX25519(): Promise<boolean> {
  try {
    await crypto.subtle.generateKey("X25519", false, ["deriveBits"]);
    return true;
  } catch {
    return false;
  }
}

/** A submission: a random identity, a digest that finds accidents, and the sealed messages. */
export function submission(messages: readonly Uint8Array[], coins: Coins = new Coins()): Uint8Array {
  const identity = coins.take(IDENTITY_BYTES);
  const sealed = concat(...messages);
  return concat(identity, blake2b(concat(identity, sealed), DIGEST_BYTES), sealed);
}
