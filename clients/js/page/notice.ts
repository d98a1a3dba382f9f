/** What the organiser asks, in people's words, signed with the key of the protocol. */

import { InputError, type SignedProtocol } from "../src/index.js";
import { unhex, utf8 } from "../src/public/bytes.js";
import { verified } from "../src/services/ed25519.js";

export interface Asked {
  title: string;
  question: string;
  organiser: string;
  columns: string[];
}

export interface Notice {
  texts: Record<string, Asked>;
  outline: [number, number][][];
}

const SIGNED_TEXT = "sfumato-notice-1\0";

/** Fetch a notice and refuse it unless the organiser signed it for this collection. */
export async function fetchNotice(address: string, signed: SignedProtocol): Promise<Notice> {
  const answer = (await (await fetch(address)).json()) as { content: string; key: string; signature: string };
  const content = utf8(SIGNED_TEXT + answer.content);
  if (answer.key !== signed.key || !(await verified(unhex(signed.key), unhex(answer.signature), content)))
    throw new InputError("the notice is not signed by the organiser of the protocol");
  const notice = JSON.parse(answer.content) as Notice & { fingerprint: string };
  if (notice.fingerprint !== signed.fingerprint) throw new InputError("the notice is another protocol's");
  return notice;
}

/** The texts of a language, else English, else the first there are. */
export function askedIn(notice: Notice | null, language: string): Asked | null {
  if (notice === null) return null;
  return notice.texts[language] ?? notice.texts["en"] ?? Object.values(notice.texts)[0] ?? null;
}
