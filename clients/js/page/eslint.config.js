// The rules of the device, for the page.
import tseslint from "typescript-eslint";

import device from "../eslint.config.js";

export default tseslint.config({ ignores: ["build.mjs", "eslint.config.js"] }, ...device.slice(1), {
  rules: { "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }] },
});
