import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/", "node_modules/", "page/"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["*.js", "*.mjs"] } } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allow: [{ name: "bigint", from: "lib" }] }],
    },
  },
);
