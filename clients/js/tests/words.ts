/** Reproducible words, the same as Python's `SecureBits.seeded`; for tests only, what is drawn from them is NOT PRIVATE. */

import { sha256 } from "@noble/hashes/sha2.js";

import { utf8, words64 } from "../src/public/bytes.js";
import { SecretWords } from "../src/shuffled/words.js";

const WORDS = 1 << 16;

export class SeededWords extends SecretWords {
  private at = 0;

  private constructor(private readonly stream: readonly bigint[]) {
    super();
  }

  static async from(seed: string): Promise<SeededWords> {
    const raw = Uint8Array.from(sha256(utf8(`text:${seed}`)));
    const key = await crypto.subtle.importKey("raw", raw, "AES-CTR", false, ["encrypt"]);
    const counter = { name: "AES-CTR", counter: new Uint8Array(16), length: 128 };
    return new SeededWords(words64(new Uint8Array(await crypto.subtle.encrypt(counter, key, new Uint8Array(8 * WORDS)))));
  }

  override words(count: number): BigUint64Array {
    this.at += count;
    if (this.at > WORDS) throw new Error("the test needs more words");
    return BigUint64Array.from(this.stream.slice(this.at - count, this.at));
  }
}
