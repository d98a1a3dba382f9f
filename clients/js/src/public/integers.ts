/** Whole numbers of any size. */

export function bitLength(value: bigint): number {
  return value === 0n ? 0 : (value < 0n ? -value : value).toString(2).length;
}

export function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient;
}

export function ceilDivide(a: bigint, b: bigint): bigint {
  return -floorDivide(-a, b);
}

export function gcd(a: bigint, b: bigint): bigint {
  [a, b] = [a < 0n ? -a : a, b < 0n ? -b : b];
  while (b) [a, b] = [b, a % b];
  return a;
}

/** Largest whole number whose square is not above the value. */
export function integerRoot(value: bigint): bigint {
  if (value < 2n) return value;
  let root = 1n << BigInt((bitLength(value) + 1) >> 1);
  for (;;) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

export function absolute(value: bigint): bigint {
  return value < 0n ? -value : value;
}

/** A binary64 number exactly, as numerator and denominator. */
export function exactDouble(value: number): [bigint, bigint] {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const bits = view.getBigUint64(0);
  const field = Number((bits >> 52n) & 0x7ffn);
  const digits = (bits & ((1n << 52n) - 1n)) | (field ? 1n << 52n : 0n);
  const exponent = BigInt(Math.max(field, 1) - 1075);
  const signed = bits >> 63n ? -digits : digits;
  return exponent >= 0n ? [signed << exponent, 1n] : [signed, 1n << -exponent];
}

/** Nearest whole number of a binary64 number, halves to the even one. */
export function roundEven(value: number): number {
  const floor = Math.floor(value);
  const part = value - floor;
  if (part !== 0.5) return part < 0.5 ? floor : floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}
