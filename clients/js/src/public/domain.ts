/** The public box in which the points of a collection live. */

import { InputError } from "../errors.js";
import { canonicalText, exact, isObject, plain, type Json } from "./json.js";
import { floatText, shortNumber } from "./text.js";

/** Of radii and other numbers of a document. */
export const SMALLEST = 1e-100;
export const LARGEST = 1e100;
const LARGEST_LENGTH = 1e50;
const SMALLEST_LENGTH = 1e-50;
const LARGEST_DEFAULT = 2 ** 301;
const NARROWEST_BOUNDS = 2 ** -40;

export class Domain {
  constructor(
    readonly lower: readonly number[],
    readonly upper: readonly number[],
    readonly declared: boolean,
  ) {
    if (lower.length !== upper.length || !lower.length) {
      throw new InputError("a domain needs one lower and one upper bound for each column");
    }
    this.columns((low, high, column) => {
      if (!(Number.isFinite(low) && Number.isFinite(high) && low < high)) {
        throw new InputError(
          `bounds of column ${column} must be finite with lower < upper, got (${floatText(low)}, ${floatText(high)})`,
        );
      }
    });
  }

  static fromDocument(document: Json): Domain {
    const damaged = new InputError("the protocol's domain is damaged; ask the organiser for the file again");
    if (!isObject(document)) throw damaged;
    const [lower, upper] = [document["lower"], document["upper"]].map((side) => {
      const values = side === undefined ? undefined : plain(side);
      if (!Array.isArray(values)) throw damaged;
      return values.map((value) => {
        if (typeof value !== "number") throw new InputError("bounds of a protocol are decimals");
        return value;
      });
    });
    const declared = document["declared"];
    if (lower === undefined || upper === undefined || declared === undefined) throw damaged;
    const domain = new Domain(lower, upper, declared === true);
    if (canonicalText(domain.toDocument()) !== canonicalText(document)) {
      throw new InputError("the protocol's domain says something that this version of sfumato does not know");
    }
    return domain;
  }

  toDocument(): Json {
    return {
      lower: exact([...this.lower]),
      upper: exact([...this.upper]),
      outside: "clip",
      nonfinite: "middle",
      declared: this.declared,
    };
  }

  private columns<T>(see: (low: number, high: number, column: number) => T): T[] {
    return this.lower.map((low, column) => see(low, this.upper[column] ?? NaN, column));
  }

  get dimension(): number {
    return this.lower.length;
  }

  get middle(): number[] {
    return this.columns((low, high) => low + (high - low) / 2);
  }

  get widest(): number {
    return Math.max(...this.columns((low, high) => high - low));
  }

  /** The point as it is reported: clipped, and the middle where it is no finite number. */
  clip(point: readonly number[]): number[] {
    if (!Array.isArray(point) || !point.every((value) => typeof value === "number")) {
      throw new InputError("a point must be a list of numbers, one for each column");
    }
    if (point.length !== this.dimension) {
      throw new InputError(`a point must have ${this.dimension} columns, got ${point.length}`);
    }
    return this.columns((low, high, column) => {
      const value = point[column] ?? NaN;
      return Number.isFinite(value) ? Math.min(Math.max(value, low), high) : low + (high - low) / 2;
    });
  }

  /** Refuse bounds beyond the stated limits. */
  checkLimits(): void {
    const largest = this.declared ? LARGEST_LENGTH : LARGEST_DEFAULT;
    this.columns((low, high, column) => {
      const farthest = Math.max(Math.abs(low), Math.abs(high));
      if (!(farthest <= largest)) {
        throw new InputError(
          `bounds of column ${column} must lie within ${shortNumber(largest)} of 0, got (${shortNumber(low)}, ` +
            `${shortNumber(high)}); use other units`,
        );
      }
      if (!(high - low >= Math.max(SMALLEST_LENGTH, NARROWEST_BOUNDS * farthest))) {
        throw new InputError(
          `bounds of column ${column} are too close together for floating point, got (${floatText(low)}, ` +
            `${floatText(high)}); take off a public offset, or use other units`,
        );
      }
    });
  }

  condition(): string {
    return "values outside the protocol's bounds are clipped to them; what is no finite number counts as the middle";
  }
}
