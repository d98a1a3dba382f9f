/**
 * Integers of a point: cosines and sines of public phases, from random frequencies or from a Fourier series on the box.
 *
 * Points and frequencies lie on dyadic grids, so that a phase is a sum of products of integers below 2^51: exact in any
 * order. A phase picks a cosine from a table of integers that is used only if it is the published one.
 */

import { sha256 } from "@noble/hashes/sha2.js";

import { InputError, SfumatoError } from "../errors.js";
import { concat, hex } from "../public/bytes.js";
import { digits, flag, line, many, oneOf, optional, readFields, reals, whole, anything } from "../public/codec.js";
import { objectIn } from "../public/document.js";
import { Domain } from "../public/domain.js";
import { roundEven } from "../public/integers.js";
import { canonicalText, isObject, plain, type Json, type JsonObject } from "../public/json.js";
import { shown } from "../public/text.js";
import { LAWS, publicWords } from "./public_stream.js";

const MOST_COLUMNS = 2 ** 20;
const FARTHEST_EDGE = 1e100;
const PHASE_LIMIT_BITS = 50;
const MOST_PHASE_BITS = 44;
const MOST_POINT_BITS = 20;
const FEWEST_POINT_BITS = 8;
const LARGEST_SEED = 2n ** 256n - 1n;
const MOST_MODE = 2 ** 11;
const SERIES_RADIUS = 2 ** 12;
const SERIES_BITS = 16;
const FOURIER_BITS = 12;
/** SHA-256 of the tables of cosines that are published, as 64-bit little-endian integers, by radius and bits. */
const TABLES: Record<string, string> = {
  "32767/12": "bda86323c765f64832e9422847b06a6df5c80e12268825bbe255f021e1afdfc4",
  "4096/16": "c664b95c3c973de9fd51f56c4681b98ec10019a2f05b6b31efa824736c8833b3",
};
const KERNELS = { gaussian: "normal", laplacian: "cauchy", cauchy: "laplace" } as const;

/** Integer cosines at the centres of 2^bits cells of a turn. */
export function cosineTable(radius: number, bits: number): Int32Array {
  const cells = 2 ** bits;
  const table = Int32Array.from({ length: cells }, (_, i) =>
    roundEven((radius - 1) * Math.cos((2 * Math.PI * (i + 0.5)) / cells)),
  );
  const known = TABLES[`${radius}/${bits}`];
  if (known === undefined) throw new InputError(`no table of cosines of radius ${radius} is published`);
  if (hex(sha256(new Uint8Array(BigInt64Array.from(table, BigInt).buffer))) !== known) {
    throw new SfumatoError(
      `the table of cosines of radius ${radius} comes out wrong here, so public features would differ from everyone ` +
        "else's: report this, with the processor and the version of the browser",
    );
  }
  return table;
}

interface Box {
  domain: Domain;
  half: number[];
  centre: number[];
}

function readBox(value: Json, path: string): Box {
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

interface Kernel {
  law: (typeof KERNELS)[keyof typeof KERNELS];
  widths: (dimension: number) => number[];
}

function readKernel(document: Json): Kernel {
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
class Phases {
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

/** What becomes bits: integers from -largest to largest, `instances` of them. */
export class Features {
  private constructor(
    private readonly phases: Phases,
    private readonly table: Int32Array,
    private readonly tableBits: number,
    private readonly amplitudes: readonly number[],
    private readonly pairs: boolean,
    readonly largest: number,
  ) {}

  get domain(): Domain {
    return this.phases.box.domain;
  }

  get instances(): number {
    return this.amplitudes.length * (this.pairs ? 2 : 1);
  }

  /** Integers of a point inside the box. */
  integers(point: readonly number[]): number[] {
    const [quarter, cells] = [2 ** (this.tableBits - 2), this.table.length];
    return this.phases.cells(point, this.tableBits).flatMap((cell, t) => {
      const amplitude = this.amplitudes[t] ?? NaN;
      const cosine = amplitude * (this.table[cell] ?? NaN);
      return this.pairs ? [cosine, amplitude * (this.table[(cell - quarter + cells) % cells] ?? NaN)] : [cosine];
    });
  }

  /** A point inside the public box: finite values are clipped to it, others count as its middle. */
  clipped(point: readonly number[]): number[] {
    if (!Array.isArray(point) || !point.every((value) => typeof value === "number")) {
      throw new InputError("points must be numbers, one row per participant");
    }
    const { dimension } = this.domain;
    if (point.length !== dimension) {
      throw new InputError(`points must have shape (participants, ${dimension}), got (1, ${point.length})`);
    }
    const middle = point.map((x, j) => (Number.isFinite(x) ? x : (this.phases.box.centre[j] ?? NaN)));
    return this.domain.clip(middle);
  }

  /** The features that a document describes; whatever does not fit together is refused. */
  static async read(document: JsonObject, description: Json, arrays: Json, size: number): Promise<Features> {
    let features: Features;
    try {
      features = await Features.rebuilt(plain(document["kernel"] ?? null), description, arrays, size);
      features.domain.checkLimits();
    } catch (problem) {
      if (problem instanceof InputError) {
        throw new InputError(`the protocol does not describe its features: ${problem.message.slice(0, 300)}`);
      }
      throw problem;
    }
    if (canonicalText(features.domain.toDocument()) !== canonicalText(objectIn(document, "domain"))) {
      throw new InputError("the bounds of the features are not those of the protocol");
    }
    return features;
  }

  private static async rebuilt(kernelDocument: Json, description: Json, arrays: Json, size: number): Promise<Features> {
    const kernel = readKernel(kernelDocument);
    const name = isObject(description) ? description["quantizer"] : null;
    const made =
      name === "fourier"
        ? await Features.random(kernel, description, size)
        : name === "lattice"
          ? Features.series(kernel, description, arrays, size)
          : null;
    if (!made) {
      throw new InputError(`the quantizer ${shown(name ?? null)} is not made by this device: take part with Python's`);
    }
    if (made.instances !== size) {
      throw new InputError(`${size} instances were expected of a quantizer that shuffling knows`);
    }
    return made;
  }

  private static async random(kernel: Kernel, description: Json, size: number): Promise<Features> {
    const fields = { layout: oneOf("phase", "pair"), radius: whole(2, 2 ** 30 - 1), phases: anything };
    const fixed = { quantizer: "fourier", table_bits: BigInt(FOURIER_BITS) };
    const { layout, radius, phases } = readFields(description, "quantizer", fields, fixed);
    const table = cosineTable(radius, FOURIER_BITS);
    const drawn = await drawnPhases(kernel, phases, size);
    return new Features(drawn, table, FOURIER_BITS, drawn.offsets.map(() => 1), layout === "pair", radius);
  }

  private static series(kernel: Kernel, description: Json, arrays: Json, size: number): Features {
    const fields = { box: readBox, periods: reals(0, 1e6, 16), counted: whole(0, SERIES_RADIUS * 2 ** 24) };
    const { box, periods, counted } = readFields(description, "quantizer", fields, { quantizer: "lattice" });
    if (counted) throw new InputError("the number of participants is known, and is no coordinate");
    const [pairs, columns] = [Math.floor(size / 2), box.domain.dimension];
    const modes = storedArray(arrays, "modes", [pairs, columns], MOST_MODE);
    const amplitudes = storedArray(arrays, "amplitudes", [pairs], 2 ** 24);
    const rows = amplitudes.map((_, t) => modes.slice(t * columns, (t + 1) * columns));
    if (rows.some((row) => row.every((mode) => !mode))) {
      throw new InputError(`modes must lie within ${MOST_MODE} of 0, and 0 itself is the count`);
    }
    if (amplitudes.some((amplitude) => amplitude < 1)) {
      throw new InputError("amplitudes must lie between 1 and 16777216");
    }
    const widths = kernel.widths(columns);
    const longer = box.half.every((half, j) => (2 * half) / (widths[j] ?? NaN) < (periods[j] ?? NaN));
    if (periods.length !== columns || !longer) throw new InputError("the period of each column must be longer than its bounds");
    const phases = seriesPhases(box, widths, periods, rows);
    const largest = SERIES_RADIUS * amplitudes.reduce((most, amplitude) => Math.max(most, amplitude), 0);
    return new Features(phases, cosineTable(SERIES_RADIUS, SERIES_BITS), SERIES_BITS, amplitudes, true, largest);
  }
}

/** Draw the frequencies of a document again, and check that they are the ones it was made with. */
async function drawnPhases(kernel: Kernel, description: Json, mostTerms: number): Promise<Phases> {
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
function seriesPhases(box: Box, widths: number[], periods: number[], modes: number[][]): Phases {
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

const ARRAY = { kind: oneOf("<i8", "<f8"), shape: many(whole(0, 2 ** 40), 8), base64: line(2 ** 25) };

/** Integers of an array in a document. */
function storedArray(arrays: Json, name: string, shape: number[], largest: number): number[] {
  const missing = new InputError(
    `the release must hold an array '${name}' of ${shape.join(" x ")} numbers, of kind 'i'`,
  );
  const stored = isObject(arrays) ? arrays[name] : undefined;
  if (stored === undefined) throw missing;
  const entry = readFields(stored, `mechanism.arrays.${name}`, ARRAY);
  if (entry.kind !== "<i8" || entry.shape.join() !== shape.join() || shape.includes(0)) throw missing;
  let bytes: Uint8Array;
  try {
    bytes = concat(Uint8Array.from(atob(entry.base64), (one) => one.charCodeAt(0)));
  } catch {
    throw missing;
  }
  if (bytes.length !== 8 * shape.reduce((product, length) => product * length, 1)) throw missing;
  const view = new DataView(bytes.buffer);
  const numbers = Array.from({ length: bytes.length / 8 }, (_, i) => Number(view.getBigInt64(8 * i, true)));
  if (numbers.some((number) => Math.abs(number) > largest)) {
    throw new InputError(`the numbers of the release's array '${name}' must lie within ${largest} of 0`);
  }
  return numbers;
}
