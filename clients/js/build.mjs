// `node build.mjs` makes the package in dist/; `--tests` makes the tests in dist/tests/, for Node and for a browser.
import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const MOST_GZIPPED = 40_000;
const common = { bundle: true, format: "esm", target: "es2022", sourcemap: false, logLevel: "warning" };

// The vectors that Python writes, as text: JSON of a bundler would lose digits of large integers.
const vectors = {
  name: "vectors",
  setup(made) {
    made.onResolve({ filter: /^vectors\// }, ({ path }) => ({ path, namespace: "vectors" }));
    made.onLoad({ filter: /.*/, namespace: "vectors" }, async ({ path }) => {
      const place = path.replace(/^vectors\//, "../../tests/");
      return { contents: await readFile(new URL(`${place}.json`, import.meta.url), "utf8"), loader: "text" };
    });
  },
};

if (process.argv.includes("--tests")) {
  const entries = { outdir: "dist/tests", outExtension: { ".js": ".mjs" }, plugins: [vectors] };
  await build({ ...common, ...entries, entryPoints: ["tests/node.test.ts"], platform: "node" });
  await build({ ...common, ...entries, entryPoints: ["tests/page.ts"], platform: "browser" });
} else {
  const small = { minify: true, legalComments: "eof" };
  await build({ ...common, ...small, entryPoints: { "sfumato-device": "src/index.ts" }, outdir: "dist", platform: "browser" });
  await build({ ...common, ...small, entryPoints: ["src/node.ts"], outdir: "dist", platform: "node" });
  const size = gzipSync(await readFile("dist/sfumato-device.js"), { level: 9 }).length;
  console.log(`dist/sfumato-device.js: ${size} bytes gzipped, dependencies included`);
  if (size > MOST_GZIPPED) throw new Error(`the bundle is larger than ${MOST_GZIPPED} bytes`);
}
