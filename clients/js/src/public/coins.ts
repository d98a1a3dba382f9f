/** Secret coins: exactly uniform integers from WebCrypto, and noise that is made from them in integers alone. */

import { InputError } from "../errors.js";
import { fromLittleEndian } from "./bytes.js";
import { Fraction } from "./fraction.js";
import { bitLength } from "./integers.js";

const MOST_AT_ONCE = 65536;

export class Coins {
  /** So many random bytes. */
  take(count: number): Uint8Array {
    const made = new Uint8Array(count);
    for (let at = 0; at < count; at += MOST_AT_ONCE) crypto.getRandomValues(made.subarray(at, at + MOST_AT_ONCE));
    return made;
  }

  /** An integer, exactly uniform in [0, bound). */
  below(bound: bigint): bigint {
    if (bound < 1n) throw new InputError(`the bound of a uniform integer must be at least 1, got ${bound}`);
    const bits = bitLength(bound - 1n);
    const size = Math.ceil(bits / 8);
    const surplus = BigInt(8 * size - bits);
    for (;;) {
      const value = fromLittleEndian(this.take(size)) >> surplus;
      if (value < bound) return value;
    }
  }
}

/** Toss a coin of probability exp(-numerator / denominator), by J. von Neumann's series. */
export function exponentialCoin(numerator: bigint, denominator: bigint, coins: Coins): boolean {
  for (; numerator > denominator; numerator -= denominator) if (!exponentialCoin(1n, 1n, coins)) return false;
  let step = 1n;
  while (coins.below(denominator) < numerator && (step === 1n || coins.below(step) === 0n)) step++;
  return step % 2n === 1n;
}

/** Sample Pr[k] proportional to exp(-rate k), k = 0, 1, 2, ... */
export function geometric(rate: Fraction, coins: Coins): bigint {
  let remainder: bigint;
  do remainder = coins.below(rate.denominator);
  while (!exponentialCoin(remainder, rate.denominator, coins));
  let units = 0n;
  while (exponentialCoin(1n, 1n, coins)) units++;
  return (remainder + rate.denominator * units) / rate.numerator;
}

/** Sample Pr[z] proportional to exp(-rate |z|). */
export function laplace(rate: Fraction, coins: Coins): bigint {
  for (;;) {
    const magnitude = geometric(rate, coins);
    const negative = coins.below(2n);
    if (magnitude || !negative) return negative ? -magnitude : magnitude;
  }
}
