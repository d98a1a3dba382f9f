/** BLAKE2b (RFC 7693) without a key, for the digest of a submission, which finds accidents and not forgers. */

const MASK = (1n << 64n) - 1n;
const BLOCK = 128;
const START = [
  ...[0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n],
  ...[0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n],
];
const ORDER = [
  ...["0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d"],
  ...["2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"],
];
const COLUMNS = [0, 1, 2, 3].map((i) => [i, i + 4, i + 8, i + 12]);
const DIAGONALS = [0, 1, 2, 3].map((i) => [i, 4 + ((i + 1) % 4), 8 + ((i + 2) % 4), 12 + ((i + 3) % 4)]);

function turned(value: bigint, by: bigint): bigint {
  return (value >> by) | ((value << (64n - by)) & MASK);
}

function compress(state: bigint[], words: BigUint64Array, length: number, last: boolean): void {
  const v = [...state, ...START];
  v[12] = at(v, 12) ^ BigInt(length);
  if (last) v[14] = at(v, 14) ^ MASK;
  for (let round = 0; round < 12; round++) {
    const order = ORDER[round % 10] ?? "";
    [...COLUMNS, ...DIAGONALS].forEach(([a = 0, b = 0, c = 0, d = 0], i) => {
      for (const [half, [first, second]] of [[32n, 24n], [16n, 63n]].entries()) {
        const word = words[parseInt(order[2 * i + half] ?? "0", 16)] ?? 0n;
        v[a] = (at(v, a) + at(v, b) + word) & MASK;
        v[d] = turned(at(v, d) ^ at(v, a), first ?? 0n);
        v[c] = (at(v, c) + at(v, d)) & MASK;
        v[b] = turned(at(v, b) ^ at(v, c), second ?? 0n);
      }
    });
  }
  state.forEach((word, i) => (state[i] = word ^ at(v, i) ^ at(v, i + 8)));
}

function at(values: readonly bigint[], i: number): bigint {
  return values[i] ?? 0n;
}

/** The first `size` bytes, at most 64, of the digest that is made for this size. */
export function blake2b(content: Uint8Array, size: number): Uint8Array {
  const state = [...START];
  state[0] = at(state, 0) ^ 0x01010000n ^ BigInt(size);
  const blocks = Math.max(1, Math.ceil(content.length / BLOCK));
  for (let block = 0; block < blocks; block++) {
    const bytes = new Uint8Array(BLOCK);
    bytes.set(content.subarray(block * BLOCK, (block + 1) * BLOCK));
    const view = new DataView(bytes.buffer);
    const words = BigUint64Array.from({ length: 16 }, (_, i) => view.getBigUint64(8 * i, true));
    compress(state, words, Math.min((block + 1) * BLOCK, content.length), block === blocks - 1);
  }
  const made = new DataView(new ArrayBuffer(64));
  state.forEach((word, i) => { made.setBigUint64(8 * i, word, true); });
  return new Uint8Array(made.buffer, 0, size);
}
