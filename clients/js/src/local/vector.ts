/** `vector`: one random number about a feature vector of length at most 1; the proof stands in `sfumato.local.vector`. */

import { InputError } from "../errors.js";
import { concat, littleEndian, words32 } from "../public/bytes.js";
import { anything, big, oneOf, real, whole, type Field } from "../public/codec.js";
import type { Coins } from "../public/coins.js";
import { objectIn } from "../public/document.js";
import { absolute, integerRoot } from "../public/integers.js";
import { isObject, plain, type JsonObject } from "../public/json.js";
import { checkWeights } from "../public/response.js";
import { NORMAL, rowBytes, WORD_BYTES } from "../public/rows.js";
import { Device, MOST_BITS, WEIGHT, type AnswerLaw } from "./device.js";
import { featuresOf, intoBall, landmarkFields, UNIT, type Features } from "./features.js";
import { dot } from "./hashing.js";

const LABEL = "local/vector";
const SIGN_LABEL = "local/vector/signs";
const INDEX_BYTES = 2;
const OUTPUT_BYTES = 1;
const MOST_BLOCKS = 1 << 16;
const MOST_VECTORS = 128;
const FIELDS: Record<string, Record<string, Field<unknown>>> = {
  codebook: {
    blocks: whole(1, MOST_BLOCKS),
    vectors: whole(1, MOST_VECTORS),
    likely: whole(1, MOST_VECTORS),
    gain: real(1e-50, 1e50),
  },
  coordinate: { range: big(1n, (1n << BigInt(MOST_BITS)) - 1n) },
};

interface Given {
  same: bigint;
  other: bigint;
  blocks: number;
  vectors: number;
  likely: number;
  range: bigint;
}

export class Vector extends Device {
  readonly name = "vector";
  readonly payloadBytes = INDEX_BYTES + OUTPUT_BYTES;
  private readonly randomiser: string;
  private readonly given: Given;
  private readonly features: Features;

  constructor(document: JsonObject) {
    super(document);
    const kernel = plain(objectIn(document, "kernel"));
    if (!isObject(kernel)) throw new TypeError("kernel");
    const own = this.parameters["randomiser"] ?? null;
    this.randomiser = oneOf("codebook", "coordinate")(own, "mechanism.randomiser");
    const inner = kernel["kernel"] === "inner-product";
    const read = this.read("vector", {
      ...{ randomiser: anything, same: WEIGHT, other: WEIGHT },
      ...FIELDS[this.randomiser],
      ...(inner ? {} : landmarkFields(this.domain.dimension)),
    });
    this.given = read as unknown as Given;
    checkWeights(this.given.same, this.given.other, this.epsilon);
    this.features = featuresOf(kernel, read, this.domain.dimension);
    if (this.randomiser === "codebook" && this.given.likely > this.given.vectors) {
      throw new InputError("the protocol's codebook is out of range");
    }
    if (this.randomiser === "coordinate" && this.turned > MOST_BLOCKS) {
      throw new InputError(`the randomiser coordinate takes at most ${MOST_BLOCKS} features; use the codebook`);
    }
  }

  get law(): AnswerLaw {
    const { same, other, vectors, likely } = this.given;
    if (this.randomiser === "coordinate") return { outcomes: 2, likely: 1, same, other };
    return { outcomes: 2 * vectors, likely, same, other };
  }

  /** Coordinates after the rotation: the next power of two. */
  private get turned(): number {
    return this.features.size > 1 ? 2 ** (this.features.size - 1).toString(2).length : 1;
  }

  encode(point: readonly number[], coins: Coins): Uint8Array {
    const F = intoBall(this.features.values(point));
    const codebook = this.randomiser === "codebook";
    const index = Number(coins.below(BigInt(codebook ? this.given.blocks : this.turned)));
    const output = codebook
      ? this.draw(this.likelyOutputs(index, F), coins)
      : this.drawSign(this.coordinate(index, F), coins);
    return concat(littleEndian(index, INDEX_BYTES), littleEndian(output, OUTPUT_BYTES));
  }

  preview(point: readonly number[], coins: Coins): { row: number; truth: number; reported: number } {
    const F = intoBall(this.features.values(point));
    if (this.randomiser === "codebook") {
      const row = Number(coins.below(BigInt(this.given.blocks)));
      const likely = this.likelyOutputs(row, F);
      return { row, truth: likely[0] ?? 0, reported: this.draw(likely, coins) };
    }
    const row = Number(coins.below(BigInt(this.turned)));
    const value = this.coordinate(row, F);
    return { row, truth: value < 0n ? 1 : 0, reported: this.drawSign(value, coins) };
  }

  /** The likely outputs of a block for a vector, in increasing order. */
  private likelyOutputs(block: number, F: readonly bigint[]): number[] {
    const { vectors, likely } = this.given;
    const whole = [...F, padding(F)];
    const products = Array.from({ length: vectors }, (_, j) => {
      const content = rowBytes(this.seed, LABEL, block * vectors + j, WORD_BYTES * whole.length);
      return dot(NORMAL.numbers(words32(content)), whole);
    });
    const size = (j: number): bigint => absolute(products[j] ?? 0n);
    const order = products.map((_, j) => j).sort((i, j) => (size(i) > size(j) ? -1 : size(i) < size(j) ? 1 : i - j));
    return order
      .slice(0, likely)
      .map((j) => 2 * j + ((products[j] ?? 0n) < 0n ? 1 : 0))
      .sort((a, b) => a - b);
  }

  /** Draw an output, given those of weight `same`. */
  private draw(likely: readonly number[], coins: Coins): number {
    const { same, other, vectors } = this.given;
    const inner = BigInt(likely.length) * same;
    const number = coins.below(inner + BigInt(2 * vectors - likely.length) * other);
    if (number < inner) return likely[Number(number / same)] ?? 0;
    let output = Number((number - inner) / other);
    for (const member of likely) if (member <= output) output++; // skip the likely ones
    return output;
  }

  /** Coordinate of the turned vector in units of 2^-15 over the root of their number, clipped. */
  private coordinate(index: number, F: readonly bigint[]): bigint {
    const signs = rowBytes(this.seed, SIGN_LABEL, 0, F.length);
    const total = F.reduce((sum, f, i) => sum + ((ones(i & index) + (signs[i] ?? 0)) & 1 ? -f : f), 0n);
    const { range } = this.given;
    return total > range ? range : total < -range ? -range : total;
  }

  /** Round a coordinate to the sign of its range at random, then keep the sign or turn it; 0 is plus. */
  private drawSign(value: bigint, coins: Coins): number {
    const { same, other, range } = this.given;
    const minus = coins.below(2n * range) >= range + value;
    return Number(minus !== coins.below(same + other) < other);
  }
}

function ones(value: number): number {
  let count = 0;
  for (; value; value &= value - 1) count++;
  return count;
}

/** The coordinate that makes the length 1. */
function padding(F: readonly bigint[]): bigint {
  const left = BigInt(UNIT) ** 2n - F.reduce((sum, f) => sum + f * f, 0n);
  return left > 0n ? integerRoot(left) : 0n;
}
