import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import files from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";

import { Fraction } from "../src/public/fraction.js";
import { FileAccount } from "../src/account/file.js";
import { accountChecks } from "./accounts.js";
import { all } from "./all.js";
import { equal, type Check } from "./checks.js";

const path = join(mkdtempSync(join(tmpdir(), "sfumato-")), "account.json");
const accounts = accountChecks("a file", (budget) => FileAccount.open(path, budget));

const locks: Check[] = [
  {
    name: "of two that find a dead process's lock, one slower than the other, only one holds it at a time",
    async run() {
      const folder = mkdtempSync(join(tmpdir(), "sfumato-"));
      const account = join(folder, "account.json");
      const left = { host: hostname(), process: spawnSync("true").pid, name: "00".repeat(8) };
      writeFileSync(`${account}.node-lock`, JSON.stringify(left));
      let [slow, inside, most] = [1, 0, 0];
      const { rm } = files;
      // Whoever is first to take the lock away does so a moment after it looked, when the other may hold it.
      files.rm = async (name, options) => {
        if (String(name).endsWith(".node-lock") && slow-- > 0) await pause(400);
        await rm(name, options);
      };
      syncBuiltinESMExports();
      const answer = async (): Promise<Uint8Array> => {
        most = Math.max(most, ++inside);
        await pause(800);
        inside--;
        return Uint8Array.of(1);
      };
      try {
        const both = await Promise.all([1, 2].map(() => FileAccount.open(account, "4")));
        await Promise.all(both.map((each, i) => each.remembered(`question ${i}`, new Fraction(1), answer)));
        equal([most, await both[0]?.spent()], [1, "2"], "holders at a time, and what they spent");
        equal(readdirSync(folder), ["account.json"], "what is left");
      } finally {
        files.rm = rm;
        syncBuiltinESMExports();
      }
    },
  },
];

function pause(milliseconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, milliseconds));
}

for (const [part, checks] of Object.entries({ ...all, accounts, locks })) {
  void describe(part, () => {
    for (const { name, run } of checks) void it(name, run);
  });
}
