/** X25519 for browsers whose WebCrypto does not know it; loaded only there. */

import { DhkemX25519HkdfSha256 } from "@hpke/dhkem-x25519";

import type { Curve } from "./hpke.js";

export const pure: Curve = async (receiver) => {
  const kem = new DhkemX25519HkdfSha256();
  const recipientPublicKey = await kem.deserializePublicKey(receiver);
  return async (ephemeral) => {
    const { enc, sharedSecret } = await kem.encap({ recipientPublicKey, ...(ephemeral ? { ekm: ephemeral } : {}) });
    return { enclosed: new Uint8Array(enc), secret: new Uint8Array(sharedSecret) };
  };
};
