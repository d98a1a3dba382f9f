/**
 * Devices that answer for few rows of a large public pool: `rows`, `phases`, `metric-phases` and `metric-rows`.
 *
 * A payload is the group of rows as 16 bits and one digit for each of its rows, base `outcomes`, as 32 bits, the first
 * row's digit lowest; both little-endian. The proofs stand in `sfumato.local.pooled` and `sfumato.local.metric_rows`.
 */

import { InputError } from "../errors.js";
import { concat, littleEndian, words32 } from "../public/bytes.js";
import { big, many, oneOf, real, whole, type Field } from "../public/codec.js";
import { laplace, type Coins } from "../public/coins.js";
import { Fraction } from "../public/fraction.js";
import { absolute, floorDivide, roundEven } from "../public/integers.js";
import type { JsonObject } from "../public/json.js";
import { checkWeights, Response } from "../public/response.js";
import { CAUCHY, LAPLACE, NORMAL, rowBytes, WORD_BYTES, type Law } from "../public/rows.js";
import { floatText } from "../public/text.js";
import { Device, MOST_BITS, WEIGHT, type AnswerLaw } from "./device.js";
import { dot, familyFields, MOST_POINT_BITS, PStable, rowHash, type RowHash } from "./hashing.js";
import { checkRadius, coarse, LENGTH, moved, near, stepsApart } from "./metric.js";

const GROUP_BYTES = 2;
const CODE_BYTES = 4;
const LARGEST_POOL = 1 << 16;
const LARGEST_COORDINATE = 1n << 52n;
const LARGEST_SCALE = 2 ** 400;
const LABEL = "local/phases";
const POSITION_BITS = 8;
const POSITIONS = 1 << POSITION_BITS;
const MOST_ROWS_EACH = 4;
const LAWS = { normal: NORMAL, cauchy: CAUCHY, laplace: LAPLACE } as const;

type Given = Record<string, unknown>;

abstract class PoolDevice extends Device {
  readonly payloadBytes = GROUP_BYTES + CODE_BYTES;
  readonly rowsEach: number;
  readonly groups: number;
  readonly scales: readonly number[];
  readonly reach: bigint;
  protected readonly given: Given;
  protected readonly same: bigint;
  protected readonly other: bigint;
  private readonly origin: readonly number[];
  protected abstract readonly response: Response;
  abstract readonly outcomes: number;

  constructor(name: string, document: JsonObject, own: (parameters: JsonObject) => Record<string, Field<unknown>>) {
    super(document);
    const columns = this.domain.dimension;
    const common = {
      rows_each: whole(1, LARGEST_POOL),
      groups: whole(1, LARGEST_POOL),
      same: WEIGHT,
      other: WEIGHT,
      scales: many(real(Number.MIN_VALUE, LARGEST_SCALE), columns, columns),
      origin: oneOf("middle", "zero"),
    };
    const extra = own(this.parameters);
    this.given = this.read(name, { ...common, ...extra });
    const given = this.given as { [K in keyof typeof common]: ReturnType<(typeof common)[K]> };
    this.rowsEach = given.rows_each;
    this.groups = given.groups;
    if (this.groups * this.rowsEach > LARGEST_POOL) {
      throw new InputError(`the protocol's pool must have at most ${LARGEST_POOL} rows`);
    }
    checkWeights(given.same, given.other, this.epsilon.over(this.rowsEach));
    [this.same, this.other] = [given.same, given.other];
    this.scales = given.scales;
    this.origin = given.origin === "middle" ? this.domain.middle : this.scales.map(() => 0);
    const corners = [...this.lattice(this.domain.lower), ...this.lattice(this.domain.upper)].map(absolute);
    this.reach = corners.reduce((most, corner) => (corner > most ? corner : most), 0n);
    if (this.reach > LARGEST_COORDINATE) throw new InputError("the protocol's bounds are too wide for its scales");
  }

  get law(): AnswerLaw {
    const { outcomes, width, same, other } = this.response;
    return { outcomes, likely: width, same, other };
  }

  /** Integers of a clipped point: (x - origin) * scale in binary64, rounded half to even. */
  lattice(point: readonly number[]): bigint[] {
    return this.scales.map((scale, j) => {
      const steps = roundEven(((point[j] ?? NaN) - (this.origin[j] ?? NaN)) * scale);
      if (!Number.isFinite(steps)) throw new RangeError("OverflowError");
      return BigInt(steps);
    });
  }

  /** True outcome of one row, as the middle of the likely ones. */
  protected abstract truth(row: number, X: readonly bigint[]): number;

  /** Random outcome of one row. */
  protected abstract digit(row: number, X: readonly bigint[], coins: Coins): number;

  encode(point: readonly number[], coins: Coins): Uint8Array {
    const X = this.lattice(point);
    const group = Number(coins.below(BigInt(this.groups)));
    let code = 0;
    for (let i = this.rowsEach - 1; i >= 0; i--) {
      code = code * this.outcomes + this.digit(group * this.rowsEach + i, X, coins);
    }
    return concat(littleEndian(group, GROUP_BYTES), littleEndian(code, CODE_BYTES));
  }

  preview(point: readonly number[], coins: Coins): { row: number; truth: number; reported: number } {
    const X = this.lattice(point);
    const row = Number(coins.below(BigInt(this.groups * this.rowsEach)));
    return { row, truth: this.truth(row, X), reported: this.digit(row, X, coins) };
  }
}

/** Generalised randomised response on buckets of hash functions. */
export class Rows extends PoolDevice {
  readonly name: string = "rows";
  readonly hash: RowHash;
  protected readonly response: Response;

  constructor(document: JsonObject, name = "rows", own: Record<string, Field<unknown>> = {}, places = 1) {
    super(name, document, (parameters) => ({ ...familyFields(parameters), ...own }));
    this.hash = rowHash(this.parameters, this.seed, this.domain.dimension);
    if ((places * this.hash.buckets) ** this.rowsEach > 2 ** (8 * CODE_BYTES)) {
      throw new InputError("the protocol's reports do not fit their length");
    }
    this.response = new Response(this.same, this.other, this.hash.buckets);
  }

  get outcomes(): number {
    return this.hash.buckets;
  }

  protected truth(row: number, X: readonly bigint[]): number {
    return this.hash.bucket(row, X);
  }

  protected digit(row: number, X: readonly bigint[], coins: Coins): number {
    return this.response.draw(this.hash.bucket(row, X), coins);
  }
}

/** The arc randomiser on phases. */
export class Phases extends PoolDevice {
  readonly name: string = "phases";
  readonly outcomes = POSITIONS;
  protected readonly response: Response;
  protected readonly frequencyLaw: Law;
  protected readonly pointBits: number;
  protected readonly shift: bigint;

  constructor(document: JsonObject, name = "phases", own: Record<string, Field<unknown>> = {}) {
    const arcs = {
      inside: whole(1, POSITIONS - 1),
      point_bits: whole(1, MOST_POINT_BITS),
      law: oneOf("normal", "cauchy", "laplace"),
    };
    super(name, document, () => ({ ...arcs, ...own }));
    const given = this.given as { inside: number; point_bits: number; law: keyof typeof LAWS };
    if (given.inside % 2 === 0 || this.rowsEach > MOST_ROWS_EACH) {
      throw new InputError("the protocol's arcs are out of range");
    }
    this.pointBits = given.point_bits;
    this.frequencyLaw = LAWS[given.law];
    this.shift = BigInt(this.pointBits + this.frequencyLaw.fractionBits);
    this.response = new Response(this.same, this.other, POSITIONS, given.inside);
  }

  /** Frequency of a row, and the phase of a point in it, in units of 2^-shift turns, not wrapped. */
  protected drawn(row: number, X: readonly bigint[]): { frequency: number[]; phase: bigint } {
    const words = words32(rowBytes(this.seed, LABEL, row, WORD_BYTES * (1 + X.length)));
    const frequency = this.frequencyLaw.numbers(words.slice(1));
    return { frequency, phase: dot(frequency, X) + ((BigInt(words[0] ?? 0) << this.shift) >> 32n) };
  }

  /** The upper 8 bits of a wrapped phase. */
  protected position(phase: bigint): number {
    return Number((phase & ((1n << this.shift) - 1n)) >> (this.shift - BigInt(POSITION_BITS)));
  }

  truth(row: number, X: readonly bigint[]): number {
    return this.position(this.drawn(row, X).phase);
  }

  protected arc(position: number, coins: Coins): number {
    return this.response.draw(position - (this.response.width >> 1), coins);
  }

  protected digit(row: number, X: readonly bigint[], coins: Coins): number {
    return this.arc(this.truth(row, X), coins);
  }
}

/** Phases with noise in proportion to how far a radius can move them, or arcs. */
export class MetricPhases extends Phases {
  override readonly name = "metric-phases";
  private readonly radius: number;
  private readonly largest: bigint;
  private readonly exactScales: Fraction[];

  constructor(document: JsonObject) {
    super(document, "metric-phases", { radius: LENGTH, largest: big(0n, (1n << BigInt(MOST_BITS)) - 1n) });
    ({ radius: this.radius, largest: this.largest } = this.given as { radius: number; largest: bigint });
    this.exactScales = this.scales.map((scale) => Fraction.ofDouble(scale));
  }

  override certify(): void {
    super.certify();
    checkRadius(this.radius, this.domain, this.pointBits, this.scales);
  }

  override conditions(): string[] {
    return [
      `epsilon is for points within a Euclidean distance of ${floatText(this.radius)}; at t times that distance the ` +
        "loss is at most t times epsilon; for points closer than that it may still be epsilon",
    ];
  }

  override get within(): string {
    return near(this.radius);
  }

  /** Scale B of the noise on the phases of one frequency. */
  scale(frequency: readonly number[]): bigint {
    const radius = Fraction.ofDouble(this.radius);
    const reached = moved(frequency, this.exactScales, radius, stepsApart(this.reach), true).plus(new Fraction(1));
    return coarse(reached.over(this.epsilon.over(this.rowsEach)));
  }

  protected override digit(row: number, X: readonly bigint[], coins: Coins): number {
    const { frequency, phase } = this.drawn(row, X);
    const scale = this.scale(frequency);
    if (scale > this.largest) return this.arc(this.position(phase), coins);
    return this.position(phase + laplace(new Fraction(1, scale), coins));
  }
}

const PLACES = 3;

/** Noisy parts of cells, or randomised response; digits are 3 bucket + place. */
export class MetricRows extends Rows {
  override readonly name = "metric-rows";
  private readonly radius: number;
  private readonly least: bigint;
  private readonly stable: PStable;
  private readonly exactScales: Fraction[];

  constructor(document: JsonObject) {
    super(document, "metric-rows", { radius: LENGTH, least: big(1n, (1n << BigInt(MOST_BITS)) - 1n) }, PLACES);
    if (!(this.hash instanceof PStable)) {
      throw new InputError("metric-rows needs projections; the protocol's hash functions are others");
    }
    this.stable = this.hash;
    ({ radius: this.radius, least: this.least } = this.given as { radius: number; least: bigint });
    this.exactScales = this.scales.map((scale) => Fraction.ofDouble(scale));
  }

  override get outcomes(): number {
    return PLACES * this.hash.buckets;
  }

  override certify(): void {
    super.certify();
    checkRadius(this.radius, this.domain, this.hash.pointBits, this.scales);
  }

  private get euclidean(): boolean {
    return this.stable.law === NORMAL;
  }

  override conditions(): string[] {
    return [
      `epsilon is for points within ${this.euclidean ? "a Euclidean" : "an l1"} distance of ${floatText(this.radius)}; ` +
        "at t times that distance the loss is at most t times epsilon, t rounded up; for points closer than that it " +
        "may still be epsilon",
    ];
  }

  override get within(): string {
    return near(this.radius);
  }

  protected override digit(row: number, X: readonly bigint[], coins: Coins): number {
    const { keys, words } = this.stable.drawn(row);
    const projection = this.stable.projection(words, X);
    const direction = this.stable.law.numbers(words.slice(1));
    const radius = Fraction.ofDouble(this.radius);
    const length = coarse(moved(direction, this.exactScales, radius, stepsApart(this.reach), this.euclidean));
    const [cell, parts] = [projection >> this.stable.shift, (1n << this.stable.shift) / length];
    if (parts < this.least) return PLACES * this.response.draw(this.hash.named(keys, [cell]), coins) + 1;
    const inCell = (projection - (cell << this.stable.shift)) / length;
    const part = inCell < parts ? inCell : parts - 1n;
    const noisy = cell * parts + part + laplace(this.epsilon.over(this.rowsEach), coins);
    const noisyCell = floorDivide(noisy, parts);
    return PLACES * this.hash.named(keys, [noisyCell]) + place(noisy - noisyCell * parts, parts);
  }
}

/** Whether a part is the first of its cell (0), the last (2) or neither (1). */
function place(part: bigint, parts: bigint): number {
  if (parts === 1n || (part > 0n && part < parts - 1n)) return 1;
  return part ? 2 : 0;
}
