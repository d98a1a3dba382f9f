"""The site is built strictly and offline, asks no other host for anything, and its start page and search work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.maps.browser import browser, chromium

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?(https?:)?//", re.IGNORECASE)
IMAGE = re.compile(r"<img\b[^>]*>")
SEARCHED = """
new Promise((done) => {
  const box = document.querySelector('[data-md-component="search-query"]');
  const look = () => {
    const found = [...document.querySelectorAll(".md-search-result__link")].map((link) => link.href);
    found.length ? done(found) : requestAnimationFrame(look);
  };
  document.querySelector("#__search").checked = true;
  box.focus();
  box.value = "bandwidth";
  box.dispatchEvent(new Event("input", { bubbles: true }));
  box.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true, key: "h" }));
  look();
})
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; notebooks run while it is built, and a cell that raises fails it."""
    folder = tmp_path_factory.mktemp("site")
    places = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places)), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


def test_every_page_is_there_and_asks_no_other_host(site: Path) -> None:
    docs = ROOT / "docs"
    for source in (path.relative_to(docs) for kind in ("md", "ipynb") for path in docs.rglob(f"*.{kind}")):
        name = "index" if source.stem == "README" else source.stem
        text = (site / source.with_name(f"{name}.html")).read_text(encoding="utf-8")
        assert not FETCHED.search(text), source
        assert "fonts.g" not in text
    assert not [path for path in site.rglob("*.css") if re.search(r"url\(\"?https?:", path.read_text(encoding="utf-8"))]


def test_pictures_have_words_for_those_who_cannot_see_them(site: Path) -> None:
    pages = [path for path in site.rglob("*.html") if path.name != "404.html"]
    images = [image for path in pages for image in IMAGE.findall(path.read_text(encoding="utf-8"))]
    assert len(images) > 20
    assert not [image for image in images if not re.search(r'alt="[^"]{8,}"', image)]


def test_figures_have_both_colour_schemes() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    found = {name for page in pages for name in re.findall(r"([\w./-]+)\.svg#gh-light-mode-only", page.read_text())}
    assert len(found) > 20
    for page in pages:
        text = page.read_text()
        for name in re.findall(r"([\w./-]+)\.svg#gh-light-mode-only", text):
            assert f"{name}-dark.svg#gh-dark-mode-only" in text and (page.parent / f"{name}-dark.svg").exists()


def test_notebooks_show_what_their_cells_print(site: Path) -> None:
    for path in (ROOT / "docs/tutorials").glob("*.ipynb"):
        text = (site / "tutorials" / f"{path.stem}.html").read_text(encoding="utf-8")
        assert 'class="filename">output<' in text, path.name


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """The site over HTTP, since browsers forbid workers, and so the search, to files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.skipif(chromium() is None, reason="Chromium is not installed (apt-get install chromium)")
def test_start_page_and_search_in_a_browser(address: str, tmp_path: Path) -> None:
    with browser(tmp_path / "profile") as page:
        page.visit(f"{address}index.html")
        assert "sfumato" in page.run("document.title")
        for reader in ("publish", "score", "devices", "compare"):
            assert page.run(f"document.querySelector('.md-content a[href=\"{reader}.html\"]') !== null"), reader
        found = page.run(SEARCHED)
        assert any("bandwidth.html" in link for link in found), found
        assert not page.problems
        assert all(request.startswith((address, "data:", "blob:")) for request in page.requests), page.requests
