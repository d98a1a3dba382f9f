/**
 * Many reports of made-up points, for `benchmarks/device_js.py`: node figures.mjs DOCUMENT POINTS COUNT OUT.
 *
 * POINTS are little-endian doubles, one row a participant; OUT gets frames: of each report the length, 4 bytes, and the
 * content. Prints milliseconds a report, by the clock and of the processor.
 */

import { readFileSync, writeFileSync } from "node:fs";

import { openProtocol } from "../src/protocol.js";
import { parse, type JsonObject } from "../src/public/json.js";
import { framed } from "../src/services/wire.js";

const [documentPath = "", pointsPath = "", count = "0", out = ""] = process.argv.slice(2);
const start = performance.now();
const protocol = await openProtocol(parse(readFileSync(documentPath)) as JsonObject, { maxEpsilon: "16", maxDelta: "1e-3" });
const opened = performance.now() - start;
const bytes = readFileSync(pointsPath);
const numbers = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
const made: Uint8Array[] = [];
const [begin, used] = [performance.now(), process.cpuUsage()];
for (let i = 0; i < Number(count); i++) {
  const point = [...numbers.subarray(i * protocol.dimension, (i + 1) * protocol.dimension)];
  made.push(protocol.trust === "local" ? protocol.report(point) : await protocol.sealed(point));
}
const each = (performance.now() - begin) / Number(count);
const { user, system } = process.cpuUsage(used);
const processor = (user + system) / 1000 / Number(count);
writeFileSync(out, framed(...made));
console.log(JSON.stringify({ opened: Math.round(opened), each: Number(each.toPrecision(3)), processor: Number(processor.toPrecision(3)) }));
