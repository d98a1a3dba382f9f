/** What is promised and by whom, in plain words, from the document whose promise the device has checked. */

import type { Protocol, SignedProtocol } from "../src/index.js";
import { byId, make } from "./elements.js";
import type { Texts } from "./texts.js";

/** Write the promises as a list, and the whole statement below it. */
export function writePromise(protocol: Protocol, texts: Texts): void {
  const ratio = Math.exp(quotient(protocol.epsilon));
  const values = { factor: upwards(ratio, 3), percent: Math.min(100, upwards(100 - 100 / (1 + ratio), 3)) };
  const { within } = protocol.guarantee;
  const lines: (Node | string)[][] = [];
  if (protocol.trust === "shuffled") {
    const crowds = groups(protocol).map((group) => Number(group["participants"]));
    lines.push([texts.say("promiseShuffled", { messages: protocol.messageCount })]);
    if (protocol.classes !== null) lines.push([texts.say(hidesClass(protocol) ? "promiseLabel" : "promiseLabelOpen")]);
    lines.push([texts.say("promiseCrowd", { participants: Math.min(...crowds) })]);
  } else lines.push([texts.say("promiseLocal")]);
  if (within === "") lines.push([texts.say("promiseFactor", values)]);
  else
    lines.push(
      [texts.say("promiseFactorNear", values)],
      [texts.say("promiseNear"), " ", make("span", { lang: "en" }, within)],
    );
  if (protocol.delta > 0) lines.push([texts.say("promiseDelta", { delta: String(protocol.delta) })]);
  lines.push([texts.say("promisePublished")], [texts.say("promiseOnce")]);
  byId("promises").replaceChildren(...lines.map((line) => make("li", {}, ...line)));
  byId("statement").textContent = protocol.statement();
}

/** Write who takes which part. */
export function writeParties(
  signed: SignedProtocol,
  organiser: string,
  pinned: boolean,
  role: string,
  texts: Texts,
): void {
  const key = make("code", {}, signed.key.replace(/(.{4})(?=.)/g, "$1 "));
  const checked = texts.say(pinned ? "organiserPinned" : "organiserOpen");
  const asked = [organiser === "" ? "" : `${organiser}: `, texts.say("organiserText"), " ", key, ". ", checked];
  const parties: [string, (Node | string)[]][] = [["organiser", asked]];
  parties.push([role, [texts.say(`${role}Text`)]]);
  if (role === "shuffler") parties.push(["analyzer", [texts.say("analyzerText")]]);
  if (signed.issuer !== null) parties.push(["issuer", [texts.say("issuerText")]]);
  byId("parties").replaceChildren(
    ...parties.flatMap(([name, text]) => [make("dt", {}, texts.say(name)), make("dd", {}, ...text)]),
  );
}

/** Whether one's class is randomised before it is said. */
function hidesClass(protocol: Protocol): boolean {
  return part(protocol, "mechanism")["label_epsilon"] !== null;
}

function part(protocol: Protocol, name: string): Record<string, unknown> {
  return protocol.document[name] as Record<string, unknown>;
}

function groups(protocol: Protocol): Record<string, unknown>[] {
  return part(protocol, "mechanism")["groups"] as Record<string, unknown>[];
}

/** The number that a fraction's text means; for reading only. */
function quotient(text: string): number {
  const [above, below] = text.split("/");
  return Number(above) / Number(below ?? 1);
}

/** A number with so many digits, never less than it is: a promise must not look better than it is. */
function upwards(value: number, digits: number): number {
  const unit = 10 ** (Math.floor(Math.log10(value)) + 1 - digits);
  return Number((Math.ceil(value / unit) * unit).toPrecision(digits));
}
