/** An account in a file, which Python's devices read too; not at the same moment, for each has a lock of its own. */

import { constants } from "node:fs";
import { open, realpath, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

import { SfumatoError, StorageError } from "../errors.js";
import { hex } from "../public/bytes.js";
import { Coins } from "../public/coins.js";
import { Account, type Store } from "./account.js";

const OWNER_ONLY = 0o600;
const PAUSE = 50; // milliseconds between two looks at a lock
const PATIENCE = 30_000;

function codeOf(problem: unknown): string {
  return problem instanceof Error && "code" in problem ? String(problem.code) : "";
}

class FileStore implements Store {
  constructor(readonly name: string) {}

  async read(): Promise<string | null> {
    return guarded("read", this.name, async () => {
      let file;
      try {
        file = await open(this.name, "r");
      } catch (problem) {
        if (codeOf(problem) === "ENOENT") return null;
        throw problem;
      }
      try {
        const { nlink } = await file.stat();
        if (nlink > 1) {
          throw new StorageError(
            `'${this.name}' is one of ${nlink} names (hard links) of an account: keep one of them, or each would come ` +
              "to allow the whole budget",
          );
        }
        return await file.readFile("utf8");
      } finally {
        await file.close();
      }
    });
  }

  async update(change: (text: string | null) => Promise<string>): Promise<void> {
    const unlock = await guarded("lock", this.name, () => locked(`${this.name}.node-lock`));
    try {
      const before = await this.read();
      const after = await change(before);
      if ((await this.read()) !== before) throw new StorageError(`'${this.name}' was changed by another program`);
      await guarded("write", this.name, () => replaced(this.name, after));
    } finally {
      await unlock();
    }
  }
}

/** Make a lock's file, which holds the number of this process; one that a dead process left is taken away. */
async function locked(path: string): Promise<() => Promise<void>> {
  for (const start = Date.now(); ; await new Promise((done) => setTimeout(done, PAUSE))) {
    try {
      const file = await open(path, "wx", OWNER_ONLY);
      await file.writeFile(String(process.pid));
      await file.close();
      return () => rm(path, { force: true });
    } catch (problem) {
      if (codeOf(problem) !== "EEXIST") throw problem;
    }
    if (await abandoned(path)) await rm(path, { force: true });
    else if (Date.now() - start > PATIENCE) throw new StorageError(`'${path}' is held by another process`);
  }
}

async function abandoned(path: string): Promise<boolean> {
  try {
    const file = await open(path, "r");
    const owner = Number(await file.readFile("utf8"));
    await file.close();
    if (owner > 0) process.kill(owner, 0);
    return false;
  } catch (problem) {
    return codeOf(problem) === "ESRCH";
  }
}

/** Write beside the file, force it to disk, and give it the file's name in one step. */
async function replaced(path: string, content: string): Promise<void> {
  const folder = dirname(path);
  const temporary = join(folder, `.sfumato-${hex(new Coins().take(8))}.tmp`);
  try {
    const file = await open(temporary, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, OWNER_ONLY);
    await file.writeFile(content);
    await file.sync();
    await file.close();
    await rename(temporary, path);
  } catch (problem) {
    await rm(temporary, { force: true });
    throw problem;
  }
  const directory = await open(folder, "r");
  await directory.sync();
  await directory.close();
}

async function guarded<T>(action: string, path: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (problem) {
    if (problem instanceof SfumatoError) throw problem;
    throw new StorageError(`cannot ${action} '${path}': ${problem instanceof Error ? problem.message : "unknown"}`);
  }
}

/** Two names of one file must be one account. */
async function resolved(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    return join(await realpath(dirname(resolve(path))), resolve(path).slice(dirname(resolve(path)).length));
  }
}

export const FileAccount = {
  /** Open the account in a file, or begin one at the first charge. */
  async open(path: string, budget: string): Promise<Account> {
    return guarded("read", path, async () => new Account(new FileStore(await resolved(path)), budget));
  },
};
