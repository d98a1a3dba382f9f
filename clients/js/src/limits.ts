/** What a device's owner allows, whatever a document says. */

import { InputError } from "./errors.js";
import { checkedDelta, promisedEpsilon } from "./public/amounts.js";
import type { Fraction } from "./public/fraction.js";
import { amountText, floatText } from "./public/text.js";

export interface Limits {
  /** The most that taking part may cost, a decimal or a fraction as text. */
  maxEpsilon?: string;
  /** Largest probability with which the promise may fail, a decimal as text. */
  maxDelta?: string;
}

/** Throw an `InputError` if taking part costs, or the promise fails, more than the device's owner allows. */
export function checkLimits(epsilon: Fraction, failure: number, maxEpsilon: string, maxDelta: string): void {
  const [most, largest] = [promisedEpsilon(maxEpsilon), checkedDelta(Number(maxDelta))];
  if (epsilon.compare(most) > 0) {
    throw new InputError(
      `a report costs an epsilon of ${amountText(epsilon)}, and this device allows ${amountText(most)}: pass ` +
        "max_epsilon= to allow more",
    );
  }
  if (failure > largest) {
    throw new InputError(
      `the promise may fail with probability ${floatText(failure)}, and this device allows ${floatText(largest)}: ` +
        "pass max_delta= to allow more",
    );
  }
}
