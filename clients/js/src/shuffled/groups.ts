/** Groups of participants, one for each class, as a document holds them, and the sentences of the guarantee. */

import { InputError } from "../errors.js";
import { anything, many, oneOf, readFields, whole } from "../public/codec.js";
import { Fraction } from "../public/fraction.js";
import { Guarantee } from "../public/guarantee.js";
import type { Json } from "../public/json.js";
import { amountText, shown } from "../public/text.js";
import { everyInstance, KINDS, readBitSum } from "./bitsums.js";
import type { Noise } from "./certificate.js";
import { MOST_CLASSES, plainLabel, type Label, type LabelResponse } from "./labels.js";

export const NAMES = ["rr", "poisson", "negative-binomial", "3nb", "pure", "rr-published", "3nb-published"] as const;
const LARGEST_PARTICIPANTS = 10 ** 9;
export type Threat = "communication" | "model";

export interface Group extends Noise {
  label: Label | null;
}

const FIELDS = {
  label: (value: Json, path: string): Label | null => {
    try {
      return value === null ? null : plainLabel(value);
    } catch (problem) {
      throw new InputError(`${path}: ${(problem as Error).message}`);
    }
  },
  participants: whole(1, LARGEST_PARTICIPANTS),
  bitsum: oneOf(...KINDS),
  parameters: anything,
  messages: whole(1, Number.MAX_SAFE_INTEGER),
};

function readGroup(value: Json, path: string): Group {
  const { label, participants, bitsum: kind, parameters, messages } = readFields(value, path, FIELDS);
  return { label, participants, bitsum: readBitSum(kind, parameters, `${path}.parameters`), messages };
}

/** The groups of a protocol, with distinct labels; one without a label stands alone. */
export function readGroups(value: Json, path: string): Group[] {
  const groups = many(readGroup, MOST_CLASSES, 1)(value, path);
  const labels = groups.map(({ label }) => label);
  if (new Set(labels).size < labels.length || (labels.includes(null) && labels.length > 1)) {
    throw new InputError("the groups of a protocol must have distinct labels");
  }
  return groups;
}

/** Refuse a document whose summary says something else than its groups. */
export function checkSummary(groups: readonly Group[], participants: Json | undefined, bitsum: string): void {
  const least = Math.min(...groups.map((group) => group.participants));
  if (participants !== BigInt(least)) {
    throw new InputError(
      `the protocol names ${shown(participants)} participants, and its smallest group has ${least}`,
    );
  }
  const kinds = [...new Set(groups.map((group) => group.bitsum.kind))].sort();
  const own = bitsum === "rr" ? ["rr", "sampled-rr"] : [bitsum.replace(/-published$/, "")];
  if (!kinds.every((kind) => own.includes(kind))) {
    throw new InputError(`the protocol names the bit sum ${shown(bitsum)}, and its groups use ${kinds.join(", ")}`);
  }
}

/** Everything that the guarantee of a protocol depends on. */
export interface Promised {
  epsilon: Fraction;
  delta: number;
  groups: readonly Group[];
  response: LabelResponse | null;
  points: string;
}

/** The promise against whoever sees the communication, or against whoever sees the releases. */
export function guaranteeOf(promised: Promised, threat: Threat): Guarantee {
  const { epsilon, delta, response } = promised;
  const whole = response && threat === "communication" ? epsilon.plus(response.epsilon) : epsilon;
  const conditions = [...people(promised), ...sizes(promised), ...labels(promised, threat), promised.points];
  return new Guarantee("shuffled", "user", whole, delta, conditions);
}

function extent(values: number[]): string {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return least === most ? `${least}` : `from ${least} to ${most}, by class,`;
}

function people({ groups }: Promised): string[] {
  const each = groups.length > 1 ? " in every class" : "";
  const least = extent(groups.map((group) => group.participants));
  return [
    `at least ${least} participants${each} follow the protocol, each once, with coins of their own`,
    "every message is shuffled on its own, and nothing (time, address, order) links the messages of a person",
  ];
}

function sizes({ groups, delta }: Promised): string[] {
  if (groups.every((group) => everyInstance(group.bitsum))) return [];
  const number = extent(groups.map((group) => group.messages));
  const paid = delta
    ? "for which a thousandth of delta pays"
    : "with a probability below 2^-128 for all together, which is not counted";
  return [`everybody sends ${number} messages, cover included; a draw that does not fit is made again, ${paid}`];
}

function labels({ groups, response, epsilon }: Promised, threat: Threat): string[] {
  if (groups[0]?.label === null) return [];
  if (!response) return ["classes are public and not protected"];
  const [point, both] = [amountText(epsilon), amountText(epsilon.plus(response.epsilon))];
  if (threat === "communication") {
    return [`this covers a change of point and class; if only the point changes, epsilon = ${point} holds`];
  }
  return [`the class stays the same and only the point changes; if the class changes, epsilon = ${both} holds`];
}
