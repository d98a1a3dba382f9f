/**
 * HPKE (RFC 9180) for senders in base mode: X25519, HKDF-SHA256, AES-128-GCM, and one message for each ephemeral key.
 *
 * WebCrypto multiplies on the curve where it knows it, else a pure implementation does. What is the same for all messages
 * is computed once, so that a message takes five calls of WebCrypto; of a whole library of HPKE it takes eighteen.
 */

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";

import { bigEndian, concat, utf8 } from "../public/bytes.js";

const CURVE = "X25519";
const KEM = concat(utf8("KEM"), bigEndian(0x20, 2));
const SUITE = concat(utf8("HPKE"), bigEndian(0x20, 2), bigEndian(1, 2), bigEndian(1, 2));
const NOTHING = new Uint8Array(0);

/** The public half of an ephemeral key, and the secret that it shares with the receiver. */
export interface Encapsulated {
  enclosed: Uint8Array;
  secret: Uint8Array;
}

/** Draw an ephemeral key, or take the one that a test gives, and share a secret with a receiver. */
export type Encapsulate = (ephemeral?: CryptoKeyPair) => Promise<Encapsulated>;

/** An implementation of the curve; it throws for what is no key of a receiver. */
export type Curve = (receiver: Uint8Array<ArrayBuffer>) => Promise<Encapsulate>;

function extracted(salt: Uint8Array, suite: Uint8Array, label: string, key: Uint8Array): Uint8Array {
  return hmac(sha256, salt, concat(utf8("HPKE-v1"), suite, utf8(label), key));
}

function expanded(key: Uint8Array, suite: Uint8Array, label: string, info: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  const message = concat(bigEndian(size, 2), utf8("HPKE-v1"), suite, utf8(label), info, Uint8Array.of(1));
  return Uint8Array.from(hmac(sha256, key, message).subarray(0, size));
}

/** The curve of WebCrypto. */
const native: Curve = async (receiver) => {
  const { subtle } = crypto;
  const key = await subtle.importKey("raw", receiver, CURVE, false, []);
  return async (ephemeral) => {
    const pair = ephemeral ?? ((await subtle.generateKey(CURVE, false, ["deriveBits"])));
    const [raw, derived] = await Promise.all([
      subtle.exportKey("raw", pair.publicKey),
      subtle.deriveBits({ name: CURVE, public: key }, pair.privateKey, 256),
    ]);
    const [enclosed, shared] = [new Uint8Array(raw), new Uint8Array(derived)];
    if (!shared.some((byte) => byte)) throw new Error("a point of low order");
    const secret = expanded(extracted(NOTHING, KEM, "eae_prk", shared), KEM, "shared_secret", concat(enclosed, receiver), 32);
    return { enclosed, secret };
  };
};

/** The curve of WebCrypto or of a pure implementation. */
export async function curveOf(webCrypto: boolean): Promise<Curve> {
  return webCrypto ? native : (await import("./x25519_pure.js")).pure;
}

let chosen: Promise<Curve> | null = null;

function curveHere(): Promise<Curve> {
  return (chosen ??= crypto.subtle.generateKey(CURVE, false, ["deriveBits"]).then(
    () => curveOf(true),
    () => curveOf(false),
  ));
}

/** Seals messages of one purpose to one receiver. */
export class Sender {
  private constructor(
    private readonly encapsulate: Encapsulate,
    private readonly context: Uint8Array,
  ) {}

  static async to(receiver: Uint8Array<ArrayBuffer>, info: Uint8Array, curve?: Curve): Promise<Sender> {
    const encapsulate = await (curve ?? (await curveHere()))(receiver);
    const hashes = [extracted(NOTHING, SUITE, "psk_id_hash", NOTHING), extracted(NOTHING, SUITE, "info_hash", info)];
    return new Sender(encapsulate, concat(Uint8Array.of(0), ...hashes));
  }

  /** The encapsulated key, the ciphertext and the tag. */
  async seal(plaintext: Uint8Array<ArrayBuffer>, ephemeral?: CryptoKeyPair): Promise<Uint8Array> {
    const { enclosed, secret } = await this.encapsulate(ephemeral);
    const schedule = extracted(secret, SUITE, "secret", NOTHING);
    const [key, iv] = [expanded(schedule, SUITE, "key", this.context, 16), expanded(schedule, SUITE, "base_nonce", this.context, 12)];
    const cipher = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt"]);
    return concat(enclosed, new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, cipher, plaintext)));
  }
}
