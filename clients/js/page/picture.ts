/**
 * What chance does to one's own answer, drawn on the device for its owner alone: nothing of it is ever sent.
 *
 * In the local model the picture is a map of one pattern: where one could be by one's true answer, and where by what
 * would be sent. In the shuffled model it is the bits of an answer before and after chance turned some of them over.
 */

import { Coins, type LocalProtocol, type Protocol, type ShuffledProtocol } from "../src/index.js";
import { byId, draw, make, show } from "./elements.js";
import type { Frame, Place } from "./frame.js";
import type { Texts } from "./texts.js";

const CELLS = 60;
const BITS_SHOWN = 120;
const BITS_EACH_LINE = 24;

/** The same coins again, so that a second preview looks at the same pattern; what comes after them does not matter. */
class SameCoins extends Coins {
  private at = 0;
  private readonly tape: Uint8Array[] = [];

  override take(count: number): Uint8Array {
    const known = this.tape[this.at];
    const made = known?.length === count ? known : super.take(count);
    this.tape[this.at++] = made;
    return made;
  }

  rewound(): this {
    this.at = 0;
    return this;
  }
}

/** Draw the picture for an answer, anew each time. */
export function drawPicture(protocol: Protocol, point: number[], frame: Frame | null, texts: Texts): void {
  if (protocol.trust === "shuffled") drawBits(protocol, point, texts);
  else if (frame !== null && pool(protocol).rows > 0) drawPatches(protocol, point as Place, frame, texts);
  else drawDigit(protocol, point, texts);
  // Where noise grows with the distance, or lies in messages of its own, there is no one share that stays.
  show("hundred-people", protocol.law.other > 0n && protocol.guarantee.within === "");
  drawHundred(protocol, texts);
}

function drawPatches(protocol: LocalProtocol, point: Place, frame: Frame, texts: Texts): void {
  const coins = new SameCoins();
  const own = protocol.preview(point, coins);
  const reach = Math.floor(protocol.law.likely / 2);
  const alike = (one: number, other: number): boolean => {
    const apart = Math.abs(one - other);
    return Math.min(apart, protocol.law.outcomes - apart) <= reach;
  };
  const lines = Math.round((CELLS * frame.height) / frame.width);
  const [wide, high] = [frame.width / CELLS, frame.height / lines];
  const square = `h${wide.toFixed(2)}v${high.toFixed(2)}h-${wide.toFixed(2)}z`;
  let [truth, sent] = ["", ""];
  for (let line = 0; line < lines; line++)
    for (let column = 0; column < CELLS; column++) {
      const place = frame.between((column + 0.5) / CELLS, 1 - (line + 0.5) / lines);
      const there = protocol.preview(place, coins.rewound()).truth;
      const cell = `M${(column * wide).toFixed(1)} ${(line * high).toFixed(1)}${square}`;
      if (alike(there, own.truth)) truth += cell;
      if (alike(there, own.reported)) sent += cell;
    }
  const goes = sent === "" ? "patchNowhere" : "patchGoes";
  const said = texts.say(alike(own.truth, own.reported) ? "patchStays" : goes);
  const sheet = frame.sheet({ class: "map still", role: "img", "aria-label": said });
  sheet.append(
    stripes(),
    draw("path", { class: "truth", d: truth }),
    draw("path", { class: "sent", d: sent }),
    frame.pin(point),
  );
  byId("picture-before").textContent = texts.say("patchBefore", pool(protocol));
  byId("drawing").replaceChildren(
    sheet,
    key(
      [
        ["truth", "patchTruth"],
        ["sent", "patchSent"],
        ["dot", "patchPlace"],
      ],
      texts,
    ),
  );
  byId("picture-after").textContent = said;
}

function key(rows: [string, string][], texts: Texts): HTMLElement {
  const sign = (name: string): SVGElement => {
    const shape =
      name === "dot"
        ? draw("circle", { class: name, cx: 10, cy: 10, r: 7 })
        : draw("rect", { class: name, width: 20, height: 20 });
    return draw("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, shape);
  };
  return make("ul", { class: "key" }, ...rows.map(([name, text]) => make("li", {}, sign(name), texts.say(text))));
}

/** Stripes, so that what would be sent can be told from the truth where both are, and without seeing colours. */
function stripes(): SVGElement {
  const lines = {
    id: "stripes",
    width: 10,
    height: 10,
    patternUnits: "userSpaceOnUse",
    patternTransform: "rotate(45)",
  };
  return draw("defs", {}, draw("pattern", lines, draw("rect", { class: "stripe", width: 5, height: 10 })));
}

function pool(protocol: LocalProtocol): { rows: number; each: number } {
  const mechanism = protocol.document["mechanism"] as Record<string, unknown>;
  const [groups, each] = [Number(mechanism["groups"] ?? 0), Number(mechanism["rows_each"] ?? 1)];
  return { rows: groups * each, each };
}

function drawDigit(protocol: LocalProtocol, point: number[], texts: Texts): void {
  const { row, truth, reported } = protocol.preview(point);
  byId("picture-before").textContent = texts.say("digitBefore", { outcomes: protocol.law.outcomes });
  byId("picture-after").textContent = texts.say("digitDrawn", {
    row: row + 1,
    truth: truth + 1,
    reported: reported + 1,
  });
}

function drawBits(protocol: ShuffledProtocol, point: number[], texts: Texts): void {
  const all = protocol.preview(point);
  const bits = all.slice(0, BITS_SHOWN);
  const turned = bits.filter((bit) => bit.truth !== bit.reported).length;
  const values = { count: all.length, shown: bits.length, turned, messages: protocol.messageCount };
  const coins = protocol.law.other > 0n; // else chance is in messages of its own, and no bit is turned over
  const said = texts.say(coins ? "bitsAfter" : "bitsTrue", values);
  const panels: Panel[] = [[texts.say("bitsTrue"), bits.map((bit) => (bit.truth ? "one" : "zero"))]];
  const sent = bits.map((bit) => `${bit.reported ? "one" : "zero"}${bit.truth === bit.reported ? "" : " turned"}`);
  if (coins) panels.push([texts.say("bitsSent"), sent]);
  byId("picture-before").textContent = texts.say(coins ? "bitsBefore" : "bitsAmong", values);
  byId("drawing").replaceChildren(squares(panels, said));
  byId("picture-after").textContent = coins ? said : "";
}

type Panel = [title: string, kinds: string[]];

function squares(panels: Panel[], said: string): SVGElement {
  const size = 600 / BITS_EACH_LINE;
  const [top, gap] = [26, 12];
  let y = 0;
  const shapes = panels.flatMap(([title, kinds]) => {
    const start = y + top;
    const made = kinds.map((kind, number) => {
      const [column, line] = [number % BITS_EACH_LINE, Math.floor(number / BITS_EACH_LINE)];
      const at = { x: column * size + 4, y: start + line * size + 4, width: size - 8, height: size - 8 };
      return draw("rect", { class: kind, ...at });
    });
    y = start + Math.ceil(kinds.length / BITS_EACH_LINE) * size + gap;
    return [draw("text", { x: 2, y: start - 7 }, title), ...made];
  });
  return draw("svg", { viewBox: `0 0 600 ${y}`, class: "figures", role: "img", "aria-label": said }, ...shapes);
}

function drawHundred(protocol: Protocol, texts: Texts): void {
  const { outcomes, likely, same, other } = protocol.law;
  const [inside, outside] = [likely * Number(same), (outcomes - likely) * Number(other)];
  const stays = Math.round((100 * inside) / (inside + outside));
  const local = likely > 1 ? "hundredNear" : "hundredText";
  const said = texts.say(protocol.trust === "shuffled" ? "hundredBits" : local, { stays, goes: 100 - stays });
  const figures = Array.from({ length: 100 }, (_, number) => {
    const [column, line] = [number % 20, Math.floor(number / 20)];
    return draw("circle", {
      class: number < stays ? "stays" : "goes",
      cx: 15 + 30 * column,
      cy: 15 + 30 * line,
      r: 10,
    });
  });
  const sheet = draw(
    "svg",
    { viewBox: "0 0 600 150", class: "figures", role: "img", "aria-labelledby": "hundred-text" },
    ...figures,
  );
  byId("hundred").replaceChildren(sheet);
  byId("hundred-text").textContent = said;
}
