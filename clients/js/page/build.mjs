// Bundles the page's script with the device into the Python package, which serves it; git ignores the result.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

await build({
  entryPoints: [at("main.ts")],
  outfile: at("../../../src/sfumato/services/assets/take-part.js"),
  bundle: true,
  format: "esm",
  target: "es2022",
  platform: "browser",
  minify: true,
  legalComments: "inline",
  charset: "utf8",
});
