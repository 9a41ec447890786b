"""One browser for all tests of the player, a server with its own folder, and an empty page."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from browser import MISSING, Browser, Page, browser_path, open_browser

from fourfold.export.web.page import PLAYER, asset_folder
from fourfold.export.web.server import FolderServer

EMPTY = '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><title>test</title>'


class Stage(NamedTuple):
    """A page with the player loaded as `fourfold`, and the folder that it is served from."""

    page: Page
    folder: Path
    address: str

    def run(self, script: str) -> Any:
        """Run the body of an async function in the page, and return its result."""
        return self.page.run(f"(async () => {{ {script} }})()")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if browser_path() is None:
        pytest.skip(MISSING)
    with open_browser() as browser:
        yield browser


@contextmanager
def open_stage(browser: Browser, folder: Path) -> Iterator[Stage]:
    folder.mkdir()
    (folder / "index.html").write_text(EMPTY)
    shutil.copytree(asset_folder(PLAYER), folder / PLAYER)
    with FolderServer(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.page(server.address)
        page.wait_for("document.readyState === 'complete'")
        page.run(
            f"import('./{PLAYER}/fourfold.js').then((all) => {{ globalThis.fourfold = all; }})"
        )
        yield Stage(page, folder, server.address)
        page.close()
        server.shutdown()


@pytest.fixture
def stage(chromium: Browser, tmp_path: Path) -> Iterator[Stage]:
    with open_stage(chromium, tmp_path / "served") as made:
        yield made
