"""The device in TypeScript: its own tests in Node and in a browser, on the vectors that Python makes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.clients.make_vectors import ALL, FOLDER, written
from tests.maps.browser import browser, chromium

CLIENT = Path(__file__).parents[2] / "clients" / "js"
LEAST_NODE = 20


@cache
def _missing() -> str | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node or npm is not installed"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return None if int(version[1:].split(".")[0]) >= LEAST_NODE else f"node {version.strip()} is older than 20"


def _run(*command: str) -> str:
    """Run a command in the client's folder, without any network but the one that `npm ci` needs once."""
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built() -> Path:
    """Install what the lock file names, if that is not there, and build the tests."""
    problem = _missing()
    if problem is not None:
        message = f"THE DEVICE IN TYPESCRIPT IS NOT TESTED: {problem}"
        print(f"\n{message}")
        pytest.skip(message)
    mark = CLIENT / "node_modules" / ".package-lock.json"
    if not mark.exists() or mark.stat().st_mtime < (CLIENT / "package-lock.json").stat().st_mtime:
        _run("npm", "ci", "--no-audit", "--no-fund")
    _run("node", "build.mjs", "--tests")
    return CLIENT / "dist" / "tests"


@pytest.mark.exact
@pytest.mark.parametrize("name", sorted(ALL))
def test_vectors_are_what_the_code_makes(name: str) -> None:
    found = (FOLDER / f"{name}.json").read_text()
    assert json.loads(written(name)) == json.loads(found), "run python -m tests.clients.make_vectors"


def test_in_node(built: Path) -> None:
    said = _run("node", "--test", "--test-reporter=tap", str(built / "node.test.mjs"))
    assert int(said.split("# pass ")[1].split()[0]) > 300


def test_types_lint_and_size(built: Path) -> None:
    _run("npx", "--no-install", "tsc", "--noEmit")
    _run("npx", "--no-install", "eslint", ".")
    assert "dependencies included" in _run("node", "build.mjs")


@pytest.mark.skipif(chromium() is None, reason="THE DEVICE IN TYPESCRIPT IS NOT TESTED IN A BROWSER: no chromium")
def test_in_a_browser(built: Path, tmp_path: Path) -> None:
    """The same checks, on a page of its own origin: WebCrypto wants a secure one, and a local server is that."""
    (tmp_path / "index.html").write_text('<!doctype html><meta charset="utf-8"><script type="module" src="page.mjs"></script>')
    shutil.copy(built / "page.mjs", tmp_path / "page.mjs")

    class Quiet(SimpleHTTPRequestHandler):
        extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}  # noqa: RUF012

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path), **named)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        with browser(tmp_path / "profile") as page:
            page.visit(f"http://localhost:{server.server_port}/index.html")
            page.run("sfumatoChecks().then((found) => { globalThis.found = found }, String) && null")
            found = None
            while found is None:  # in turns, so that no single answer takes long
                found = page.run("new Promise((done) => setTimeout(() => done(globalThis.found ?? null), 500))")
    finally:
        server.shutdown()
    assert found["failed"] == []
    assert found["passed"] > 300
