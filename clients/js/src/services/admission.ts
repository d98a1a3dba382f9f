/**
 * One-time tokens that are signed blindly: RSABSSA-SHA384-PSS-Randomized of RFC 9474.
 *
 * The issuer sees a uniformly random number, whatever the message is; what the device holds in the end is an ordinary
 * RSASSA-PSS signature of a message that the issuer never saw.
 */

import { InputError } from "../errors.js";
import { bigEndian, concat, digest, fromBigEndian, littleEndian, unhex, utf8 } from "../public/bytes.js";
import { Coins } from "../public/coins.js";
import { bitLength, gcd } from "../public/integers.js";

const KEY_BITS = [2048, 3072, 4096];
export const NONCE_BYTES = 32;
const SALT_BYTES = 48;
const DIGEST_BYTES = 48;

/** What a token of a collection says after its nonce. */
export function tokenText(fingerprint: string): Uint8Array {
  return concat(utf8("sfumato-token-1\0"), unhex(fingerprint));
}

/** Content of the next DER element of a kind, and what follows it. */
function element(content: Uint8Array, kind: number): [Uint8Array, Uint8Array] {
  let [at, size] = [2, content[1] ?? 0];
  if (size & 0x80) {
    const digits = size & 0x7f;
    size = Number(fromBigEndian(content.subarray(2, 2 + digits)));
    at += digits;
  }
  if (content[0] !== kind || at + size > content.length) throw new RangeError("DER");
  return [content.subarray(at, at + size), content.subarray(at + size)];
}

/** Object identifiers of RSA keys, and of those that are for PSS. */
const RSA = ["2a864886f70d010101"];

/** The public half of an issuer's key: a SubjectPublicKeyInfo in hexadecimal digits. */
export class IssuerPublicKey {
  readonly modulus: bigint;
  readonly exponent: bigint;
  readonly signatureBytes: number;

  constructor(text: string) {
    try {
      if (!/^([0-9a-f]{2})+$/i.test(text)) throw new RangeError("hexadecimal");
      const [algorithm, key] = element(element(unhex(text), 0x30)[0], 0x30);
      const name = element(algorithm, 0x06)[0];
      if (!RSA.some((known) => fromBigEndian(unhex(known)) === fromBigEndian(name))) throw new TypeError("RSA");
      const numbers = element(element(key, 0x03)[0].subarray(1), 0x30)[0];
      const [modulus, rest] = element(numbers, 0x02);
      this.modulus = fromBigEndian(modulus);
      this.exponent = fromBigEndian(element(rest, 0x02)[0]);
    } catch (problem) {
      if (problem instanceof TypeError) throw wrongKey();
      throw new InputError("an issuer's public key is a SubjectPublicKeyInfo in hexadecimal digits");
    }
    if (!KEY_BITS.includes(bitLength(this.modulus))) throw wrongKey();
    this.signatureBytes = bitLength(this.modulus) / 8;
  }

  /** Whether a signature is of this message: RSASSA-PSS-VERIFY of RFC 8017 with SHA-384 and a salt of 48 bytes. */
  async verified(signature: Uint8Array, prepared: Uint8Array): Promise<boolean> {
    const number = fromBigEndian(signature);
    if (signature.length !== this.signatureBytes || number >= this.modulus) return false;
    const encoded = bigEndian(raised(number, this.exponent, this.modulus), this.signatureBytes);
    const end = encoded.length - DIGEST_BYTES - 1;
    const [masked, seed] = [encoded.subarray(0, end), encoded.subarray(end, -1)];
    const block = xor(masked, await mask(seed, masked.length));
    block[0] = (block[0] ?? 0) & 0x7f;
    const salt = block.subarray(block.length - SALT_BYTES);
    const wanted = await emsaPss(prepared, salt, this.signatureBytes);
    return wanted.every((byte, i) => byte === encoded[i]);
  }

  /** Whether a token was signed for this collection. */
  async admits(token: Uint8Array, fingerprint: string): Promise<boolean> {
    const [nonce, signature] = [token.subarray(0, NONCE_BYTES), token.subarray(NONCE_BYTES)];
    return this.verified(signature, concat(nonce, tokenText(fingerprint)));
  }
}

function wrongKey(): InputError {
  return new InputError(`an issuer's public key must be RSA of ${KEY_BITS.join(", ")} bits`);
}

function raised(base: bigint, exponent: bigint, modulus: bigint): bigint {
  let result = 1n;
  for (let factor = base % modulus; exponent; exponent >>= 1n, factor = (factor * factor) % modulus) {
    if (exponent & 1n) result = (result * factor) % modulus;
  }
  return result;
}

function inverse(value: bigint, modulus: bigint): bigint {
  let [a, b, x, y] = [value, modulus, 1n, 0n];
  while (b) {
    const quotient = a / b;
    [a, b, x, y] = [b, a - quotient * b, y, x - quotient * y];
  }
  return x < 0n ? x + modulus : x;
}

function xor(left: Uint8Array, right: Uint8Array): Uint8Array {
  return left.map((byte, i) => byte ^ (right[i] ?? 0));
}

/** MGF1 with SHA-384. */
async function mask(seed: Uint8Array, length: number): Promise<Uint8Array> {
  const counters = Array.from({ length: Math.ceil(length / DIGEST_BYTES) }, (_, i) => bigEndian(i, 4));
  const blocks = await Promise.all(counters.map((counter) => digest("SHA-384", concat(seed, counter))));
  return concat(...blocks).subarray(0, length);
}

/** EMSA-PSS-ENCODE of RFC 8017 for one bit less than the key has. */
async function emsaPss(prepared: Uint8Array, salt: Uint8Array, length: number): Promise<Uint8Array> {
  const message = await digest("SHA-384", concat(prepared));
  const seed = await digest("SHA-384", concat(new Uint8Array(8), message, salt));
  const block = concat(new Uint8Array(length - salt.length - seed.length - 2), Uint8Array.of(1), salt);
  const masked = xor(block, await mask(seed, block.length));
  masked[0] = (masked[0] ?? 0) & 0x7f;
  return concat(masked, seed, Uint8Array.of(0xbc));
}

/** What a device keeps while the issuer signs: the message with its nonce, what is sent, and what takes it off. */
export class BlindRequest {
  constructor(
    readonly prepared: Uint8Array,
    readonly blinded: Uint8Array,
    private readonly inverse: bigint,
  ) {}

  toBytes(): Uint8Array {
    const size = this.blinded.length;
    return concat(littleEndian(size, 2), this.blinded, bigEndian(this.inverse, size), this.prepared);
  }

  static fromBytes(content: Uint8Array): BlindRequest {
    const size = (content[0] ?? 0) + 256 * (content[1] ?? 0);
    const rest = content.subarray(2);
    return new BlindRequest(rest.slice(2 * size), rest.slice(0, size), fromBigEndian(rest.subarray(size, 2 * size)));
  }

  /** The token, nonce and signature; throw an `InputError` if the issuer did not sign. */
  async token(signed: Uint8Array, key: IssuerPublicKey): Promise<Uint8Array> {
    if (signed.length === key.signatureBytes) {
      const number = (fromBigEndian(signed) * this.inverse) % key.modulus;
      const signature = bigEndian(number, key.signatureBytes);
      if (await key.verified(signature, this.prepared)) return concat(this.prepared.subarray(0, NONCE_BYTES), signature);
    }
    throw new InputError("the issuer's answer is no signature under its own key; ask again, or tell the organiser");
  }
}

/** Begin a token: prepare a message and blind it. */
export function blind(text: Uint8Array, key: IssuerPublicKey, coins: Coins = new Coins()): Promise<BlindRequest> {
  const prepared = concat(coins.take(NONCE_BYTES), text);
  const salt = coins.take(SALT_BYTES);
  for (;;) {
    const factor = coins.below(key.modulus);
    if (factor > 1n && gcd(factor, key.modulus) === 1n) return blindedWith(prepared, key, salt, factor);
  }
}

/** Blind a prepared message with given coins. */
export async function blindedWith(
  prepared: Uint8Array,
  key: IssuerPublicKey,
  salt: Uint8Array,
  factor: bigint,
): Promise<BlindRequest> {
  const message = fromBigEndian(await emsaPss(prepared, salt, key.signatureBytes));
  if (gcd(message, key.modulus) !== 1n) {
    throw new InputError("the message shares a factor with the issuer's key, which is broken");
  }
  const blinded = (message * raised(factor, key.exponent, key.modulus)) % key.modulus;
  return new BlindRequest(prepared, bigEndian(blinded, key.signatureBytes), inverse(factor, key.modulus));
}
