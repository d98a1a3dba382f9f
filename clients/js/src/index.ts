/** The device of a sfumato collection; README.md says what each name does. */

export type { Account } from "./account/account.js";
export { IndexedDbAccount } from "./account/indexeddb.js";
export * from "./errors.js";
export type { Limits } from "./limits.js";
export type { AnswerLaw } from "./local/device.js";
export type { LocalProtocol } from "./local/protocol.js";
export { openProtocol, type Protocol } from "./protocol.js";
export { Coins } from "./public/coins.js";
export type { Json, JsonObject } from "./public/json.js";
export { readSigned, type SignedProtocol } from "./services/signing.js";
export { fetchProtocol, takePart, tookPart, type Receipt, type TakingPart } from "./services/taking_part.js";
export { Route, type RouteOptions } from "./services/wire.js";
export type { ShuffledProtocol } from "./shuffled/protocol.js";
