"""A real headless Chromium, driven over its debugging pipe: no driver package is needed.

Commands go to file descriptor 3 of the browser and answers come back from 4, as JSON texts that end with a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    "--window-size=1100,1300",
)
PATIENCE = 60.0  # seconds for one answer
_KEYS = {"Tab": 9, "Enter": 13, " ": 32}


def chromium() -> str | None:
    """Path of the browser, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page:
    """One tab. `problems` gathers console errors, exceptions and violated policies; `requests` every address asked."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number, self._rest, self._session = 0, b"", ""
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._seen: set[str] = set()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], PATIENCE)
            part = os.read(self._answers, 1 << 16) if ready else b""
            if not part:
                raise TimeoutError("the browser does not answer")
            self._rest += part
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, details: dict[str, Any]) -> None:
        self._seen.add(event)
        if event == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(details["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(details["args"]))
        elif event == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.problems.append(details["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def open(self, path: Path) -> None:
        """Load a file from disk."""
        self.visit(path.resolve().as_uri())

    def visit(self, address: str) -> None:
        """Load a page from anywhere."""
        self._seen.discard("Page.loadEventFired")
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self._seen:
            self._next()
        self.settle()

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait until what was asked for is on the screen."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def mouse(self, kind: str, x: float, y: float, **details: Any) -> None:
        """Move, press, release or turn the wheel of a real mouse."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **details)
        self.settle()

    def press(self, key: str, shift: bool = False) -> None:
        """Press a key of a real keyboard."""
        text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        # Without its number a key that moves the focus or presses a button does nothing.
        common = {"key": key, "modifiers": 8 if shift else 0, "windowsVirtualKeyCode": _KEYS.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)
        self.settle()

    def screenshot(self, path: Path) -> None:
        """Write what is on the screen as .png."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Start Chromium with a new profile, and end it."""
    program = chromium()
    assert program is not None
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()

    def connect() -> None:
        # Copies first, since the pipe's ends may be 3 and 4 themselves.
        reading, writing = os.dup(to_browser), os.dup(from_browser)
        os.dup2(reading, 3)
        os.dup2(writing, 4)

    process = subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={profile}"],
        preexec_fn=connect,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(commands, answers)
    finally:
        os.close(commands)  # the browser ends when its pipe does
        os.close(answers)
        deadline = time.monotonic() + 10
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.poll() is None:
            process.kill()
        process.wait()
