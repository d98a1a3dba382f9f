/** Bytes in and out of texts and numbers. */

export function concat(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

export function hex(content: Uint8Array): string {
  let text = "";
  for (const byte of content) text += byte.toString(16).padStart(2, "0");
  return text;
}

/** Bytes of an even number of hexadecimal digits; the caller has checked that they are. */
export function unhex(text: string): Uint8Array<ArrayBuffer> {
  const content = new Uint8Array(text.length / 2);
  for (let i = 0; i < content.length; i++) content[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return content;
}

export function littleEndian(value: bigint | number, size: number): Uint8Array<ArrayBuffer> {
  const content = new Uint8Array(size);
  let left = BigInt(value);
  for (let i = 0; i < size; i++, left >>= 8n) content[i] = Number(left & 255n);
  return content;
}

export function bigEndian(value: bigint | number, size: number): Uint8Array<ArrayBuffer> {
  return littleEndian(value, size).reverse();
}

export function fromLittleEndian(content: Uint8Array): bigint {
  return fromBigEndian(Uint8Array.from(content).reverse());
}

export function fromBigEndian(content: Uint8Array): bigint {
  return content.length ? BigInt(`0x${hex(content)}`) : 0n;
}

/** 32-bit little-endian words. */
export function words32(content: Uint8Array): number[] {
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  return Array.from({ length: content.length >> 2 }, (_, i) => view.getUint32(4 * i, true));
}

/** 64-bit little-endian words. */
export function words64(content: Uint8Array): bigint[] {
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  return Array.from({ length: content.length >> 3 }, (_, i) => view.getBigUint64(8 * i, true));
}

/** A digest of the SHA-512 family, by WebCrypto. */
export async function digest(name: "SHA-384" | "SHA-512", content: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest(name, content));
}
