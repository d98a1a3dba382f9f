"""What a person does with the page in a real browser, and what a careful look at it finds."""

from __future__ import annotations

from pathlib import Path

from tests.maps.browser import Page
from tests.services.conftest import until

# Texts whose colour has less than 4.5 times the luminance of what is behind them, or the other way round (WCAG 1.4.3).
_PALE = """(() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const bad = [];
  for (const one of document.querySelectorAll("body *:not(script):not(noscript)")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !one.getClientRects().length) continue;
    const style = getComputedStyle(one);
    const [ink, paper] = one.ownerSVGElement ? [style.fill, one.ownerSVGElement] : [style.color, one];
    const [dark, bright] = [light(ink), light(behind(paper))].sort((a, b) => a - b);
    if ((bright + 0.05) / (dark + 0.05) < 4.5) bad.push(one.textContent.slice(0, 40));
  }
  return bad;
})()"""
# Controls and drawings that have no name for screen readers and are not hidden from them.
_NAMELESS = """(() => [...document.querySelectorAll("button, input, svg, section, form")].filter((one) => {
  if (!one.getClientRects().length || one.getAttribute("aria-hidden") === "true") return false;
  const named = one.getAttribute("aria-labelledby");
  const text = named ? document.getElementById(named)?.textContent : one.getAttribute("aria-label");
  return !(text || (one.tagName !== "svg" && one.textContent.trim()) || (one.labels && one.labels.length));
}).map((one) => one.outerHTML.slice(0, 80)))()"""
_BOX = """(() => { const box = document.getElementById('sheet').getBoundingClientRect();
  return [box.left, box.top, box.width, box.height]; })()"""


class Person:
    """Somebody at a screen of so many pixels across; `shots` is where pictures of it go."""

    def __init__(self, tab: Page, shots: Path, width: int) -> None:
        self.tab, self._shots, self._width = tab, shots, width
        self._resize(800)

    def _resize(self, height: int) -> None:
        size = {"width": self._width, "height": height, "deviceScaleFactor": 1, "mobile": self._width < 500}
        self.tab.call("Emulation.setDeviceMetricsOverride", **size)

    def visit(self, address: str) -> None:
        """Follow a link; a new page even if only the part after # differs."""
        self.tab.visit("about:blank")
        self.tab.visit(address)

    def says(self, name: str) -> str:
        """Return what a part of the page says."""
        return str(self.tab.run(f"document.getElementById('{name}').textContent"))

    def sees(self, name: str) -> bool:
        """Whether a part of the page is shown."""
        return bool(self.tab.run(f"Boolean(document.getElementById('{name}')?.getClientRects().length)"))

    def waits_for(self, name: str) -> None:
        """Wait for a part of the page; whatever trouble it has instead is what the test says."""
        until(lambda: self.sees(name) or self.sees("trouble"))
        assert self.sees(name), self.says("trouble") + str(self.tab.problems)

    def clicks(self, selector: str) -> None:
        """Press a button."""
        self.tab.run(f"document.querySelector('{selector}').click()")

    def tabs_to(self, selector: str) -> None:
        """Go from one control to the next by keyboard, to one; each must show that it has the focus."""
        for _ in range(40):
            self.tab.press("Tab")
            style = "getComputedStyle(document.activeElement)"
            assert self.tab.run(f"{style}.outlineStyle !== 'none' && parseFloat({style}.outlineWidth) > 0")
            if self.tab.run(f"document.activeElement.matches('{selector}')"):
                return
        raise AssertionError(f"the keyboard does not reach {selector}")

    def taps(self, across: float, up: float) -> None:
        """Tap the map, at shares of it."""
        self.tab.run("document.getElementById('sheet').scrollIntoView({block: 'center'})")
        self.tab.settle()
        left, top, width, height = self.tab.run(_BOX)
        for kind in ("mousePressed", "mouseReleased"):
            where = left + across * width, top + (1 - up) * height
            self.tab.mouse(kind, *where, button="left", buttons=1, clickCount=1)

    def numbers(self) -> list[float]:
        """Return the numbers that the fields hold."""
        fields = self.tab.run("[...document.querySelectorAll('#numbers input')].map((one) => one.value)")
        return [float(value) for value in fields]

    def enters(self, column: int, value: str) -> None:
        """Type a number."""
        field = f"document.getElementById('column-{column}')"
        self.tab.run(f"{field}.value = '{value}'; {field}.dispatchEvent(new Event('input'))")

    def photographs(self, name: str) -> None:
        """Keep a picture of the whole page."""
        self._resize(self.tab.run("document.documentElement.scrollHeight"))
        self.tab.settle()
        self.tab.screenshot(self._shots / f"{name}.png")
        self._resize(800)

    def can_use_it(self) -> None:
        """Assert that nothing sticks out, is too pale to read, or has no name for a screen reader."""
        assert self.tab.run("document.documentElement.scrollWidth") <= self._width
        assert (self.tab.run(_PALE), self.tab.run(_NAMELESS)) == ([], [])

    def asked_only(self, *addresses: str) -> None:
        """Assert that the browser asked these servers and nobody else, and complained of nothing."""
        asked = {"/".join(one.split("/")[:3]) for one in self.tab.requests if one != "about:blank"}
        assert asked == set(addresses)
        assert self.tab.problems == []
