/** Whether the noise of a group keeps its promise: the certificate of `sfumato.shuffled.groups`, in integers. */

import { InputError } from "../errors.js";
import { breath } from "../public/breath.js";
import { Fraction } from "../public/fraction.js";
import { shortNumber } from "../public/text.js";
import type { BitSum, Pure } from "./bitsums.js";
import { composedDelta, Curve, Grid } from "./curves.js";
import { approximate, exponential, fixed, logarithm, ONE, over, times } from "./fixed.js";
import { negativeBinomialPair, poissonPair, responseCases, responsePair, spread, threePair, type Pair } from "./laws.js";
import { keepsPurely } from "./pure.js";
import { sampledCurve } from "./sampled.js";

const LARGEST_EPSILON = 50;
const SHARE = 1000n; // a part of delta of one in so many, for draws that do not fit
const PURE_OVERFLOW = ONE >> 128n;
const TAIL_SHARE = 10n ** 6n;
const FEWEST_STEPS = 50;
const MOST_STEPS = 400;
const LARGEST_TILT = 30;
const MOST_PADDING = 64; // times the messages that the noise needs
const LEAST_REST = 300n * ONE; // e^-x is below the last place beyond

/** What all instances together may reveal. */
export interface Budget {
  epsilon: Fraction;
  delta: number;
  /** Bits of a point, all of which may differ between two. */
  instances: number;
}

export interface Noise {
  bitsum: BitSum;
  participants: number;
  /** How many everybody sends, cover included. */
  messages: number;
}

/** Noise that was found to keep its budget: groups are often alike, and a document is often opened again. */
const certified = new Set<string>();

/** Refuse noise that does not keep what is promised: a document is no proof. */
export async function certify(noise: Noise, budget: Budget): Promise<void> {
  const { bitsum, participants, messages } = noise;
  const parameters = [bitsum, budget].flatMap((each) => Object.values(each) as unknown[]);
  const name = [participants, messages, ...parameters].join(" ");
  if (certified.has(name)) return;
  refuseCover(noise, budget);
  if (await keeps(noise, budget)) {
    certified.add(name);
    return;
  }
  const epsilon = Number(budget.epsilon.numerator) / Number(budget.epsilon.denominator);
  throw new InputError(
    `the protocol's noise does not keep epsilon ${shortNumber(epsilon)} and delta ${shortNumber(budget.delta)} with ` +
      `${noise.participants} participants who send ${noise.messages} messages each; do not take part, and ask the ` +
      "organiser for a document made with sfumato",
  );
}

/** Refuse cover without end: what a device seals is the organiser's choice, and needs a reason. */
function refuseCover(noise: Noise, { epsilon, delta, instances }: Budget): void {
  const few = Math.floor(noise.messages / MOST_PADDING);
  if (!few || epsilon.compare(LARGEST_EPSILON) > 0) return;
  const unfit = overflow({ ...noise, messages: few }, epsilon, instances);
  if (delta > 0 ? unfit * SHARE <= fixed(Fraction.ofDouble(delta)) : unfit <= PURE_OVERFLOW) {
    throw new InputError(
      `everybody would have to send ${noise.messages} messages, and ${few} would be enough; do not take part, and ask ` +
        "the organiser for a document made with sfumato",
    );
  }
}

async function keeps(noise: Noise, { epsilon, delta, instances }: Budget): Promise<boolean> {
  if (epsilon.compare(LARGEST_EPSILON) > 0) return false;
  const { bitsum, participants } = noise;
  const unfit = overflow(noise, epsilon, instances);
  if (bitsum.kind === "pure") return unfit <= PURE_OVERFLOW && keepsPurely(bitsum, epsilon.over(instances));
  if (!(delta > 0)) return false;
  const allowed = fixed(Fraction.ofDouble(delta));
  if (unfit * SHARE > allowed) return false;
  const tail = allowed / (TAIL_SHARE * BigInt(instances));
  if (!tail) return false;
  const steps = Math.max(FEWEST_STEPS, Math.ceil(MOST_STEPS / Math.sqrt(instances)));
  const curve = await curveOf(bitsum, participants, tail, steps);
  return composedDelta(curve, instances, epsilon, allowed) + unfit <= allowed;
}

async function curveOf(bitsum: Exclude<BitSum, Pure>, n: number, tail: bigint, steps: number): Promise<Curve> {
  switch (bitsum.kind) {
    case "rr":
      return responseCurve(n, bitsum.flip, tail, steps);
    case "sampled-rr":
      return sampledCurve(n, bitsum.flip, bitsum.send, tail, steps);
    case "poisson":
      return pairCurve(poissonPair(bitsum.mean, tail), steps);
    case "negative-binomial":
      return pairCurve(negativeBinomialPair(bitsum.shape, bitsum.rate, tail), steps);
    case "3nb":
      return pairCurve(threePair(bitsum.rate, bitsum.floodShape, bitsum.floodRate, tail), steps, bitsum.rate);
  }
}

function pairCurve(pair: Pair, steps: number, width?: Fraction): Curve {
  const { deviation, largest } = spread(pair);
  const curve = new Curve(new Grid((width ? approximate(fixed(width)) : deviation) / steps, largest));
  curve.include(pair);
  return curve;
}

/** A curve above all numbers of ones among the others; lets the page breathe in between. */
async function responseCurve(n: number, flip: Fraction, tail: bigint, steps: number): Promise<Curve> {
  const { participants, ones } = responseCases(n);
  const first = responsePair(participants, 0, flip, tail);
  const { deviation, largest } = spread(first);
  const flipped = approximate(fixed(flip));
  const end = Math.min(1.5 * largest, Math.log((1 - flipped) / flipped));
  const curve = new Curve(new Grid(deviation / steps, end));
  for (const k of ones) {
    curve.include(responsePair(participants, k, flip, tail));
    await breath();
  }
  return curve;
}

/** What draws that do not fit add to delta: n (1 + e^epsilon) Pr[messages of a client > messages], by Chernoff. */
function overflow({ bitsum, participants, messages }: Noise, epsilon: Fraction, instances: number): bigint {
  if ((bitsum.kind === "rr" || bitsum.kind === "sampled-rr") && messages >= instances) return 0n;
  const share = (shape: bigint | Fraction): bigint =>
    fixed((shape instanceof Fraction ? shape : new Fraction(shape)).times(instances).over(participants));
  const exponent = (tilt: bigint): bigint =>
    moment(bitsum, tilt, share) + own(bitsum, tilt) * BigInt(instances) - tilt * BigInt(messages + 1);
  const best = fixed(Fraction.ofDouble(bestTilt((tilt) => approximated(exponent, tilt), largestTilt(bitsum))));
  const bound = exponent(best) + 1n; // it holds for any tilt; rounding is far below one unit in the last place of e^
  if (bound > 0n) return ONE;
  const found = times(exponential(bound) + 1n, (ONE + exponential(fixed(epsilon)) + 1n) * BigInt(participants)) + 1n;
  return found < ONE ? found : ONE;
}

function approximated(exponent: (tilt: bigint) => bigint, tilt: number): number {
  const value = exponent(fixed(Fraction.ofDouble(tilt)));
  return value < 0n ? -approximate(-value) : approximate(value);
}

/** ln E[exp(tilt * messages)] of one user's noise in all instances, from above. */
function moment(bitsum: BitSum, tilt: bigint, share: (shape: bigint | Fraction) => bigint): bigint {
  const log = (rate: Fraction, size: bigint): bigint => {
    const decay = exponential(-fixed(rate));
    return logarithm(over(ONE - decay, ONE - times(decay, exponential(size)) - 1n)) + 1n;
  };
  switch (bitsum.kind) {
    case "poisson":
      return times(share(bitsum.mean) + 1n, exponential(tilt) - ONE + 1n) + 1n;
    case "negative-binomial":
      return times(share(bitsum.shape) + 1n, log(bitsum.rate, tilt)) + 1n;
    case "3nb":
    case "pure": {
      const signs = times(share(2n) + 1n, log(bitsum.rate, tilt)) + 1n;
      return signs + times(share(bitsum.floodShape) + 1n, log(bitsum.floodRate, 2n * tilt)) + 1n;
    }
    default:
      return 0n;
  }
}

/** ln E[exp(tilt * messages)] of what a user sends for a bit 1 in one instance besides noise, from above. */
function own(bitsum: BitSum, tilt: bigint): bigint {
  if (bitsum.kind === "sampled-rr") return logarithm(ONE + times(fixed(bitsum.send) + 1n, exponential(tilt) - ONE + 1n) + 1n) + 1n;
  if (bitsum.kind !== "pure") return tilt;
  const kept = tilt * (2n * bitsum.copies + 1n);
  const drop = fixed(bitsum.drop);
  const rest = kept > LEAST_REST ? 0n : exponential(-kept);
  return kept + logarithm(ONE - drop + times(drop + 1n, rest + 1n) + 1n) + 1n;
}

function largestTilt(bitsum: BitSum): number {
  const rate = (of: Fraction): number => approximate(fixed(of));
  switch (bitsum.kind) {
    case "negative-binomial":
      return Math.min(LARGEST_TILT, 0.999 * rate(bitsum.rate));
    case "3nb":
    case "pure":
      return Math.min(LARGEST_TILT, 0.999 * Math.min(rate(bitsum.rate), rate(bitsum.floodRate) / 2));
    default:
      return LARGEST_TILT;
  }
}

const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** Where a convex function is least, by golden sections of the logarithm; any other place would do for the proof. */
function bestTilt(bound: (tilt: number) => number, largest: number): number {
  const value = (log: number): number => bound(Math.exp(log));
  let [low, high] = [Math.log(largest) - 15, Math.log(largest)];
  let [left, right] = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)];
  let [first, second] = [value(left), value(right)];
  while (high - low > 1e-5) {
    if (first < second) {
      [high, right, second] = [right, left, first];
      left = high - GOLDEN * (high - low);
      first = value(left);
    } else {
      [low, left, first] = [left, right, second];
      right = low + GOLDEN * (high - low);
      second = value(right);
    }
  }
  return Math.exp((low + high) / 2);
}
