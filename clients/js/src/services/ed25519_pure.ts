/**
 * Ed25519 signatures (RFC 8032) verified by the curve's own arithmetic, for browsers whose WebCrypto does not know the
 * curve. Only public things are computed here, so time tells nothing.
 */

import { concat, digest, fromLittleEndian } from "../public/bytes.js";

const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;
const D = modulo(-121665n * inverse(121666n));
const ROOT_OF_MINUS_ONE = raised(2n, (P - 1n) / 4n);
type Point = readonly [x: bigint, y: bigint, z: bigint];
const NEUTRAL: Point = [0n, 1n, 1n];
const BASE = decompressed(modulo(4n * inverse(5n)), 0n) ?? NEUTRAL;

function modulo(value: bigint): bigint {
  const rest = value % P;
  return rest < 0n ? rest + P : rest;
}

function raised(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  for (let factor = base; exponent; exponent >>= 1n, factor = (factor * factor) % P) {
    if (exponent & 1n) result = (result * factor) % P;
  }
  return result;
}

function inverse(value: bigint): bigint {
  return raised(modulo(value), P - 2n);
}

function decompressed(y: bigint, sign: bigint): Point | null {
  if (y >= P) return null;
  const square = modulo((y * y - 1n) * inverse(D * y * y + 1n));
  let x = raised(square, (P + 3n) / 8n);
  if (modulo(x * x - square)) x = modulo(x * ROOT_OF_MINUS_ONE);
  if (modulo(x * x - square) || (!x && sign)) return null;
  return [(x & 1n) === sign ? x : modulo(-x), y, 1n];
}

function pointFrom(content: Uint8Array): Point | null {
  const number = fromLittleEndian(content);
  return decompressed(number & ((1n << 255n) - 1n), number >> 255n);
}

/** The complete addition law of the twisted Edwards curve, in projective coordinates. */
function plus([x1, y1, z1]: Point, [x2, y2, z2]: Point): Point {
  const a = modulo(z1 * z2);
  const b = modulo(a * a);
  const [c, d] = [modulo(x1 * x2), modulo(y1 * y2)];
  const e = modulo(D * c * d);
  const [f, g] = [modulo(b - e), modulo(b + e)];
  return [modulo(a * f * ((x1 + y1) * (x2 + y2) - c - d)), modulo(a * g * (d + c)), modulo(f * g)];
}

function times(scalar: bigint, point: Point): Point {
  let result = NEUTRAL;
  for (let addend = point; scalar; scalar >>= 1n, addend = plus(addend, addend)) {
    if (scalar & 1n) result = plus(result, addend);
  }
  return result;
}

/** Whether a signature is this key's, by the arithmetic above. */
export async function verifiedHere(key: Uint8Array, signature: Uint8Array, content: Uint8Array): Promise<boolean> {
  const [commitment, owner] = [pointFrom(signature.subarray(0, 32)), pointFrom(key)];
  const scalar = fromLittleEndian(signature.subarray(32));
  if (!commitment || !owner || scalar >= L) return false;
  const challenge = fromLittleEndian(await digest("SHA-512", concat(signature.subarray(0, 32), key, content))) % L;
  const left = times(scalar, BASE);
  const right = plus(commitment, times(challenge, owner));
  return !modulo(left[0] * right[2] - right[0] * left[2]) && !modulo(left[1] * right[2] - right[1] * left[2]);
}
