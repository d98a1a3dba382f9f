"""The status page: what everybody may know, and counts for an operator who enters the key.

The page asks nobody but its own server for anything, and a browser is told to see to that. The key is kept in the
page's memory alone and sent in a header, never in an address.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sfumato.version import __version__

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 58rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; } p { margin: .4rem 0; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .6rem; }
tr + tr { border-top: 1px solid #ddd; } th { font-weight: 600; color: #555; } code { font-size: .9em; }
a { color: #14507a; } input { font: inherit; width: 22rem; max-width: 100%; } button { font: inherit; }
#said { color: #a02020; }
@media (prefers-color-scheme: dark) { body { background: #16181b; color: #ddd; } a { color: #8cc4ee; }
th { color: #aaa; } tr + tr { border-color: #333; } #said { color: #ff9a8a; } }
"""
_SCRIPT = """
"use strict";
document.getElementById("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const said = document.getElementById("said"), place = document.getElementById("counts");
  said.textContent = ""; place.replaceChildren();
  const key = document.getElementById("key").value.trim();
  let answer;
  try { answer = await fetch("v1/counts", { headers: { authorization: "Bearer " + key }, cache: "no-store" }); }
  catch { said.textContent = "The server does not answer."; return; }
  const found = await answer.json();
  if (!answer.ok) { said.textContent = found.title; return; }
  const table = document.createElement("table");
  const row = (cells, kind) => {
    const line = table.insertRow();
    for (const text of cells) { const cell = document.createElement(kind); cell.textContent = text; line.append(cell); }
  };
  row(["collection", "group", "fact", "value"], "th");
  for (const group of found.groups)
    for (const [name, value] of Object.entries(group))
      if (!["role", "fingerprint", "group"].includes(name))
        row([group.fingerprint.slice(0, 8), group.group, name,
             typeof value === "object" ? JSON.stringify(value) : String(value)], "td");
  place.append(table);
});
"""


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def status_page(role: str, key: str, groups: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the page.

    Parameters
    ----------
    role : str
        The server's.
    key : str
        Its public key.
    groups : sequence of mappings
        What `Role.status` says of each group, and its document's `issuer`.

    Examples
    --------
    >>> b"<script src" in status_page("collector", "ab", [])
    False
    """
    rows = "".join(f"<tr>{_cells(group)}</tr>" for group in groups)
    people = '<p><a href="take-part">take part</a></p>' if role in ("collector", "shuffler") else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>sfumato {escape(role)}</title><style>{_STYLE}</style></head><body>
<h1>sfumato {escape(role)}</h1>
<p>Version {escape(__version__)}, key <code>{escape(key)}</code></p>
<h2>Collections</h2>
<table id="collections"><tr><th>collection<th>group<th>admits<th>stage<th>results</tr>{rows}</table>{people}
<p><a href="v1/log">public log</a> &middot; <a href="openapi.json">OpenAPI</a></p>
<h2>For the operator</h2>
<form id="ask"><label>Key (the content of <code>operator.key</code>)<br>
<input id="key" type="password" autocomplete="off"></label> <button>Show counts</button></form>
<p id="said" role="status"></p><div id="counts"></div>
<script>{_SCRIPT}</script></body></html>
""".encode()


def _cells(group: Mapping[str, Any]) -> str:
    name, number = escape(str(group["fingerprint"])), int(group["group"])
    base = f"v1/collections/{name}"
    results = "none yet"
    if group["released"]:
        results = f'<a href="{base}/{number}/release.sfm">release</a>, <a href="{base}/{number}/map.html">map</a>'
    admits = "anybody, any number of times" if group["issuer"] is None else "each invitation once"
    document = f'<a href="{base}/protocol"><code>{name[:8]}</code></a>'
    return f"<td>{document}<td>{number}<td>{admits}<td>{escape(_stage(group))}<td>{results}"


def _stage(group: Mapping[str, Any]) -> str:
    if "stage" in group:
        return str(group["stage"])
    if "open" in group:
        return "open" if group["open"] else "closed"
    return "published" if group["released"] else "waiting"
