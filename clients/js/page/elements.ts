/** Elements of the page: found by their names, and made without any HTML in texts. */

const SVG = "http://www.w3.org/2000/svg";

/** The element with an id, which the page has. */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

/** The field with an id, which the page has. */
export function field(id: string): HTMLInputElement {
  return byId(id) as HTMLInputElement;
}

/** A new element with attributes and contents. */
export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Record<string, string> = {},
  ...contents: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...contents);
  return made;
}

/** A new part of a drawing. */
export function draw(
  name: string,
  attributes: Record<string, string | number> = {},
  ...contents: (Node | string)[]
): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...contents);
  return made;
}

/** Show or hide. */
export function show(id: string, shown = true): void {
  byId(id).hidden = !shown;
}
