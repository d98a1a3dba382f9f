/** An account in a browser: one record in IndexedDB, changed under a lock that all tabs share. */

import { SfumatoError, StorageError } from "../errors.js";
import { Account, type Store } from "./account.js";

const TABLE = "account";
const RECORD = "content";

class IndexedDbStore implements Store {
  constructor(
    readonly name: string,
    private readonly database: IDBDatabase,
  ) {}

  async read(): Promise<string | null> {
    return guarded(async () => {
      const table = this.database.transaction(TABLE, "readonly").objectStore(TABLE);
      const found: unknown = await answered(table.get(RECORD));
      if (found !== undefined && typeof found !== "string") throw new StorageError(`'${this.name}' holds no account`);
      return found ?? null;
    });
  }

  async update(change: (text: string | null) => Promise<string>): Promise<void> {
    await guarded(() =>
      navigator.locks.request(`sfumato-account ${this.name}`, async () => {
        const before = await this.read();
        await this.write(before, await change(before));
      }),
    );
  }

  /** Replace what was read, and only that; strict durability waits for the disk. */
  private async write(before: string | null, after: string): Promise<void> {
    const transaction = this.database.transaction(TABLE, "readwrite", { durability: "strict" });
    const done = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => { resolve(); };
      transaction.onabort = () => { reject(transaction.error ?? new StorageError(`'${this.name}' was changed`)); };
    });
    const table = transaction.objectStore(TABLE);
    const now: unknown = await answered(table.get(RECORD));
    if ((now ?? null) === before) table.put(after, RECORD);
    else transaction.abort();
    await done;
  }
}

function answered<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => { resolve(request.result); };
    request.onerror = () => { reject(request.error ?? new StorageError("IndexedDB does not answer")); };
  });
}

async function guarded<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (problem) {
    if (problem instanceof SfumatoError) throw problem;
    throw new StorageError(`the browser does not keep the account: ${String(problem)}; nothing left the device`);
  }
}

export const IndexedDbAccount = {
  /** Open the account of this name, or begin one at the first charge. */
  async open(name: string, budget: string): Promise<Account> {
    return guarded(async () => {
      const request = indexedDB.open(`sfumato ${name}`, 1);
      request.onupgradeneeded = () => { request.result.createObjectStore(TABLE); };
      const database = await answered(request);
      // Without this a browser may throw the account away, and with it what was spent; it may still say no.
      await navigator.storage.persist().catch(() => false);
      return new Account(new IndexedDbStore(name, database), budget);
    });
  },
};
