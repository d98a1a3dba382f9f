/** The same in Node, with an account in a file. */

export { FileAccount } from "./account/file.js";
export * from "./index.js";
