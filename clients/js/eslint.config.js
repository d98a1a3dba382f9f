import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/", "node_modules/", "page/", "*.js", "*.mjs"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Numbers and bigints are written into messages all the time.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allow: [{ name: "bigint", from: "lib" }] }],
      // Texts are taken apart by code points, as Python does.
      "@typescript-eslint/no-misused-spread": "off",
      // A list that is read beyond its end is an error of this code: it must not pass silently as a default.
      "@typescript-eslint/no-non-null-assertion": "error",
    },
  },
);
