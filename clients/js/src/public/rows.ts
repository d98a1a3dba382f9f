/**
 * Public randomness for devices: rows of random integers, specified so that every language draws the same ones.
 *
 * Tables of quantiles are computed in floating point and used only if they are, to the last integer, the published
 * ones: no node lies within 6e-6 of a half, and the formulas are off by less than 2e-6.
 */

import { sha256 } from "@noble/hashes/sha2.js";
import { shake256 } from "@noble/hashes/sha3.js";

import { SfumatoError } from "../errors.js";
import { bigEndian, concat, hex, utf8 } from "./bytes.js";
import { roundEven } from "./integers.js";

const STEPS = 1 << 16;
const END = 2 ** -18;
export const WORD_BYTES = 4;
export const KEY_BYTES = 8;

/** The first `count` public random bytes of a row. */
export function rowBytes(seed: Uint8Array, label: string, row: number, count: number): Uint8Array {
  return shake256(concat(utf8(`sfumato-rows-1\0${label}\0`), seed, bigEndian(row, 8)), { dkLen: count });
}

/** A law of public random numbers, as a table of integers in units of 2^-fractionBits. */
export class Law {
  private table: Float64Array | null = null;

  constructor(
    readonly name: string,
    readonly fractionBits: number,
    private readonly quantile: (level: number) => number,
    private readonly digest: string,
  ) {}

  /** The table, computed once; another one than was published is refused. */
  get nodes(): Float64Array {
    if (this.table) return this.table;
    const scale = 2 ** this.fractionBits;
    const level = (i: number): number => (i === 0 ? END : i === STEPS ? 1 - END : i / STEPS);
    const nodes = Float64Array.from({ length: STEPS + 1 }, (_, i) => roundEven(scale * this.quantile(level(i))));
    if (hex(sha256(new Uint8Array(BigInt64Array.from(nodes, BigInt).buffer))) !== this.digest) {
      throw new SfumatoError(
        `the table of the ${this.name} law comes out wrong here, so public randomness would differ from everyone ` +
          "else's: report this, with the processor and the version of the browser",
      );
    }
    return (this.table = nodes);
  }

  /** Turn 32-bit words into numbers; all products stay below 2^53. */
  numbers(words: readonly number[]): number[] {
    const nodes = this.nodes;
    return words.map((word) => {
      const [start = 0, end = 0] = [nodes[word >>> 16], nodes[(word >>> 16) + 1]];
      return start + Math.floor(((end - start) * (word & 0xffff)) / 65536);
    });
  }
}

const CENTRE = [
  [
    2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457, 13731.693765509461125,
    1971.5909503065514427, 133.14166789178437745, 3.387132872796366608,
  ],
  [
    5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867, 5394.1960214247511077,
    687.1870074920579083, 42.313330701600911252, 1,
  ],
] as const;
const SIDES = [
  [
    7.7454501427834140764e-4, 2.27238449892691845833e-2, 2.4178072517745061177e-1, 1.27045825245236838258,
    3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734,
  ],
  [
    1.05075007164441684324e-9, 5.475938084995344946e-4, 1.51986665636164571966e-2, 1.4810397642748007459e-1,
    6.8976733498510000455e-1, 1.6763848301838038494, 2.05319162663775882187, 1,
  ],
] as const;

function horner(coefficients: readonly number[], x: number): number {
  return coefficients.reduce((sum, coefficient) => sum * x + coefficient, 0);
}

/** M. Wichura's algorithm AS 241 (1988), as far as levels from 2^-18 on need it. */
function normal(level: number): number {
  const q = level - 0.5;
  if (Math.abs(q) <= 0.425) {
    const r = 0.180625 - q * q;
    return (horner(CENTRE[0], r) * q) / horner(CENTRE[1], r);
  }
  const r = Math.sqrt(-Math.log(q <= 0 ? level : 1 - level)) - 1.6;
  const x = horner(SIDES[0], r) / horner(SIDES[1], r);
  return q < 0 ? -x : x;
}

function cauchy(level: number): number {
  if (level < 0.25) return -1 / Math.tan(Math.PI * level);
  return level > 0.75 ? 1 / Math.tan(Math.PI * (1 - level)) : Math.tan(Math.PI * (level - 0.5));
}

function laplaceQuantile(level: number): number {
  return level < 0.5 ? Math.log(2 * level) : -Math.log(2 * (1 - level));
}

/** Cells per unit length: 1 / w for a width of density w exp(-w), by Newton's method. */
function cells(level: number): number {
  let w = level > 0.5 ? Math.sqrt(2 * (1 - level)) : 1 - Math.log(level);
  for (let i = 0; i < 60; i++) {
    const decay = Math.exp(-w);
    const excess = level > 0.5 ? 1 - level - (-Math.expm1(-w) - w * decay) : (1 + w) * decay - level;
    w += excess / (w * decay);
    if (Math.abs(excess) <= 1e-15 * w * w * decay) break;
  }
  return 1 / w;
}

export const NORMAL = new Law("normal", 20, normal, "a62b041c9de6a306df4adea9d918ccb22d99bfa68086db0ea5dc2e7ae2d90d17");
export const CAUCHY = new Law("Cauchy", 16, cauchy, "ff71010ff81b28940ded301a07c1cfe40d691ce690e0b342c0432c5fcb11c6df");
export const LAPLACE = new Law(
  "Laplace",
  20,
  laplaceQuantile,
  "954272afcf9b87c57b81f6ad6f70ffa2110d805445210785ab44950b7be4ea74",
);
export const CELLS = new Law("cell", 16, cells, "a5eb68a679e51f7da0cb47efe518686fb61b3c522ad1b489aabae518a12d253a");
