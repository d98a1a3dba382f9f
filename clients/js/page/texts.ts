/** What the page says, in the reader's language; the texts are in files of their own. */

import { byId, make } from "./elements.js";

export type Values = Record<string, string | number>;

export class Texts {
  constructor(
    readonly language: string,
    private readonly texts: Record<string, string>,
  ) {}

  /** Fetch the texts of a language. */
  static async load(language: string): Promise<Texts> {
    const answer = await fetch(`take-part/take-part.${language}.json`);
    return new Texts(language, (await answer.json()) as Record<string, string>);
  }

  /** A text with its places filled in; numbers are written as the language writes them. */
  say(key: string, values: Values = {}): string {
    const text = this.texts[key];
    if (text === undefined) throw new Error(`there is no text ${key}`);
    return text.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = values[name];
      return typeof value === "number" ? this.number(value) : String(value);
    });
  }

  /** A number as the language writes it. */
  number(value: number): string {
    return new Intl.NumberFormat(this.language, { maximumSignificantDigits: 6 }).format(value);
  }

  /** A moment as the language writes it. */
  time(moment: Date): string {
    return new Intl.DateTimeFormat(this.language, { dateStyle: "long", timeStyle: "short" }).format(moment);
  }

  /** Write the texts that do not depend on the collection. */
  fill(): void {
    document.documentElement.lang = this.language;
    for (const place of document.querySelectorAll<HTMLElement>("[data-text]"))
      place.textContent = this.say(place.dataset["text"] ?? "");
    for (const place of document.querySelectorAll<HTMLElement>("[data-label]"))
      place.setAttribute("aria-label", this.say(place.dataset["label"] ?? ""));
  }
}

/** The language asked for in the link, else the first of the reader's that there are texts in, else English. */
export function chosenLanguage(known: string[], asked: string | null): string {
  const wanted = [asked ?? "", ...navigator.languages].map((one) => one.slice(0, 2).toLowerCase());
  return wanted.find((one) => known.includes(one)) ?? "en";
}

/** Buttons that change the language. */
export async function languageButtons(
  known: string[],
  current: string,
  choose: (language: string) => void,
): Promise<void> {
  const buttons = await Promise.all(
    known.map(async (language) => {
      const name = (await Texts.load(language)).say("languageName");
      const pressed = String(language === current);
      const button = make("button", { type: "button", class: "quiet", lang: language, "aria-pressed": pressed }, name);
      button.addEventListener("click", () => choose(language));
      return button;
    }),
  );
  const place = byId("languages");
  const held = place.contains(document.activeElement);
  place.replaceChildren(...buttons);
  if (held) buttons[known.indexOf(current)]?.focus(); // whoever came by keyboard goes on from here
}
