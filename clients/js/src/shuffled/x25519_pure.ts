/** X25519 for browsers whose WebCrypto does not know it; loaded only there. */

export { DhkemX25519HkdfSha256 } from "@hpke/dhkem-x25519";
