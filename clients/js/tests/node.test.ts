import { describe, it } from "node:test";

import { all } from "./all.js";

for (const [part, checks] of Object.entries(all)) {
  describe(part, () => {
    for (const { name, run } of checks) it(name, run);
  });
}
