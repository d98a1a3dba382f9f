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
const MOST_PURE_SHAPE = 4096n;
const MOST_COPIES = 2n ** 50n;

export interface Counts {
  ones: bigint[];
  zeros: bigint[];
}

/** Noise on either sign, and a flood of pairs that cancel. */
interface Flooded {
  rate: Fraction;
  floodShape: bigint;
  floodRate: Fraction;
}

export interface Pure extends Flooded {
  kind: "pure";
  drop: Fraction;
  copies: bigint;
}

export type BitSum =
  | { kind: "rr"; flip: Fraction }
  | { kind: "sampled-rr"; flip: Fraction; send: Fraction }
  | { kind: "poisson"; mean: Fraction }
  | { kind: "negative-binomial"; shape: bigint; rate: Fraction }
  | ({ kind: "3nb" } & Flooded)
  | Pure;

/** Names of bit sums that documents may hold. */
export const KINDS = ["rr", "sampled-rr", "poisson", "negative-binomial", "3nb", "pure"] as const;

/** Read the parameters of a bit sum. */
export function readBitSum(kind: (typeof KINDS)[number], parameters: Json, path: string): BitSum {
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
    case "pure": {
      const flood = { flood_shape: countText(MOST_PURE_SHAPE), flood_rate: RATE };
      const fields = { rate: RATE, drop: CHANCE, copies: countText(MOST_COPIES), ...flood };
      const { flood_shape: floodShape, flood_rate: floodRate, ...rest } = readFields(parameters, path, fields);
      return { kind, ...rest, floodShape, floodRate };
    }
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
      const { ones, zeros } = flooded(bitsum, n, size, words);
      return { ones: ones.map((count, i) => count + (bits[i] ? 1n : 0n)), zeros };
    }
    case "pure": {
      const left = words.coins(size, bitsum.drop);
      const { ones, zeros } = flooded(bitsum, n, size, words);
      const copies = left.map((out) => (out ? 0n : bitsum.copies));
      const own = left.map((out, i) => (!out && bits[i] ? 1n : 0n));
      return { ones: sums(sums(copies, own), ones), zeros: sums(copies, zeros) };
    }
  }
}

/** Shares of the noise of either sign and of the flood. */
function flooded({ rate, floodShape, floodRate }: Flooded, n: number, size: number, words: SecretWords): Counts {
  const up = negativeBinomial(words, size, new Fraction(1, n), rate);
  const down = negativeBinomial(words, size, new Fraction(1, n), rate);
  const flood = negativeBinomial(words, size, new Fraction(floodShape, n), floodRate);
  return { ones: sums(up, flood), zeros: sums(down, flood) };
}

function sums(left: readonly bigint[], right: readonly bigint[]): bigint[] {
  return left.map((count, i) => count + (right[i] ?? 0n));
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
