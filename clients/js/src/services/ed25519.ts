/** Signatures of organisers and servers: Ed25519 (RFC 8032), by WebCrypto where it has it. */

/** Whether a signature is this key's, of this content. */
export async function verified(key: Uint8Array, signature: Uint8Array, content: Uint8Array): Promise<boolean> {
  if (key.length !== 32 || signature.length !== 64) return false;
  let imported: CryptoKey;
  try {
    imported = await crypto.subtle.importKey("raw", Uint8Array.from(key), "Ed25519", false, ["verify"]);
  } catch {
    // The browser does not know the curve, or the key is none.
    const { verifiedHere } = await import("./ed25519_pure.js");
    return verifiedHere(key, signature, content);
  }
  return crypto.subtle.verify("Ed25519", imported, Uint8Array.from(signature), Uint8Array.from(content));
}
