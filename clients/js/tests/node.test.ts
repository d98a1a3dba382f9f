import { describe, it } from "node:test";

import { all } from "./all.js";

for (const [part, checks] of Object.entries(all)) {
  void describe(part, () => {
    for (const { name, run } of checks) void it(name, run);
  });
}
