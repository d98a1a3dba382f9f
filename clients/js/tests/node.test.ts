import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";

import { FileAccount } from "../src/account/file.js";
import { accountChecks } from "./accounts.js";
import { all } from "./all.js";

const path = join(mkdtempSync(join(tmpdir(), "sfumato-")), "account.json");
const accounts = accountChecks("a file", (budget) => FileAccount.open(path, budget));

for (const [part, checks] of Object.entries({ ...all, accounts })) {
  void describe(part, () => {
    for (const { name, run } of checks) void it(name, run);
  });
}
