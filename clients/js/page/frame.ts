/** The public box of a collection as a sheet to draw on: bounds, grid and outline, the second column upwards. */

import { draw } from "./elements.js";

const WIDTH = 600;
const LEAST_HEIGHT = 260;
const MOST_HEIGHT = 780;
const GRID = [0.25, 0.5, 0.75];

export type Place = [number, number];

export class Frame {
  readonly width = WIDTH;
  readonly height: number;

  constructor(
    readonly lower: Place,
    readonly upper: Place,
    private readonly outline: Place[][],
  ) {
    const ratio = (upper[1] - lower[1]) / (upper[0] - lower[0]);
    this.height = Math.min(Math.max(WIDTH * ratio, LEAST_HEIGHT), MOST_HEIGHT);
  }

  /** Where a place is on the sheet. */
  at([x, y]: Place): Place {
    const across = (x - this.lower[0]) / (this.upper[0] - this.lower[0]);
    const up = (y - this.lower[1]) / (this.upper[1] - this.lower[1]);
    return [across * this.width, (1 - up) * this.height];
  }

  /** The place at shares of the sheet, as it is. */
  between(across: number, up: number): Place {
    const [low, high] = [this.lower, this.upper];
    return [low[0] + across * (high[0] - low[0]), low[1] + up * (high[1] - low[1])];
  }

  /** The place at shares of the sheet, from its left and its lower edge, kept within the bounds and rounded. */
  place(across: number, up: number): Place {
    return [this.column(0, across), this.column(1, up)];
  }

  private column(index: 0 | 1, share: number): number {
    const [low, high] = [this.lower[index], this.upper[index]];
    const digits = Math.max(0, 3 - Math.floor(Math.log10(high - low)));
    const value = Number((low + Math.min(Math.max(share, 0), 1) * (high - low)).toFixed(Math.min(digits, 20)));
    return Math.min(Math.max(value, low), high);
  }

  /** A new sheet: outline and grid, nothing on it yet. */
  sheet(attributes: Record<string, string>): SVGElement {
    const { width, height } = this;
    const made = draw("svg", { viewBox: `0 0 ${width} ${height}`, ...attributes });
    if (this.outline.length > 0) made.append(draw("path", { class: "land", d: this.rings(), "fill-rule": "evenodd" }));
    else made.append(draw("rect", { class: "land", x: 1, y: 1, width: width - 2, height: height - 2 }));
    for (const share of GRID) {
      made.append(draw("line", { class: "grid", x1: share * width, x2: share * width, y1: 0, y2: height }));
      made.append(draw("line", { class: "grid", x1: 0, x2: width, y1: share * height, y2: share * height }));
    }
    return made;
  }

  private rings(): string {
    const points = (ring: Place[]): string =>
      ring
        .map((one) =>
          this.at(one)
            .map((value) => value.toFixed(1))
            .join(" "),
        )
        .join("L");
    return this.outline.map((ring) => `M${points(ring)}Z`).join("");
  }

  /** A pin at a place: a dot with cross hairs, none of which colour alone must tell. */
  pin(place: Place): SVGElement {
    const [x, y] = this.at(place);
    const cross = `M${x - 22} ${y}h14M${x + 8} ${y}h14M${x} ${y - 22}v14M${x} ${y + 8}v14`;
    return draw(
      "g",
      {},
      draw("path", { class: "halo", d: cross }),
      draw("path", { class: "pin", d: cross }),
      draw("circle", { class: "dot", cx: x, cy: y, r: 6 }),
    );
  }
}
