/** Hash functions on a device: row r of a public pool sends a point to one of a few buckets. */

import { InputError } from "../errors.js";
import { words32, words64 } from "../public/bytes.js";
import { flag, oneOf, readFields, whole, type Field } from "../public/codec.js";
import { plain, type JsonObject } from "../public/json.js";
import { CAUCHY, CELLS, KEY_BYTES, NORMAL, rowBytes, WORD_BYTES, type Law } from "../public/rows.js";

const LABEL = "local/rows";
const HASH_BITS = 24n;
const MASK = (1n << 64n) - 1n;
const MOST_BUCKETS = 64;
export const MOST_POINT_BITS = 30;
const LAWS = { normal: NORMAL, cauchy: CAUCHY } as const;

const COMMON = { buckets: whole(2, MOST_BUCKETS), rehash: flag, point_bits: whole(0, MOST_POINT_BITS) };
const FIELDS = {
  "p-stable": { ...COMMON, law: oneOf("normal", "cauchy") },
  grid: { ...COMMON, random_widths: flag },
  signs: { ...COMMON, power: whole(1, 32) },
  minhash: COMMON,
} as const;
export type FamilyName = keyof typeof FIELDS;
const FAMILY = oneOf("p-stable", "grid", "signs", "minhash");

export function dot(numbers: readonly number[], X: readonly bigint[]): bigint {
  return numbers.reduce((sum, number, j) => sum + BigInt(number) * (X[j] ?? 0n), 0n);
}

export abstract class RowHash {
  readonly buckets: number;
  readonly pointBits: number;
  private readonly rehashes: boolean;
  /** How many 32-bit words a row takes. */
  protected abstract readonly words: number;
  /** Integers of a cell. */
  protected readonly length: number = 1;

  constructor(
    given: { buckets: number; rehash: boolean; point_bits: number },
    private readonly seed: Uint8Array,
    readonly dimension: number,
    fewCells = false,
  ) {
    this.buckets = given.buckets;
    this.rehashes = given.rehash;
    this.pointBits = given.point_bits;
    if (!this.rehashes && !fewCells) throw new InputError("the protocol's hash functions need a rehash");
  }

  bucket(row: number, X: readonly bigint[]): number {
    const { keys, words } = this.drawn(row);
    return this.named(keys, this.cell(words, X));
  }

  /** Keys and words of a row. */
  drawn(row: number): { keys: bigint[]; words: number[] } {
    const split = KEY_BYTES * (this.rehashes ? 2 * this.length + 1 : 0);
    const content = rowBytes(this.seed, LABEL, row, split + WORD_BYTES * this.words);
    return { keys: words64(content.slice(0, split)), words: words32(content.slice(split)) };
  }

  /** Bucket of a cell under a row's keys. */
  named(keys: readonly bigint[], cell: readonly bigint[]): number {
    if (!this.rehashes) return Number(cell[0]);
    let total = keys[keys.length - 1] ?? 0n;
    cell.forEach((z, l) => (total += z * ((keys[2 * l] ?? 0n) + z * (keys[2 * l + 1] ?? 0n))));
    return Number((((total & MASK) >> (64n - HASH_BITS)) * BigInt(this.buckets)) >> HASH_BITS);
  }

  /** Cell of a point under the function that the words define. */
  abstract cell(words: readonly number[], X: readonly bigint[]): bigint[];
}

/** One projection; the cell is its floor. */
export class PStable extends RowHash {
  readonly law: Law;
  readonly shift: bigint;
  protected readonly words: number;

  constructor(given: { buckets: number; rehash: boolean; point_bits: number; law: keyof typeof LAWS }, seed: Uint8Array, d: number) {
    super(given, seed, d);
    this.law = LAWS[given.law];
    this.shift = BigInt(this.pointBits + this.law.fractionBits);
    this.words = 1 + d;
  }

  /** Projection and offset, in units of 2^-shift cells. */
  projection(words: readonly number[], X: readonly bigint[]): bigint {
    return dot(this.law.numbers(words.slice(1)), X) + ((BigInt(words[0] ?? 0) << this.shift) >> 32n);
  }

  cell(words: readonly number[], X: readonly bigint[]): bigint[] {
    return [this.projection(words, X) >> this.shift];
  }
}

/** A grid with random offsets and, for the Laplacian kernel, random widths; one cell integer for each column. */
class Grid extends RowHash {
  private readonly randomWidths: boolean;
  protected readonly words: number;
  protected override readonly length: number;

  constructor(given: { buckets: number; rehash: boolean; point_bits: number; random_widths: boolean }, seed: Uint8Array, d: number) {
    super(given, seed, d);
    this.randomWidths = given.random_widths;
    this.words = (this.randomWidths ? 2 : 1) * d;
    this.length = d;
  }

  cell(words: readonly number[], X: readonly bigint[]): bigint[] {
    const shift = BigInt(this.pointBits + CELLS.fractionBits);
    const slopes = this.randomWidths ? CELLS.numbers(words.slice(this.dimension)) : null;
    return X.map((x, j) => {
      const slope = BigInt(slopes ? (slopes[j] ?? 0) : 1 << CELLS.fractionBits);
      return (slope * x + ((BigInt(words[j] ?? 0) << shift) >> 32n)) >> shift;
    });
  }
}

/** Sides of `power` hyperplanes through the origin, as the bits of one integer. */
class Signs extends RowHash {
  private readonly power: number;
  protected readonly words: number;

  constructor(given: { buckets: number; rehash: boolean; point_bits: number; power: number }, seed: Uint8Array, d: number) {
    super(given, seed, d, true);
    this.power = given.power;
    if (!given.rehash && this.buckets !== 2 ** this.power) {
      throw new InputError("the protocol's hyperplanes do not fit its buckets");
    }
    this.words = this.power * d;
  }

  cell(words: readonly number[], X: readonly bigint[]): bigint[] {
    let signs = 0n;
    for (let plane = 0; plane < this.power; plane++) {
      const direction = NORMAL.numbers(words.slice(plane * this.dimension, (plane + 1) * this.dimension));
      if (dot(direction, X) >= 0n) signs |= 1n << BigInt(plane);
    }
    return [signs];
  }
}

/** The member of a set that comes first in a random order. */
class MinHash extends RowHash {
  protected readonly words: number;

  constructor(given: { buckets: number; rehash: boolean; point_bits: number }, seed: Uint8Array, d: number) {
    super(given, seed, d);
    this.words = d;
  }

  cell(words: readonly number[], X: readonly bigint[]): bigint[] {
    let [best, column] = [2 ** 32, this.dimension];
    X.forEach((member, j) => {
      const word = words[j] ?? best;
      if (member > 0n && word < best) [best, column] = [word, j];
    });
    return [BigInt(column)];
  }
}

/** The fields of the family that a protocol names, and that name's. */
export function familyFields(parameters: JsonObject): Record<string, Field<unknown>> {
  return { family: FAMILY, ...FIELDS[familyOf(parameters)] };
}

function familyOf(parameters: JsonObject): FamilyName {
  return FAMILY(parameters["family"] ?? null, "mechanism.family");
}

/** Build the hash functions that a protocol names, out of those of its parameters that are theirs. */
export function rowHash(parameters: JsonObject, seed: Uint8Array, dimension: number): RowHash {
  const family = familyOf(parameters);
  const own: JsonObject = {};
  for (const name of Object.keys(FIELDS[family])) if (name in parameters) own[name] = plain(parameters[name] ?? null);
  switch (family) {
    case "p-stable":
      return new PStable(readFields(own, "mechanism", FIELDS[family]), seed, dimension);
    case "grid":
      return new Grid(readFields(own, "mechanism", FIELDS[family]), seed, dimension);
    case "signs":
      return new Signs(readFields(own, "mechanism", FIELDS[family]), seed, dimension);
    case "minhash":
      return new MinHash(readFields(own, "mechanism", FIELDS[family]), seed, dimension);
  }
}
