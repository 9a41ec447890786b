"""A headless browser, driven with the DevTools protocol over a pipe, without any package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--remote-debugging-pipe",
)
NAMES = ("chromium", "chromium-browser", "google-chrome")
# The protocol uses the file descriptors 3 and 4.
START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for number, end in zip((3, 4), ends):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
MISSING = "there is no Chromium; apt-get install chromium"


def browser_path() -> str | None:
    """Return the path of the browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class ScriptError(Exception):
    """An exception thrown by a page's script."""


class Browser:
    """A Chromium process; `page` opens a tab."""

    def __init__(self, profile: str, *flags: str) -> None:
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        words = [str(browser_path()), *FLAGS, *flags, f"--user-data-dir={profile}", "about:blank"]
        pipes = (str(to_browser), str(from_browser))
        environment = {**os.environ, "XDG_RUNTIME_DIR": profile}
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, *pipes, *words],
            pass_fds=(to_browser, from_browser),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._rest, self._number = b"", 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send one command of the protocol and return its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            raise ScriptError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise ScriptError("the browser has gone")
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def page(self, url: str, width: int = 1100, height: int = 640) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        result = Page(self, session, target)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        result.call("Emulation.setDeviceMetricsOverride", **size)
        result.call("Runtime.enable")
        result.call("Page.enable")
        result.call("Page.navigate", url=url)
        return result

    def close(self) -> None:
        with suppress(ScriptError, OSError):
            self.call("Browser.close")
        os.close(self._to)
        os.close(self._from)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Page:
    """A tab of a browser."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression, awaiting promises."""
        options = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        answer = self.call("Runtime.evaluate", expression=script, **options)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise ScriptError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_for(self, script: str, seconds: float = 120.0) -> Any:
        """Return the value of an expression once it is true."""
        end = time.monotonic() + seconds
        while not (outputs := self.run(script)):
            if time.monotonic() > end:
                raise ScriptError(f"{script} was not true within {seconds} s: {self.log()}")
            time.sleep(0.05)
        return outputs

    def log(self) -> list[str]:
        """Return messages and errors of the page's scripts."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        messages = [one["params"] for one in self._browser.events if one.get("method") in kinds]
        return [json.dumps(one.get("args", one.get("exceptionDetails"))) for one in messages]

    def picture(self, path: Path, quality: int | None = None) -> None:
        """Save a screenshot of the page, as PNG, or as JPEG with a quality."""
        options = {"format": "png"} if quality is None else {"format": "jpeg", "quality": quality}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)


@contextmanager
def open_browser(*flags: str) -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile, *flags)
        try:
            yield browser
        finally:
            browser.close()
