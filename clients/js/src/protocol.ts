/** A protocol of either model, with its whole promise checked. */

import type { Limits } from "./limits.js";
import { LocalProtocol } from "./local/protocol.js";
import { checkDocument } from "./public/document.js";
import type { JsonObject } from "./public/json.js";
import type { SignedProtocol } from "./services/signing.js";
import { ShuffledProtocol } from "./shuffled/protocol.js";

export type Protocol = LocalProtocol | ShuffledProtocol;

/** Check the whole promise of a document, and the owner's limits; throw an `InputError` if anything is wrong. */
export async function openProtocol(from: SignedProtocol | JsonObject, limits: Limits = {}): Promise<Protocol> {
  const document = isSigned(from) ? from.document : from;
  checkDocument(document);
  if (document["model"] === "local") return new LocalProtocol(document, limits);
  return ShuffledProtocol.open(document, limits);
}

function isSigned(from: SignedProtocol | JsonObject): from is SignedProtocol {
  return "signature" in from && "document" in from;
}
