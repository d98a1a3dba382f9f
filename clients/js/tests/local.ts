/** The local devices against Python's: whole reports from fixed coins, statements, and refusals word for word. */

import text from "vectors/clients/vectors/local";

import { LocalProtocol } from "../src/local/protocol.js";
import { promisedEpsilon } from "../src/public/amounts.js";
import { hex } from "../src/public/bytes.js";
import { seedOf } from "../src/public/document.js";
import { canonicalText, fingerprint, parse, plain, type Json, type JsonObject } from "../src/public/json.js";
import { amountText } from "../src/public/text.js";
import { equal, refusal, type Check } from "./checks.js";
import { SeededCoins } from "./coins.js";

interface Vectors {
  points: number[][];
  protocols: { name: string; document: JsonObject; fingerprint: string; statement: string; reports: string[][] }[];
  changed: { protocol: string; path: string[]; value: Json; reseal: boolean; refused: string | null }[];
  limited: { protocol: string; max_epsilon: string; refused: string | null }[];
  amounts: [string, string][];
  texts: [string, string][];
}

const read = parse(text);
const vectors = read as unknown as Vectors;
const points = plain((read as JsonObject)["points"] ?? null) as unknown as number[][];
const MAX = { maxEpsilon: "12" };
const DROP = "(left out)";

function documentOf(name: string): JsonObject {
  const found = vectors.protocols.find((protocol) => protocol.name === name);
  if (!found) throw new Error(name);
  return found.document;
}

/** A copy with one value changed, and sealed again if so said. */
export function changed(document: JsonObject, path: readonly string[], value: Json, reseal: boolean): JsonObject {
  const made = parse(canonicalText(document)) as JsonObject;
  let part = made;
  for (const step of path.slice(0, -1)) part = part[step] as JsonObject;
  const last = path[path.length - 1] ?? "";
  if (value === DROP) Reflect.deleteProperty(part, last);
  else part[last] = value;
  return reseal ? { ...made, seed: seedOf(made) } : made;
}

function reports(): Check[] {
  return vectors.protocols.map(({ name, document, fingerprint: wanted, statement, reports }) => ({
    name: `reports of ${name}`,
    run() {
      equal(fingerprint(document), wanted, "fingerprint");
      const protocol = new LocalProtocol(document, MAX);
      equal(protocol.statement(), statement, "statement");
      for (const [place, row] of reports.entries()) {
        for (const [number, report] of row.entries()) {
          const coins = new SeededCoins(`${name} ${place} ${number}`);
          equal(hex(protocol.report(points[place] ?? [], coins)), report, `report ${place} ${number}`);
        }
      }
    },
  }));
}

function refusals(): Check[] {
  return vectors.changed.map(({ protocol, path, value, reseal, refused }) => ({
    name: `${protocol} with ${path.join(".")} = ${canonicalText(value).slice(0, 60)}${reseal ? "" : ", not sealed"}`,
    async run() {
      const document = changed(documentOf(protocol), path, value, reseal);
      equal(await refusal(() => new LocalProtocol(document, MAX)), refused, "refusal");
    },
  }));
}

export const checks: Check[] = [
  ...reports(),
  ...refusals(),
  ...vectors.limited.map(({ protocol, max_epsilon, refused }) => ({
    name: `${protocol} where ${max_epsilon} is allowed`,
    async run() {
      equal(
        await refusal(() => new LocalProtocol(documentOf(protocol), { maxEpsilon: max_epsilon })),
        refused,
        "refusal",
      );
    },
  })),
  ...vectors.amounts.map(([amount, wanted]) => ({
    name: `amount ${amount}`,
    run() {
      equal(amountText(promisedEpsilon(amount)), wanted, "text");
    },
  })),
  ...vectors.texts.map(([json, wanted]) => ({
    name: `JSON ${json.slice(0, 40)}`,
    run() {
      let found: string;
      try {
        found = canonicalText(parse(json));
      } catch (problem) {
        found = `refused: ${(problem as Error).message}`;
      }
      equal(found, wanted, "canonical form");
    },
  })),
  {
    name: "secret coins differ, and identities with them",
    run() {
      const protocol = new LocalProtocol(documentOf("rows l2"), MAX);
      const made = new Set(Array.from({ length: 50 }, () => hex(protocol.report([0.5, 0.5, 0.5])).slice(0, 20)));
      equal(made.size, 50, "distinct identities");
    },
  },
];
