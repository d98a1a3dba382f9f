/** What travels: paths, frames and receipts, and patience with servers; docs/wire.md. */

import { InputError, RefusedError, SfumatoError, UnreachableError } from "../errors.js";
import { concat, littleEndian } from "../public/bytes.js";
import { isObject, parse } from "../public/json.js";
import { LARGEST } from "./signing.js";

export const ROOT = "/v1";
const FRAMES = "application/vnd.sfumato.frames";
const FATES = ["held", "length", "foreign", "range", "conflict", "token", "spent", "closed"];
const MOST_TRIES = 8;
const SECONDS = 30;
const FIRST_WAIT = 0.5;
const LONGEST_WAIT = 60;
const AGAIN = [408, 425, 429, 500, 502, 503, 504, 507];
const MOST_PROBLEM = 10_000;
const FIRST_BYTES = 1 << 16;

/** A body of frames: of each the length, 4 bytes, and the content. */
export function framed(...contents: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return concat(...contents.flatMap((content) => [littleEndian(content.length, 4), content]));
}

/** The names of the fates that a receipt holds. */
export function readReceipt(body: Uint8Array, frames: number): string[] {
  const fates = Array.from(body, (byte) => FATES[byte]);
  if (fates.some((fate) => fate === undefined)) {
    throw new SfumatoError("the server's answer is no receipt; update sfumato");
  }
  if (fates.length !== frames) {
    throw new SfumatoError(`the server's receipt is about ${fates.length} frames, and ${frames} were sent`);
  }
  return fates.map(String);
}

export interface RouteOptions {
  /** How often to ask at most. */
  tries?: number;
  /** In place of the browser's or Node's. */
  fetch?: typeof fetch;
  /** In place of a timer; gets seconds. */
  sleep?: (seconds: number) => Promise<void>;
}

/** The way to a server. */
export class Route {
  readonly address: string;
  private readonly tries: number;
  private readonly fetch: typeof fetch;
  private readonly sleep: (seconds: number) => Promise<void>;

  constructor(address: string, options: RouteOptions = {}) {
    if (!/^https?:\/\/[^/?#\s]+(\/[^?#\s]*)?$/.test(address)) {
      throw new InputError(`'${address}' is no address such as https://collector.example:8443`);
    }
    this.address = address.replace(/\/+$/, "");
    this.tries = options.tries ?? MOST_TRIES;
    this.fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.sleep = options.sleep ?? ((seconds) => new Promise((done) => setTimeout(done, 1000 * seconds)));
  }

  /** Ask until there is an answer; throw a `RefusedError` if it is no, an `UnreachableError` after the last try. */
  async ask(where: string, frames?: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
    let [wait, said] = [FIRST_WAIT, ""];
    for (let number = 1; ; number++) {
      let again = 0;
      try {
        const answer = await this.once(where, frames);
        if (answer.status < 300) return answer.content;
        const problem = told(answer.status, answer.content);
        said = problem.said;
        if (!AGAIN.includes(answer.status)) {
          throw new RefusedError(`${this.address} refused: ${said.slice(0, 300)}`, problem.code);
        }
        again = answer.again;
      } catch (problem) {
        if (problem instanceof RefusedError) throw problem;
        said = String(problem);
      }
      if (number >= this.tries) break;
      await this.sleep(Math.max(wait * (0.5 + 0.5 * fraction()), again));
      wait = Math.min(2 * wait, LONGEST_WAIT);
    }
    throw new UnreachableError(
      `${this.address} did not take it (${said.slice(0, 300)}); nothing is lost: send it again later`,
    );
  }

  private async once(where: string, frames?: Uint8Array<ArrayBuffer>): Promise<{ status: number; again: number; content: Uint8Array }> {
    const answer = await this.fetch(this.address + where, {
      ...(frames ? { method: "POST", body: frames, headers: { "content-type": FRAMES } } : { method: "GET" }),
      signal: AbortSignal.timeout(1000 * SECONDS),
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
    const content = await contentOf(answer);
    const again = answer.headers.get("retry-after") ?? "";
    return { status: answer.status, again: /^[0-9]+$/.test(again) ? Math.min(Number(again), LONGEST_WAIT) : 0, content };
  }
}

/** What an answer holds, read no further than the largest that there can be. */
async function contentOf(answer: Response): Promise<Uint8Array> {
  const reader = answer.body?.getReader();
  let [content, size] = [new Uint8Array(reader ? FIRST_BYTES : 0), 0];
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    if (size + value.length > LARGEST) {
      await reader.cancel();
      throw new Error("the answer is too long");
    }
    if (size + value.length > content.length) {
      const longer = new Uint8Array(Math.max(2 * content.length, size + value.length));
      longer.set(content);
      content = longer;
    }
    content.set(value, size);
    size += value.length;
  }
  return content.slice(0, size);
}

/** A number from 0 to 1 that spreads the tries of many devices. */
function fraction(): number {
  return (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) / 2 ** 32;
}

function told(status: number, content: Uint8Array): { code: string; said: string } {
  try {
    const problem = parse(content, "the answer", MOST_PROBLEM);
    if (isObject(problem) && typeof problem["code"] === "string" && typeof problem["title"] === "string") {
      const detail = typeof problem["detail"] === "string" ? problem["detail"] : "";
      return { code: problem["code"], said: `${problem["code"]}: ${problem["title"]} ${detail}`.trim() };
    }
  } catch (unread) {
    if (!(unread instanceof SfumatoError)) throw unread;
  }
  return { code: "", said: `status ${status}` };
}
