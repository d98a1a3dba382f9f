/**
 * Bounded feature vectors of one's own point, in units of 2^-15: the point itself for inner products, kernel values at
 * public landmarks, projected. Floats decide the integers of one's own point only; the randomness after is exact.
 */

import { InputError } from "../errors.js";
import { many, real, type Field } from "../public/codec.js";
import { LARGEST } from "../public/domain.js";
import { exactDouble, roundEven } from "../public/integers.js";
import type { Json, JsonObject } from "../public/json.js";
import { LENGTH } from "./metric.js";

export const UNIT = 1 << 15;
const MOST_FEATURES = 1 << 12;
const FARTHEST = 1e100;
const KERNELS = ["gaussian", "laplacian", "exponential", "cauchy"];

export interface Features {
  readonly size: number;
  values(point: readonly number[]): number[];
}

/** Sum of numbers with one rounding at the end. */
export function exactSum(values: readonly number[]): number {
  const parts = values.map(exactDouble);
  const below = parts.reduce((most, [, denominator]) => (denominator > most ? denominator : most), 1n);
  const above = parts.reduce((sum, [numerator, denominator]) => sum + numerator * (below / denominator), 0n);
  return nearestDouble(above, below);
}

/** The binary64 number nearest a fraction whose denominator is a power of two; ties to even. */
function nearestDouble(above: bigint, below: bigint): number {
  const magnitude = above < 0n ? -above : above;
  const surplus = magnitude.toString(2).length - 54;
  if (surplus <= 0) return Number(above) / Number(below);
  // One bit more than fits, and a mark for all that follows: then a single rounding is the right one.
  const kept = (magnitude >> BigInt(surplus)) << 1n;
  const sticky = magnitude & ((1n << BigInt(surplus)) - 1n) ? 1n : 0n;
  const rounded = Number(kept | sticky);
  const scaled = rounded * 2 ** (surplus - 1 - (below.toString(2).length - 1));
  return above < 0n ? -scaled : scaled;
}

/** Round features to units, scaled down to length 1 if they are longer; what is not finite counts as 0. */
export function intoBall(values: readonly number[]): bigint[] {
  const finite = values.map((value) => (Math.abs(value) <= LARGEST ? value : 0));
  const shrink = UNIT / Math.max(1, Math.sqrt(exactSum(finite.map((value) => value * value))));
  return finite.map((value) => BigInt(roundEven(value * shrink)));
}

/** The point over the kernel's radius. */
class InnerProductFeatures implements Features {
  private readonly radius: number;

  constructor(
    kernel: JsonObject,
    readonly size: number,
  ) {
    this.radius = LENGTH(kernel["radius"] ?? null, "the protocol's radius");
  }

  values(point: readonly number[]): number[] {
    return point.map((x) => x / this.radius);
  }
}

/** Kernel values at landmarks, projected. */
class LandmarkFeatures implements Features {
  private readonly name: string;
  private readonly widths: number[];

  constructor(
    kernel: JsonObject,
    private readonly landmarks: readonly number[][],
    private readonly projection: readonly number[][],
    dimension: number,
  ) {
    this.name = typeof kernel["kernel"] === "string" ? kernel["kernel"] : "";
    const given = kernel["bandwidth"] ?? null;
    const widths: Json[] = Array.isArray(given) ? given : Array.from({ length: dimension }, () => given);
    this.widths = widths.map((width) => LENGTH(width, "the protocol's bandwidth"));
    const p = kernel["p"] ?? 2;
    if (!KERNELS.includes(this.name) || Number(p) !== 2 || this.widths.length !== dimension) {
      throw new InputError(
        `landmarks on devices take the kernels ${KERNELS.join(", ")}, without a matrix bandwidth`,
      );
    }
    if (projection.length !== landmarks.length || new Set(projection.map((row) => row.length)).size > 1) {
      throw new InputError("the protocol's projection does not fit its landmarks");
    }
  }

  get size(): number {
    return this.projection[0]?.length ?? 0;
  }

  private similarity(x: readonly number[], z: readonly number[]): number {
    const u = x.map((a, j) => Math.min(Math.max((a - (z[j] ?? 0)) / (this.widths[j] ?? 1), -FARTHEST), FARTHEST));
    if (this.name === "laplacian") return Math.exp(-exactSum(u.map(Math.abs)));
    if (this.name === "cauchy") return 1 / u.reduce((product, value) => product * (1 + value * value), 1);
    const square = exactSum(u.map((value) => value * value));
    return Math.exp(this.name === "gaussian" ? -square : -Math.sqrt(square));
  }

  values(point: readonly number[]): number[] {
    const similarities = this.landmarks.map((landmark) => this.similarity(point, landmark));
    return Array.from({ length: this.size }, (_, column) =>
      exactSum(similarities.map((k, row) => k * (this.projection[row]?.[column] ?? 0))),
    );
  }
}

/** Fields of landmarks: the points, their projection, what completes an answer, and its bias. */
export function landmarkFields(dimension: number): Record<string, Field<unknown>> {
  const number = real(-LARGEST, LARGEST);
  return {
    landmarks: many(many(number, dimension, dimension), MOST_FEATURES, 1),
    projection: many(many(number, MOST_FEATURES, 1), MOST_FEATURES, 1),
    completion: many(number, MOST_FEATURES, 1),
    bias: real(0),
  };
}

export function featuresOf(kernel: JsonObject, given: Record<string, unknown>, dimension: number): Features {
  if (kernel["kernel"] === "inner-product") return new InnerProductFeatures(kernel, dimension);
  return new LandmarkFeatures(kernel, given["landmarks"] as number[][], given["projection"] as number[][], dimension);
}
