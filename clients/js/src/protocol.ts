/** A protocol of either model, with its whole promise checked. */

import type { Limits } from "./limits.js";
import type { LocalProtocol } from "./local/protocol.js";
import { checkDocument } from "./public/document.js";
import type { JsonObject } from "./public/json.js";
import type { SignedProtocol } from "./services/signing.js";
import type { ShuffledProtocol } from "./shuffled/protocol.js";

export type Protocol = LocalProtocol | ShuffledProtocol;

/** Check the whole promise of a document, and the owner's limits; throw an `InputError` if anything is wrong. */
export async function openProtocol(from: SignedProtocol | JsonObject, limits: Limits = {}): Promise<Protocol> {
  const document = isSigned(from) ? from.document : from;
  checkDocument(document);
  // Each model is a part of the package that is loaded when it is needed.
  if (document["model"] === "local") {
    const { LocalProtocol } = await import("./local/protocol.js");
    return new LocalProtocol(document, limits);
  }
  const { ShuffledProtocol } = await import("./shuffled/protocol.js");
  return ShuffledProtocol.open(document, limits);
}

function isSigned(from: SignedProtocol | JsonObject): from is SignedProtocol {
  return "signature" in from && "document" in from;
}
