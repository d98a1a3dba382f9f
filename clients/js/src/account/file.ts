/** An account in a file, which Python's devices read too; not at the same moment, for each has a lock of its own. */

import { link, open, readFile, realpath, rename, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, join, resolve } from "node:path";

import { SfumatoError, StorageError } from "../errors.js";
import { hex } from "../public/bytes.js";
import { hexadecimal, line, readFields, whole } from "../public/codec.js";
import { Coins } from "../public/coins.js";
import { parse } from "../public/json.js";
import { Account, type Store } from "./account.js";

const OWNER_ONLY = 0o600;
const PAUSE = 50; // milliseconds between two looks at a lock
const PATIENCE = 30_000;
const LONGEST_OWNER = 1000;
const OWNER = { host: line(300), process: whole(1, 2 ** 31), name: hexadecimal(16) };

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

interface Owner {
  host: string;
  process: number;
  /** A number of this one holding, so that no two are taken for one another. */
  name: string;
}

/**
 * Hold a lock: a file that says who holds it. One that a dead process of this machine left is taken away.
 *
 * The file appears with its content in one step. What a dead process left is removed only under a lock of its own, whose
 * name holds the number of that holding: whoever comes to it later finds another holding, or none, and leaves that alone.
 */
async function locked(path: string): Promise<() => Promise<void>> {
  const own: Owner = { host: hostname(), process: process.pid, name: hex(new Coins().take(8)) };
  const temporary = await written(dirname(path), JSON.stringify(own));
  try {
    for (const start = Date.now(); !(await linked(temporary, path)); ) {
      const owner = await ownerOf(path);
      if (owner && dead(owner)) {
        const unlock = await locked(`${path}-${owner.name}`);
        if ((await ownerOf(path))?.name === owner.name) await rm(path);
        await unlock();
      } else if (owner && Date.now() - start > PATIENCE) {
        throw new StorageError(`'${path}' is held by process ${owner.process} of ${owner.host}`);
      } else await new Promise((done) => setTimeout(done, PAUSE));
    }
  } finally {
    await rm(temporary);
  }
  return () => rm(path, { force: true });
}

/** Give a file a second name; false if there is one of that name. */
async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (problem) {
    if (codeOf(problem) === "EEXIST") return false;
    throw problem;
  }
}

/** Who holds a lock, null if nobody does any more. */
async function ownerOf(path: string): Promise<Owner | null> {
  let content;
  try {
    content = await readFile(path, "utf8");
  } catch (problem) {
    if (codeOf(problem) === "ENOENT") return null;
    throw problem;
  }
  try {
    return readFields(parse(content, "a lock", LONGEST_OWNER), "", OWNER);
  } catch {
    throw new StorageError(`'${path}' is no lock of this version: remove it if no device runs`);
  }
}

function dead({ host, process: number }: Owner): boolean {
  if (host !== hostname()) return false;
  try {
    process.kill(number, 0);
    return false;
  } catch (problem) {
    return codeOf(problem) === "ESRCH";
  }
}

/** Write beside the file, force it to disk, and give it the file's name in one step. */
async function replaced(path: string, content: string): Promise<void> {
  const folder = dirname(path);
  const temporary = await written(folder, content);
  try {
    await rename(temporary, path);
  } catch (problem) {
    await rm(temporary, { force: true });
    throw problem;
  }
  const directory = await open(folder, "r");
  await directory.sync();
  await directory.close();
}

/** A new file of a name of its own, which is on disk. */
async function written(folder: string, content: string): Promise<string> {
  const path = join(folder, `.sfumato-${hex(new Coins().take(8))}.tmp`);
  try {
    const file = await open(path, "wx", OWNER_ONLY);
    await file.writeFile(content);
    await file.sync();
    await file.close();
    return path;
  } catch (problem) {
    await rm(path, { force: true });
    throw problem;
  }
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
