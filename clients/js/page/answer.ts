/** The form: a place or numbers, perhaps a class and an invitation, and the picture of what chance makes of it. */

import type { Account, Protocol, SignedProtocol } from "../src/index.js";
import { byId, field, make, show } from "./elements.js";
import { Frame, type Place } from "./frame.js";
import type { Asked, Notice } from "./notice.js";
import { Numbers } from "./numbers.js";
import { drawPicture } from "./picture.js";
import { PlaceMap } from "./place.js";
import type { Texts } from "./texts.js";

const PATIENCE = 300; // milliseconds without a change, after which the picture is drawn

export interface Collection {
  signed: SignedProtocol;
  protocol: Protocol;
  notice: Notice | null;
  account: Account;
}

export interface Given {
  point: number[];
  label: string | number | null;
  invitation: string;
}

export class Answer {
  private readonly numbers: Numbers;
  private readonly map: PlaceMap | null;
  private readonly frame: Frame | null;
  private readonly names: string[];
  private drawing = 0;

  /** Fill the form; what was entered `before`, in another language, stays. */
  constructor(
    private readonly collection: Collection,
    private readonly asked: Asked | null,
    invitation: string,
    private readonly texts: Texts,
    before: Answer | null,
  ) {
    const { protocol, notice, signed } = collection;
    const [lower, upper] = [[...protocol.lower], [...protocol.upper]];
    const bounded = [...lower, ...upper].every(Number.isFinite);
    this.frame =
      protocol.dimension === 2 && bounded ? new Frame(lower as Place, upper as Place, notice?.outline ?? []) : null;
    this.names = asked?.columns ?? this.ownNames();
    this.numbers = new Numbers(byId("numbers"), this.names, lower, upper, texts, () => this.changed());
    this.map =
      this.frame &&
      new PlaceMap(byId("map"), this.frame, this.names, texts, (place) => {
        this.numbers.values = place;
        this.changed();
      });
    show("map", this.map !== null);
    this.say();
    this.offerClasses();
    show("invitation", signed.issuer !== null && invitation === "");
    if (invitation !== "") field("code").value = invitation;
    if (before !== null) this.numbers.values = before.numbers.values;
    byId("again").onclick = () => this.draw();
    this.changed();
  }

  private ownNames(): string[] {
    const { dimension } = this.collection.protocol;
    if (this.frame !== null) return [this.texts.say("columnX"), this.texts.say("columnY")];
    return Array.from({ length: dimension }, (_, column) => this.texts.say("column", { number: column + 1 }));
  }

  private say(): void {
    const { protocol } = this.collection;
    const { dimension, classes, expires } = protocol;
    const several = dimension === 1 ? "askedNumber" : "askedNumbers";
    const lines = [this.texts.say(this.frame === null ? several : "askedPlace", { count: dimension })];
    if (classes !== null) lines.push(this.texts.say("askedLabel", { count: classes.length }));
    if (expires !== null) lines.push(this.texts.say("askedUntil", { expires: this.texts.time(new Date(expires)) }));
    byId("question").textContent = this.asked?.question ?? "";
    byId("asked-what").textContent = lines.join(" ");
  }

  private offerClasses(): void {
    const classes = this.collection.protocol.classes ?? [];
    const place = byId("labels");
    const chosen = this.label;
    place.querySelectorAll("label").forEach((one) => one.remove());
    classes.forEach((name, index) => {
      const button = make("input", { type: "radio", name: "label", value: String(index) });
      button.checked = name === chosen;
      place.append(make("label", {}, button, String(name)));
    });
    show("labels", classes.length > 0);
  }

  private get label(): string | number | null {
    const chosen = document.querySelector<HTMLInputElement>("input[name=label]:checked");
    return chosen === null ? null : (this.collection.protocol.classes?.[Number(chosen.value)] ?? null);
  }

  private get complete(): boolean {
    return this.numbers.values.every(Number.isFinite);
  }

  private changed(): void {
    const values = this.numbers.values;
    byId("missing").textContent = "";
    this.map?.show(this.complete ? (values as Place) : null);
    window.clearTimeout(this.drawing);
    if (this.complete) this.drawing = window.setTimeout(() => this.draw(), PATIENCE);
    else show("picture", false);
  }

  private draw(): void {
    if (!this.complete) return;
    drawPicture(this.collection.protocol, this.numbers.values, this.frame, this.texts);
    show("picture");
  }

  /** The whole answer; null, and a word on what is missing, if it is not whole. */
  checked(): Given | null {
    const code = field("code");
    const { classes } = this.collection.protocol;
    const column = this.numbers.firstMissing();
    let missing = "";
    if (column !== null) missing = this.missingNumber(column);
    else if (classes !== null && this.label === null) missing = this.texts.say("missingLabel");
    else if (this.collection.signed.issuer !== null && code.value.trim() === "") {
      missing = this.texts.say("missingInvitation");
      code.focus();
    }
    byId("missing").textContent = missing;
    return missing === "" ? { point: this.numbers.values, label: this.label, invitation: code.value.trim() } : null;
  }

  private missingNumber(column: number): string {
    const none = this.numbers.values.every(Number.isNaN);
    if (this.frame !== null && none) return this.texts.say("missingPlace");
    return this.texts.say("missingNumber", { name: this.names[column] ?? "", range: this.numbers.range(column) });
  }
}
