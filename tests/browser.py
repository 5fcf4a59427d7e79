"""Chromium without a window, by the DevTools protocol over a pipe: pages, keys, pictures, without further packages."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
_KEYS = {
    "Tab": 9,
    "Enter": 13,
    " ": 32,
    "PageUp": 33,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


class Browser:
    """A browser process; use it in a `with` block. `folder` keeps its profile and downloads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            str(CHROMIUM),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}/profile",
        ]
        # The protocol is read from file 3 and written to file 4. Shells may not know file numbers of two digits.
        shell = ["sh", "-c", 'exec "$@" 3<"/proc/self/fd/$IN" 4>"/proc/self/fd/$OUT"', "sh", *command]
        self._process = subprocess.Popen(
            shell,
            env={**os.environ, "IN": str(to_browser), "OUT": str(from_browser)},
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._number = b"", 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._out)
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)

    def call(self, method: str, session: str | None = None, seconds: float = 60.0, **parameters: Any) -> dict[str, Any]:
        """Return the result of a method of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        os.write(self._out, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        end = time.monotonic() + seconds
        while True:
            answer = self._read(end)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self.events.append(answer)

    def _read(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def page(self, address: str, width: int = 1400, height: int = 1000, dark: bool = False) -> Page:
        """Open a page and return it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call("Page.navigate", url=address)
        return page


class Page:
    """A tab of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def value(self, expression: str) -> Any:
        """Return the value of JavaScript, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = 60.0) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + seconds
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < end, f"not true within {seconds} s: {expression}"
            time.sleep(0.05)

    def press(self, key: str, shift: bool = False) -> None:
        """Press and release a key."""
        code = {"key": key, "windowsVirtualKeyCode": _KEYS[key], "modifiers": 8 if shift else 0}
        text = {"Enter": {"text": "\r"}, " ": {"text": " "}}.get(key, {})
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def errors(self) -> list[str]:
        """Return exceptions, and messages of the log that are errors, so far."""
        lines = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                lines.append(str(event["params"]["exceptionDetails"].get("exception", {}).get("description")))
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                lines.append(str(event["params"]["entry"]["text"]))
        return lines

    def picture(self, path: Path, whole: bool = False) -> None:
        """Write a PNG of what is visible, or of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
