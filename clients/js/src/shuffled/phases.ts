/** Public phases on dyadic grids: the box, the kernel's frequencies, and integer phases of points. */

import { sha256 } from "@noble/hashes/sha2.js";

import { InputError } from "../errors.js";
import { hex } from "../public/bytes.js";
import { anything, digits, flag, line, many, oneOf, optional, readFields, reals, whole } from "../public/codec.js";
import { Domain } from "../public/domain.js";
import { roundEven } from "../public/integers.js";
import { isObject, type Json } from "../public/json.js";
import { shown } from "../public/text.js";
import { LAWS, publicWords } from "./public_stream.js";

const MOST_COLUMNS = 2 ** 20;
const FARTHEST_EDGE = 1e100;
const PHASE_LIMIT_BITS = 50;
const MOST_PHASE_BITS = 44;
const MOST_POINT_BITS = 20;
const FEWEST_POINT_BITS = 8;
const LARGEST_SEED = 2n ** 256n - 1n;
/** Of a phase, which pick a cosine of random features. */
export const FOURIER_BITS = 12;
const KERNELS = { gaussian: "normal", laplacian: "cauchy", cauchy: "laplace" } as const;

export interface Box {
  domain: Domain;
  half: number[];
  centre: number[];
}

export function readBox(value: Json, path: string): Box {
  const edge = reals(-FARTHEST_EDGE, FARTHEST_EDGE, MOST_COLUMNS);
  const fields = { lower: edge, upper: edge, outside: oneOf("clip", "drop"), declared: flag };
  const { lower, upper, outside, declared } = readFields(value, path, fields);
  if (outside !== "clip") throw new InputError("rows outside the box are clipped by devices");
  const sides = (of: (low: number, high: number) => number): number[] => lower.map((low, j) => of(low, upper[j] ?? NaN));
  return {
    domain: new Domain(lower, upper, declared),
    half: sides((low, high) => (high - low) / 2),
    centre: sides((low, high) => (high + low) / 2),
  };
}

export interface Kernel {
  law: (typeof KERNELS)[keyof typeof KERNELS];
  widths: (dimension: number) => number[];
}

export function readKernel(document: Json): Kernel {
  if (!isObject(document) || typeof document["kernel"] !== "string") {
    throw new InputError("a kernel's document must be an object whose field 'kernel' is a name");
  }
  const name = document["kernel"];
  if (!Object.hasOwn(KERNELS, name)) throw new InputError(`the kernel ${shown(name)} has no features on this device`);
  const { bandwidth } = readFields(document, "kernel", { bandwidth: anything }, { kernel: name });
  const given = Array.isArray(bandwidth) ? bandwidth : [bandwidth];
  const widths = given.map((width) => {
    const length = typeof width === "bigint" ? Number(width) : width;
    if (typeof length !== "number") throw new InputError("a bandwidth on this device is a number, or one for each column");
    if (!(length >= 1e-100 && length <= 1e100)) throw new InputError("bandwidth must lie between 1e-100 and 1e+100");
    return length;
  });
  return {
    law: KERNELS[name as keyof typeof KERNELS],
    widths(dimension) {
      if (Array.isArray(bandwidth) && widths.length !== dimension) {
        throw new InputError(
          `the bandwidth is for ${widths.length} column(s) but the data has ${dimension}; pass one number, one for each ` +
            "column, or a square matrix of that size",
        );
      }
      return Array.from({ length: dimension }, (_, j) => widths[Array.isArray(bandwidth) ? j : 0] ?? NaN);
    },
  };
}

/** Integer phases of points: frequencies and offsets in units of 2^-bits turns. */
export class Phases {
  private readonly steps: number[];
  private readonly centre: number[];

  constructor(
    readonly box: Box,
    exponents: readonly number[],
    readonly bits: number,
    readonly frequencies: readonly number[][],
    readonly offsets: readonly number[],
  ) {
    this.steps = exponents.map((exponent) => 2 ** exponent);
    this.centre = box.centre.map((middle, j) => roundEven(middle / (this.steps[j] ?? NaN)));
    const { lower, upper } = box.domain;
    const reach = this.centre.map((middle, j) => {
      const edges = [lower[j], upper[j]].map((edge) => roundEven((edge ?? NaN) / (this.steps[j] ?? NaN)));
      return Math.max(...edges.map((edge) => Math.abs(edge - middle)));
    });
    for (const t of offsets.keys()) {
      const reached = reach.reduce((sum, far, j) => sum + far * Math.abs(frequencies[j]?.[t] ?? NaN), 2 ** bits);
      if (!(reached < 2 ** 51)) {
        throw new InputError("the bounds are too wide for exact phases; pass tighter bounds or a larger bandwidth");
      }
    }
  }

  /** Round frequencies in turns per data unit to the grid, reduced to half a turn per step. */
  static rounded(turns: readonly number[][], exponents: readonly number[], bits: number): number[][] {
    return turns.map((row, j) =>
      row.map((turn) => {
        const perStep = turn * 2 ** (exponents[j] ?? NaN);
        return roundEven((perStep - roundEven(perStep)) * 2 ** bits);
      }),
    );
  }

  get fingerprint(): string {
    const integers = [...this.frequencies.flat(), ...this.offsets];
    return hex(sha256(new Uint8Array(BigInt64Array.from(integers, BigInt).buffer)));
  }

  /** Table cells of a clipped point's phases. */
  cells(point: readonly number[], tableBits: number): number[] {
    const X = point.map((x, j) => roundEven(x * (1 / (this.steps[j] ?? NaN))) - (this.centre[j] ?? NaN));
    const [turn, cell] = [2 ** this.bits, 2 ** (this.bits - tableBits)];
    return this.offsets.map((offset, t) => {
      const phase = X.reduce((sum, x, j) => sum + x * (this.frequencies[j]?.[t] ?? NaN), offset) % turn;
      return Math.floor((phase < 0 ? phase + turn : phase) / cell);
    });
  }
}

/** Draw the frequencies of a document again, and check that they are the ones it was made with. */
export async function drawnPhases(kernel: Kernel, description: Json, mostTerms: number): Promise<Phases> {
  const fields = {
    terms: whole(1, 2 ** 28),
    box: readBox,
    exponents: many(whole(-1000, 1000), MOST_COLUMNS),
    bits: whole(FOURIER_BITS, PHASE_LIMIT_BITS),
    feature_seed: optional(digits(LARGEST_SEED)),
    fingerprint: line(64),
  };
  const { terms, box, exponents, bits, feature_seed: seed, fingerprint } = readFields(description, "quantizer.phases", fields);
  const columns = box.domain.dimension;
  if (terms > mostTerms) {
    throw new InputError(`the release claims ${terms} frequencies, which its values do not hold`);
  }
  if (exponents.length !== columns) throw new InputError("the header must give one step of the grid for each column");
  if (seed === null) throw new InputError("frequencies of an author's own kernel are not made by this device");
  const count = terms * columns;
  const words = await publicWords(seed, "fourier/frequencies", count + (count % 2));
  const numbers = LAWS[kernel.law](words).map((number) => (kernel.law === "normal" ? Math.SQRT2 * number : number));
  const turns = kernel.widths(columns).map((width, j) =>
    Array.from({ length: terms }, (_, t) => ((numbers[t * columns + j] ?? NaN) / width) * (1 / (2 * Math.PI))),
  );
  const offsets = (await publicWords(seed, "fourier/offsets", terms)).map((word) => Number(word >> BigInt(64 - bits)));
  const phases = new Phases(box, exponents, bits, Phases.rounded(turns, exponents, bits), offsets);
  if (phases.fingerprint !== fingerprint) {
    throw new InputError("the frequencies drawn from the release's seed are not the ones it was made with");
  }
  return phases;
}

/** Fit the grids to the modes of a series: the finest whose phases stay exact. */
export function seriesPhases(box: Box, widths: number[], periods: number[], modes: number[][]): Phases {
  const turns = widths.map((width, j) => modes.map((mode) => (mode[j] ?? NaN) / ((periods[j] ?? NaN) * width)));
  const reached = modes.map((_, t) => box.half.reduce((sum, half, j) => sum + half * Math.abs(turns[j]?.[t] ?? NaN), 0));
  const most = reached.reduce((left, right) => Math.max(left, right), 0) + 1;
  const bits = Math.min(MOST_PHASE_BITS, PHASE_LIMIT_BITS - 1 - Math.ceil(Math.log2(most)));
  const widest = Math.max(...box.half.map((half, j) => (2 * half) / (widths[j] ?? NaN)));
  const frequencyBits = Math.max(12, Math.ceil(Math.log2(Math.max(widest, 1))) + 2);
  const pointBits = Math.min(MOST_POINT_BITS, bits - frequencyBits);
  if (!(pointBits >= FEWEST_POINT_BITS)) {
    throw new InputError("the bounds span too many bandwidths for exact phases");
  }
  const exponents = widths.map((width) => Math.floor(Math.log2(width)) - pointBits);
  return new Phases(box, exponents, bits, Phases.rounded(turns, exponents, bits), modes.map(() => 0));
}
