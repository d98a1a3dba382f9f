/** What a collection promises, as a value: the same fields, documents and sentences as in Python. */

import { Fraction } from "./fraction.js";
import { exact, type Json, type JsonObject } from "./json.js";
import { factorText, floatText } from "./text.js";

const HIDDEN = {
  record: ["one record", "that record had held other values", "which values it holds"],
  user: [
    "one person, with all of their records,",
    "that person's records had held other values",
    "which values they hold",
  ],
} as const;
const COVERS = {
  local:
    "All participants randomised their data on their own devices, so the promise holds even against the collector, " +
    "who sees every report.",
  shuffled:
    "All participants randomised their data on their own devices and an honest shuffler removed who sent what; " +
    "the promise covers everyone who sees only the shuffled messages.",
} as const;

/** Neighbours differ in the values of one record or person, and their number is public: so it is where devices report. */
export class Guarantee {
  constructor(
    readonly trust: keyof typeof COVERS,
    readonly unit: keyof typeof HIDDEN,
    readonly epsilon: Fraction,
    readonly delta: number,
    readonly conditions: readonly string[],
    readonly within = "",
  ) {}

  /** The exact document that a protocol holds. */
  toDocument(): JsonObject {
    const document: JsonObject = {
      trust: this.trust,
      neighbours: "replace",
      unit: this.unit,
      epsilon: this.epsilon.toString(),
      delta: exact(this.delta),
      n_public: true,
      conditions: [...this.conditions] as Json[],
      private: true,
    };
    if (this.within) document["within"] = this.within;
    return document;
  }

  /** The promise in plain language, one paragraph. */
  statement(): string {
    const [target, change, hidden] = HIDDEN[this.unit];
    const people = this.unit === "record" ? "records" : "people";
    return [
      "This release shows what the crowd looks like, and anyone may learn that from it. What it can reveal about " +
        `${target} is limited: if ${change}, the odds of any conclusion that an observer draws, whatever else they ` +
        `know, would differ by at most a factor of ${factorText(this.epsilon)}. So an observer cannot tell, ` +
        `beyond that factor, ${hidden}.`,
      this.exception(),
      `The number of ${people} is public and is not protected, nor is the fact of taking part.`,
      this.unit === "user"
        ? ""
        : "A person with several records is protected less: with k records, the factor is taken to the power k.",
      COVERS[this.trust],
      this.conditions.length ? `All this holds provided that: ${this.conditions.join("; ")}.` : "",
      "Every further release from the same data weakens the promise: the epsilons add up, and so do the deltas.",
    ]
      .filter((sentence) => sentence)
      .join(" ");
  }

  private exception(): string {
    if (this.within) return `The limit is for ${this.within} only; between others, more may show.`;
    if (this.delta) return `The limit may fail with a probability of at most delta = ${floatText(this.delta)}.`;
    return "The limit has no exceptions (delta = 0).";
  }
}
