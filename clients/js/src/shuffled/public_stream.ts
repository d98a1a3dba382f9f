/**
 * Public random numbers whose every bit is the same on every machine: the stream and the functions of
 * `sfumato.public.portable`, which use only operations that IEEE 754 defines exactly.
 */

import { sha256 } from "@noble/hashes/sha2.js";

import { bigEndian, concat, utf8, words64 } from "../public/bytes.js";
import { roundEven } from "../public/integers.js";

const LOG_2 = 0.6931471805599453;
const TWO_PI = 6.283185307179586;
const SQRT_HALF_BITS = 0x3fe6a09e667f3bcdn;
const factorial = (k: number): number => (k < 2 ? 1 : k * factorial(k - 1));
const sign = (k: number): number => (k % 2 ? -1 : 1);
const terms = (count: number, of: (k: number) => number): number[] => Array.from({ length: count }, (_, k) => of(k));
const ATANH_TERMS = terms(11, (k) => 1 / (2 * k + 1));
const SINE_TERMS = terms(8, (k) => sign(k) / factorial(2 * k + 1));
const COSINE_TERMS = terms(9, (k) => sign(k) / factorial(2 * k));

function polynomial(coefficients: readonly number[], x: number): number {
  return coefficients.reduceRight((sum, coefficient) => sum * x + coefficient);
}

const double = new DataView(new ArrayBuffer(8));

/** Natural logarithm of positive, finite, normal numbers. */
function log(x: number): number {
  double.setFloat64(0, x);
  const bits = double.getBigInt64(0);
  const exponent = (bits - SQRT_HALF_BITS) >> 52n;
  double.setBigInt64(0, bits - (exponent << 52n));
  const mantissa = double.getFloat64(0);
  const s = (mantissa - 1) / (mantissa + 1);
  return polynomial(ATANH_TERMS, s * s) * (s * 2) + Number(exponent) * LOG_2;
}

/** Cosine and sine of an angle in turns. */
function cosSinTurns(turns: number): [number, number] {
  const quarters = roundEven(turns * 4);
  const angle = (turns - quarters * 0.25) * TWO_PI;
  const square = angle * angle;
  const sine = polynomial(SINE_TERMS, square) * angle;
  const cosine = polynomial(COSINE_TERMS, square);
  const quadrant = ((quarters % 4) + 4) % 4;
  const [first, second] = quadrant & 1 ? [sine, cosine] : [cosine, sine];
  return [first * (1 - ((quadrant + 1) & 2)), second * (1 - (quadrant & 2))];
}

/** The first `count` words of the stream of a seed and a label. */
export async function publicWords(seed: bigint, label: string, count: number): Promise<bigint[]> {
  const key = sha256(concat(utf8(`sfumato-public-1\0${label}\0`), bigEndian(seed, 32)));
  const imported = await crypto.subtle.importKey("raw", Uint8Array.from(key), "AES-CTR", false, ["encrypt"]);
  const counter = { name: "AES-CTR", counter: new Uint8Array(16), length: 128 };
  return words64(new Uint8Array(await crypto.subtle.encrypt(counter, imported, new Uint8Array(8 * count))));
}

function uniform(word: bigint): number {
  return (Number(word >> 12n) + 0.5) * 2 ** -52;
}

/** Draw numbers of a law from the words of a stream. */
export const LAWS = {
  normal(words: readonly bigint[]): number[] {
    const made: number[] = [];
    for (let i = 0; i + 1 < words.length; i += 2) {
      const radius = Math.sqrt(-2 * log(uniform(words[i] ?? 0n)));
      const [cosine, sine] = cosSinTurns(uniform(words[i + 1] ?? 0n));
      made.push(radius * cosine, radius * sine);
    }
    return made;
  },
  cauchy(words: readonly bigint[]): number[] {
    return words.map((word) => {
      const [cosine, sine] = cosSinTurns((uniform(word) - 0.5) * 0.5);
      return sine / cosine;
    });
  },
  laplace(words: readonly bigint[]): number[] {
    return words.map((word) => {
      const t = 2 * uniform(word) - 1;
      const size = Math.abs(log(1 - Math.abs(t)));
      return t < 0 ? -size : size;
    });
  },
};
