/** The same checks for a browser: a page that loads this calls `sfumatoChecks()`. */

import { all } from "./all.js";

async function run(): Promise<{ passed: number; failed: string[] }> {
  const failed: string[] = [];
  let passed = 0;
  for (const [part, checks] of Object.entries(all)) {
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
