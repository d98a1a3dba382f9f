// `node build.mjs` makes the package in dist/; `--tests` makes the tests in dist/tests/, for Node and for a browser.
import { readdir, readFile, rm } from "node:fs/promises";
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
} else if (process.argv.includes("--figures")) {
  await build({ ...common, entryPoints: ["tests/figures.ts"], outfile: "dist/figures.mjs", platform: "node" });
} else {
  for (const name of await readdir("dist").catch(() => [])) if (/\.(js|txt)$/.test(name)) await rm(`dist/${name}`);
  const small = { minify: true, legalComments: "linked", splitting: true, metafile: true, chunkNames: "part-[hash]" };
  const entryPoints = { "sfumato-device": "src/index.ts", node: "src/node.ts" };
  // Built by itself: it shares code with HPKE that only it needs.
  await build({ ...common, ...small, entryPoints: ["src/shuffled/x25519_pure.ts"], outdir: "dist", platform: "browser" });
  const external = ["node:*", "./x25519_pure.js"];
  const made = await build({ ...common, ...small, entryPoints, external, outdir: "dist", platform: "browser" });
  for (const model of ["local", "shuffled"]) {
    const size = await loaded(made.metafile.outputs, model);
    console.log(`a ${model} collection loads ${size} bytes gzipped, dependencies included`);
    if (size > MOST_GZIPPED) throw new Error(`that is more than ${MOST_GZIPPED} bytes`);
  }
}

// What a browser that knows X25519 loads to take part: the entry, what it imports, and the part of the model.
async function loaded(outputs, model) {
  const holds = (name) => Object.keys(outputs[name].inputs).includes(`src/${model}/protocol.ts`);
  const files = new Set(["dist/sfumato-device.js", ...Object.keys(outputs).filter(holds)]);
  for (const name of files) {
    for (const { path, kind } of outputs[name].imports) if (kind === "import-statement") files.add(path);
  }
  const sizes = await Promise.all([...files].map(async (name) => gzipSync(await readFile(name), { level: 9 }).length));
  return sizes.reduce((sum, size) => sum + size, 0);
}
