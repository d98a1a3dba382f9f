/** A shuffled collection on a device. */

import type { Account } from "../account/account.js";
import { InputError } from "../errors.js";
import type { Limits } from "../limits.js";
import { Fraction } from "../public/fraction.js";
import type { JsonObject } from "../public/json.js";

export class ShuffledProtocol {
  readonly trust = "shuffled";
  readonly fingerprint = "";
  readonly price = new Fraction(0);

  static open(_document: JsonObject, _limits: Limits): Promise<ShuffledProtocol> {
    throw new InputError("shuffled collections are not made by this device yet");
  }

  checkBeforeClass(_account: Account): Promise<void> {
    throw new InputError("shuffled collections are not made by this device yet");
  }

  reportedClass(label: string | number | null, _account: Account): Promise<string | number | null> {
    return Promise.resolve(label);
  }

  groupOf(_label: string | number | null): number {
    return 0;
  }

  sealed(_point: readonly number[], _label: string | number | null): Promise<Uint8Array> {
    throw new InputError("shuffled collections are not made by this device yet");
  }
}
