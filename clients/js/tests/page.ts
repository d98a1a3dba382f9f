/** The same checks for a browser: a page that loads this calls `sfumatoChecks()`. */

import { IndexedDbAccount } from "../src/account/indexeddb.js";
import { accountChecks } from "./accounts.js";
import { all } from "./all.js";

const accounts = accountChecks("IndexedDB", (budget) => IndexedDbAccount.open("test", budget));

async function run(): Promise<{ passed: number; failed: string[] }> {
  const failed: string[] = [];
  let passed = 0;
  for (const [part, checks] of Object.entries({ ...all, accounts })) {
    for (const { name, run } of checks) {
      try {
        await run();
        passed++;
      } catch (problem) {
        failed.push(`${part}: ${name}: ${String(problem)}`);
      }
    }
  }
  return { passed, failed };
}

Object.assign(globalThis, { sfumatoChecks: run });
