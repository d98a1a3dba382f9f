/**
 * The page on which a person takes part.
 *
 * What it knows beside the collection comes in the part of the link after "#", which browsers send to nobody:
 * `organiser` (the key that must have signed), `invitation` and `lang`.
 */

import {
  BudgetError,
  IndexedDbAccount,
  RefusedError,
  Route,
  StorageError,
  UnreachableError,
  fetchProtocol,
  openProtocol,
  takePart,
  tookPart,
  type Receipt,
} from "../src/index.js";
import { Answer, type Collection } from "./answer.js";
import { byId, make, show } from "./elements.js";
import { askedIn, fetchNotice, type Asked } from "./notice.js";
import { writeParties, writePromise } from "./promise.js";
import { Texts, chosenLanguage, languageButtons } from "./texts.js";

/** Of the account, the sum of the epsilons of all collections of this server. */
const BUDGET = "8";
const RECEIPTS = "sfumato-receipt-";
const settings = document.body.dataset;
const languages = (settings["languages"] ?? "en").split(" ");
const link = new URLSearchParams(location.hash.slice(1));
const here = new Route(new URL(".", location.href).href.replace(/\/$/, ""));

interface Kept extends Receipt {
  time: string;
}

let texts: Texts;
let collection: Collection | null = null;
let answer: Answer | null = null;

/** Go through everything in a language; again when another one is chosen. */
async function start(language: string): Promise<void> {
  texts = await Texts.load(language);
  texts.fill();
  link.set("lang", language);
  history.replaceState(null, "", `#${link.toString()}`);
  await languageButtons(languages, language, (chosen) => void start(chosen).catch(fail));
  byId("title").textContent = document.title = texts.say("title");
  show("trouble", false);
  byId("progress").textContent = texts.say("loading");
  try {
    if (window.isSecureContext) await present((collection ??= await fetched()));
    else trouble("insecure");
  } finally {
    byId("progress").textContent = "";
    byId("main").setAttribute("aria-busy", "false");
  }
}

async function fetched(): Promise<Collection> {
  const signed = await fetchProtocol(here, link.get("organiser"));
  const protocol = await openProtocol(signed);
  const noticed = settings["notice"] ?? "";
  const notice = noticed === "" ? null : await fetchNotice(`take-part/${noticed}`, signed);
  const account = await IndexedDbAccount.open("sfumato", BUDGET);
  return { signed, protocol, notice, account };
}

async function present(found: Collection): Promise<void> {
  const asked = askedIn(found.notice, texts.language);
  if (asked !== null) byId("title").textContent = document.title = asked.title;
  const kept = keptReceipt(found.signed.fingerprint);
  if (kept !== null) done(kept);
  else if (await tookPart(found.account, found.signed.fingerprint)) waiting(found);
  else if (found.protocol.expired() || !(await isOpen(found))) trouble("closed");
  else if (found.signed.issuer !== null && settings["issuer"] === "") trouble("noIssuer");
  else ask(found, asked);
}

function ask(found: Collection, asked: Asked | null): void {
  writePromise(found.protocol, texts);
  writeParties(found.signed, asked?.organiser ?? "", link.has("organiser"), settings["role"] ?? "", texts);
  answer = new Answer(found, asked, link.get("invitation") ?? "", texts, answer);
  for (const part of ["asked", "promised", "answer"]) show(part);
}

async function isOpen({ signed, protocol }: Collection): Promise<boolean> {
  if (protocol.trust === "local") return true;
  const status = await fetch(`v1/collections/${signed.fingerprint}/0/status`);
  return ((await status.json()) as { open?: boolean }).open !== false;
}

async function send(): Promise<void> {
  if (collection === null || answer === null) return;
  const given = answer.checked();
  if (given === null) return;
  const button = byId("send") as HTMLButtonElement;
  button.disabled = true;
  byId("progress").textContent = texts.say("sending");
  try {
    await deliver(collection, given.point, given.label, given.invitation);
  } finally {
    button.disabled = false;
    byId("progress").textContent = "";
  }
}

/** Send an answer, or the one that is kept, until there is a receipt; the link then loses its invitation. */
async function deliver(
  found: Collection,
  point: number[],
  label: string | number | null,
  invitation: string,
): Promise<void> {
  const { signed, protocol, account } = found;
  const admission = signed.issuer === null ? {} : { issuer: new Route(settings["issuer"] ?? ""), invitation };
  const chosen = label === null ? {} : { label };
  const receipt = await takePart({ route: here, signed, protocol, account, point, ...chosen, ...admission });
  const kept = { ...receipt, time: new Date().toISOString() };
  localStorage.setItem(RECEIPTS + signed.fingerprint, JSON.stringify(kept));
  link.delete("invitation");
  history.replaceState(null, "", `#${link.toString()}`);
  done(kept);
  byId("done-title").focus();
}

function keptReceipt(fingerprint: string): Kept | null {
  const text = localStorage.getItem(RECEIPTS + fingerprint);
  return text === null ? null : (JSON.parse(text) as Kept);
}

function done(kept: Kept): void {
  for (const part of ["asked", "promised", "answer", "trouble"]) show(part, false);
  const rows: [string, Node | string][] = [
    ["receiptTime", texts.time(new Date(kept.time))],
    ["receiptDigest", make("code", {}, kept.digest)],
    ["receiptBytes", texts.say("bytes", { count: kept.bytes })],
    ["receiptCollection", make("code", {}, kept.fingerprint)],
  ];
  byId("receipt").replaceChildren(
    ...rows.flatMap(([name, value]) => [make("dt", {}, texts.say(name)), make("dd", {}, value)]),
  );
  show("done");
  void results(kept);
}

async function results({ fingerprint, group }: Kept): Promise<void> {
  const base = `v1/collections/${fingerprint}/${group}`;
  const status = (await (await fetch(`${base}/status`)).json()) as { released: boolean };
  const ready = make("a", { href: `${base}/map.html` }, texts.say("resultsReady"));
  byId("results").replaceChildren(status.released ? ready : texts.say("resultsLater"));
}

/** An answer that is not acknowledged is sent again as it is, to the group that it was made for. */
function waiting(found: Collection): void {
  trouble("held");
  offer("sendAgain", () => deliver(found, Array<number>(found.protocol.dimension).fill(0), null, ""));
}

/** Offer a way on below what went wrong. */
function offer(text: string, next: () => Promise<void>): void {
  const button = make("button", { type: "button" }, texts.say(text));
  button.addEventListener("click", () => void next().catch(fail));
  byId("trouble-help").replaceChildren(button);
}

function trouble(kind: string, said = ""): void {
  for (const part of ["asked", "promised", "answer"]) show(part, false);
  byId("trouble-help").replaceChildren();
  byId("trouble-title").textContent = texts.say(`${kind}Title`);
  byId("trouble-text").textContent = texts.say(`${kind}Text`);
  byId("trouble-said").textContent = said;
  show("trouble");
  byId("trouble-title").focus();
}

/** Say what went wrong: in the reader's language what it means, and the device's own words. */
function fail(problem: unknown): void {
  const said = problem instanceof Error ? problem.message : String(problem);
  if (problem instanceof StorageError) trouble("storage", said);
  else if (problem instanceof BudgetError) trouble("budget", said);
  else if (problem instanceof RefusedError) trouble("notTaken", said);
  else if (problem instanceof UnreachableError) {
    trouble("unreachable", said);
    offer("tryAgain", () => start(texts.language));
  } else trouble("refused", said);
}

byId("answer").addEventListener("submit", (event) => {
  event.preventDefault();
  void send().catch(fail);
});
void start(chosenLanguage(languages, link.get("lang"))).catch(fail);
