/**
 * Integers of a point: cosines and sines of public phases, from random frequencies or from a Fourier series on the box.
 *
 * Points and frequencies lie on dyadic grids, so that a phase is a sum of products of integers below 2^51: exact in any
 * order. A phase picks a cosine from a table of integers that is used only if it is the published one.
 */

import { sha256 } from "@noble/hashes/sha2.js";

import { InputError, SfumatoError } from "../errors.js";
import { concat, hex } from "../public/bytes.js";
import { anything, line, many, oneOf, readFields, reals, whole } from "../public/codec.js";
import { objectIn } from "../public/document.js";
import type { Domain } from "../public/domain.js";
import { roundEven } from "../public/integers.js";
import { canonicalText, isObject, plain, type Json, type JsonObject } from "../public/json.js";
import { shown } from "../public/text.js";
import { drawnPhases, FOURIER_BITS, readBox, readKernel, seriesPhases, type Kernel, type Phases } from "./phases.js";

const MOST_MODE = 2 ** 11;
const SERIES_RADIUS = 2 ** 12;
const SERIES_BITS = 16;
/** SHA-256 of the tables of cosines that are published, as 64-bit little-endian integers, by radius and bits. */
const TABLES: Record<string, string> = {
  "32767/12": "bda86323c765f64832e9422847b06a6df5c80e12268825bbe255f021e1afdfc4",
  "4096/16": "c664b95c3c973de9fd51f56c4681b98ec10019a2f05b6b31efa824736c8833b3",
};

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
