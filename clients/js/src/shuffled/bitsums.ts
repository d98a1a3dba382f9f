/** Bit sums on a device: what a user sends for a bit, as counts of messages that say one and zero. */

import { between, countText, readFields } from "../public/codec.js";
import { Fraction } from "../public/fraction.js";
import type { Json } from "../public/json.js";
import { negativeBinomial, poisson, type SecretWords } from "./words.js";

const CHANCE = between(new Fraction(0), new Fraction(1));
const FLIP = between(new Fraction(0), new Fraction(1, 2));
const RATE = between(new Fraction(1, 2n ** 24n), new Fraction(100));
const MEAN = between(new Fraction(0), new Fraction(2n ** 100n));
const MOST_SHAPE = 2n ** 20n;

export interface Counts {
  ones: bigint[];
  zeros: bigint[];
}

export type BitSum =
  | { kind: "rr"; flip: Fraction }
  | { kind: "sampled-rr"; flip: Fraction; send: Fraction }
  | { kind: "poisson"; mean: Fraction }
  | { kind: "negative-binomial"; shape: bigint; rate: Fraction }
  | { kind: "3nb"; rate: Fraction; floodShape: bigint; floodRate: Fraction };

/** Names of bit sums that documents may hold; `pure` is refused by name where it is used. */
export const KINDS = ["rr", "sampled-rr", "poisson", "negative-binomial", "3nb", "pure"] as const;

/** Read the parameters of a bit sum; null for one that this device does not make. */
export function readBitSum(kind: (typeof KINDS)[number], parameters: Json, path: string): BitSum | null {
  switch (kind) {
    case "rr":
      return { kind, ...readFields(parameters, path, { flip: FLIP }) };
    case "sampled-rr":
      return { kind, ...readFields(parameters, path, { flip: FLIP, send: CHANCE }) };
    case "poisson":
      return { kind, ...readFields(parameters, path, { mean: MEAN }) };
    case "negative-binomial":
      return { kind, ...readFields(parameters, path, { shape: countText(MOST_SHAPE), rate: RATE }) };
    case "3nb": {
      const fields = { rate: RATE, flood_shape: countText(MOST_SHAPE), flood_rate: RATE };
      const { rate, flood_shape: floodShape, flood_rate: floodRate } = readFields(parameters, path, fields);
      return { kind, rate, floodShape, floodRate };
    }
    case "pure":
      return null;
  }
}

/** Whether every participant sends exactly one message for each instance. */
export function everyInstance(bitsum: BitSum): boolean {
  return bitsum.kind === "rr";
}

/** What one of `n` participants sends for these bits, one entry an instance. */
export function randomised(bitsum: BitSum, n: number, bits: readonly boolean[], words: SecretWords): Counts {
  const size = bits.length;
  switch (bitsum.kind) {
    case "rr":
      return split(flipped(bits, words.coins(size, bitsum.flip)));
    case "sampled-rr": {
      const sent = words.coins(size, bitsum.send);
      const { ones, zeros } = split(flipped(bits, words.coins(size, bitsum.flip)));
      const kept = (counts: bigint[]): bigint[] => counts.map((count, i) => (sent[i] ? count : 0n));
      return { ones: kept(ones), zeros: kept(zeros) };
    }
    case "poisson":
      return onesOnly(bits, poisson(words, size, bitsum.mean.over(n)));
    case "negative-binomial":
      return onesOnly(bits, negativeBinomial(words, size, new Fraction(bitsum.shape, n), bitsum.rate));
    case "3nb": {
      const [up, down] = [0, 1].map(() => negativeBinomial(words, size, new Fraction(1, n), bitsum.rate));
      const flood = negativeBinomial(words, size, new Fraction(bitsum.floodShape, n), bitsum.floodRate);
      const plus = (left: bigint[] | undefined): bigint[] => flood.map((pairs, i) => pairs + (left?.[i] ?? 0n));
      return { ones: plus(up).map((count, i) => count + (bits[i] ? 1n : 0n)), zeros: plus(down) };
    }
  }
}

function flipped(bits: readonly boolean[], coins: readonly boolean[]): boolean[] {
  return bits.map((bit, i) => bit !== coins[i]);
}

function split(sent: readonly boolean[]): Counts {
  return { ones: sent.map((bit) => (bit ? 1n : 0n)), zeros: sent.map((bit) => (bit ? 0n : 1n)) };
}

function onesOnly(bits: readonly boolean[], noise: readonly bigint[]): Counts {
  return { ones: noise.map((count, i) => count + (bits[i] ? 1n : 0n)), zeros: noise.map(() => 0n) };
}
