/** Reproducible coins, the same as Python's `Coins.seeded`; for tests only, what is drawn from them is NOT PRIVATE. */

import { sha256 } from "@noble/hashes/sha2.js";
import { shake256 } from "@noble/hashes/sha3.js";

import { bigEndian, concat, utf8 } from "../src/public/bytes.js";
import { Coins } from "../src/public/coins.js";

const BLOCK_BYTES = 512;

export class SeededCoins extends Coins {
  private readonly state: Uint8Array;
  private block = 0;
  private unread: Uint8Array = new Uint8Array(0);

  constructor(seed: string) {
    super();
    this.state = sha256(utf8(`sfumato-coins:${seed}`));
  }

  override take(count: number): Uint8Array {
    if (this.unread.length < count) {
      const block = concat(this.state, bigEndian(this.block++, 8));
      this.unread = concat(this.unread, shake256(block, { dkLen: Math.max(BLOCK_BYTES, count) }));
    }
    const taken = this.unread.slice(0, count);
    this.unread = this.unread.slice(count);
    return taken;
  }
}
