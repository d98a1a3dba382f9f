/** One field for each number of an answer. */

import { make } from "./elements.js";
import type { Texts } from "./texts.js";

export class Numbers {
  private readonly fields: HTMLInputElement[];

  /** Put fields into a container; `changed` is called with every change. */
  constructor(
    container: HTMLElement,
    names: string[],
    private readonly lower: number[],
    private readonly upper: number[],
    private readonly texts: Texts,
    changed: () => void,
  ) {
    this.fields = names.map((_, column) =>
      make("input", { id: `column-${column}`, type: "text", inputmode: "decimal" }),
    );
    const rows = this.fields.map((field, column) => {
      const hint = make("span", { class: "small", id: `range-${column}` }, this.range(column));
      field.setAttribute("autocomplete", "off");
      field.setAttribute("aria-describedby", `range-${column}`);
      field.addEventListener("input", () => {
        field.removeAttribute("aria-invalid");
        changed();
      });
      const label = make("label", { for: `column-${column}` }, names[column] ?? "");
      return make("div", {}, label, " ", hint, field);
    });
    container.replaceChildren(...rows);
  }

  /** The range of a column in words. */
  range(column: number): string {
    const [low, high] = [this.lower[column] ?? -Infinity, this.upper[column] ?? Infinity];
    return Number.isFinite(high - low) ? this.texts.say("range", { low, high }) : this.texts.say("rangeOpen");
  }

  private within(column: number, value: number): boolean {
    return Number.isFinite(value) && value >= (this.lower[column] ?? value) && value <= (this.upper[column] ?? value);
  }

  /** The numbers, NaN where there is none; a comma is a decimal point. */
  get values(): number[] {
    return this.fields.map((field) => {
      const text = field.value.trim().replace(",", ".");
      return text === "" ? NaN : Number(text);
    });
  }

  set values(numbers: number[]) {
    this.fields.forEach((field, column) => {
      const value = numbers[column] ?? NaN;
      field.value = Number.isFinite(value) ? String(value) : "";
      field.removeAttribute("aria-invalid");
    });
  }

  /** Mark the fields that hold no number within the bounds, and go to the first; null if all do. */
  firstMissing(): number | null {
    const bad = this.values.map((value, column) => !this.within(column, value));
    this.fields.forEach((field, column) => field.setAttribute("aria-invalid", String(bad[column])));
    const first = bad.indexOf(true);
    if (first < 0) return null;
    this.fields[first]?.focus();
    return first;
  }
}
