/** A map to choose a place on: with a finger, a mouse, or the arrow keys. */

import { draw, make } from "./elements.js";
import type { Frame, Place } from "./frame.js";
import type { Texts } from "./texts.js";

const STEP = 0.01;
const LARGE_STEP = 0.1;
const MIDDLE: Place = [0.5, 0.5];
const MOVES: Record<string, Place> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export class PlaceMap {
  private readonly sheet: SVGElement;
  private readonly layer = draw("g");
  private readonly said: HTMLElement;
  private chosen: Place | null = null;

  /** Put a map into a container; `choose` is called with each place that is chosen on it. */
  constructor(
    container: HTMLElement,
    private readonly frame: Frame,
    private readonly names: string[],
    private readonly texts: Texts,
    private readonly choose: (place: Place) => void,
  ) {
    const label = texts.say("mapLabel");
    this.sheet = frame.sheet({ class: "map", id: "sheet", tabindex: "0", role: "application", "aria-label": label });
    this.sheet.setAttribute("aria-describedby", "map-said");
    this.sheet.append(...this.edges(), this.layer);
    this.said = make("p", { id: "map-said", "aria-live": "polite" }, texts.say("mapNone"));
    container.replaceChildren(make("p", { class: "soft" }, texts.say("mapHelp")), this.sheet, this.said);
    this.sheet.addEventListener("click", (event) => this.point(event)); // a finger that drags scrolls the page
    this.sheet.addEventListener("keydown", (event) => this.key(event));
  }

  /** Show a place, or none, that was chosen elsewhere. */
  show(place: Place | null): void {
    this.chosen = place;
    this.layer.replaceChildren(...(place ? [this.frame.pin(place)] : []));
    const shown = place?.map((value, column) => `${this.names[column]} ${this.texts.number(value)}`).join(", ");
    this.said.textContent = shown === undefined ? this.texts.say("mapNone") : this.texts.say("mapAt", { place: shown });
  }

  private edges(): SVGElement[] {
    const { width, height, lower, upper } = this.frame;
    const number = (value: number): string => this.texts.number(value);
    const text = (x: number, y: number, anchor: string, content: string): SVGElement =>
      draw("text", { x, y, "text-anchor": anchor, "aria-hidden": "true" }, content);
    return [
      text(8, height - 8, "start", number(lower[0])),
      text(width / 2, height - 8, "middle", `${this.names[0]} →`),
      text(width - 8, height - 8, "end", number(upper[0])),
      text(8, height - 34, "start", number(lower[1])),
      text(8, height / 2, "start", `↑ ${this.names[1]}`),
      text(8, 24, "start", number(upper[1])),
    ];
  }

  private point(event: MouseEvent): void {
    const box = this.sheet.getBoundingClientRect();
    this.choose(this.frame.place((event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height));
  }

  private key(event: KeyboardEvent): void {
    const move = MOVES[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const step = event.shiftKey ? LARGE_STEP : STEP;
    const { width, height } = this.frame;
    const [x, y] = this.chosen === null ? MIDDLE : this.shares(this.frame.at(this.chosen), width, height);
    const moved: Place = this.chosen === null ? MIDDLE : [x + move[0] * step, y + move[1] * step];
    this.choose(this.frame.place(...moved));
  }

  private shares([x, y]: Place, width: number, height: number): Place {
    return [x / width, 1 - y / height];
  }
}
