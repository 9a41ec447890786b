"""The page of a report in a browser: what a person clicks, types and reads there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import MISSING, Browser, Page, browser_path, open_browser
from run_records import HOSTILE, make_record

from fourfold.tools.report.run_report.report import RunReport

READY = "document.documentElement?.dataset.ready === 'yes'"
CLICK = """(() => {
    const node = document.querySelectorAll('.node')[%d];
    const box = node.getBoundingClientRect();
    const at = { bubbles: true, clientX: box.x + 9, clientY: box.y + 9, pointerId: 1 };
    for (const kind of ['pointerdown', 'pointerup']) node.dispatchEvent(new PointerEvent(kind, at));
})()"""
PRESS = """[...document.querySelectorAll('.choice button')]
    .find((one) => one.textContent === '%s').click()"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if browser_path() is None:
        pytest.skip(MISSING)
    with open_browser() as browser:
        yield browser


class Shown:
    """A report in a tab, and all that its page asked for."""

    def __init__(self, browser: Browser, path: Path, width: int, theme: str) -> None:
        self.browser = browser
        browser.events.clear()
        self.page: Page = browser.page("about:blank", width, 900)
        self.page.call("Network.enable")
        self.page.call("Log.enable")
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.page.call("Emulation.setEmulatedMedia", features=features)
        self.page.call("Page.navigate", url=path.as_uri())
        self.page.wait_for(READY)

    def run(self, script: str) -> Any:
        return self.page.run(script)

    def text(self, place: str) -> str:
        return str(self.run(f"document.querySelector({place!r}).innerText"))

    def told(self, method: str) -> list[dict[str, Any]]:
        self.run("1")  # what was said before has come by then
        return [one["params"] for one in self.browser.events if one.get("method") == method]


@pytest.fixture
def shown(chromium: Browser, tmp_path: Path) -> Iterator[Shown]:
    RunReport(make_record()).save(tmp_path / "run.html")
    stage = Shown(chromium, tmp_path / "run.html", 1200, "light")
    yield stage
    stage.page.close()


@pytest.fixture
def compared(chromium: Browser, tmp_path: Path) -> Iterator[Shown]:
    RunReport(make_record(), make_record(2.0)).save(tmp_path / "two.html")
    stage = Shown(chromium, tmp_path / "two.html", 1200, "light")
    yield stage
    stage.page.close()


def test_it_opens_without_a_network_and_without_complaints(shown: Shown) -> None:
    asked = [one["request"]["url"] for one in shown.told("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert shown.told("Log.entryAdded") == []
    assert shown.page.log() == []


def test_names_of_a_model_are_only_text(shown: Shown) -> None:
    shown.run(CLICK % 2)
    shown.run("document.querySelector('.details details').open = true")
    shown.page.wait_for("document.querySelector('.details pre') !== null")
    assert HOSTILE in shown.text("h1")
    assert HOSTILE in shown.text(".details .name")
    assert HOSTILE in shown.text(".details pre")
    assert shown.run("window.broken") is None
    assert shown.run("document.querySelectorAll('img').length") == 0


def test_a_click_on_a_node_shows_what_is_known_of_it(shown: Shown) -> None:
    shown.run(CLICK % 1)
    told = shown.text(".details")
    for words in (
        "conv2d + relu6",
        "40.0 µs",
        "1×4×4×8",
        "stride",
        "(1, 1)",
        "rows: 4",
        "kernel_1",
    ):
        assert words in told
    assert shown.run("document.querySelectorAll('.node')[1].classList.contains('chosen')")


def test_a_node_on_the_cpu_says_why(shown: Shown) -> None:
    shown.run(CLICK % 4)
    assert "softmax has no kernel here" in shown.text(".details")
    assert "CPU (LiteRT)" in shown.text(".details")


def test_colours_follow_what_they_stand_for(shown: Shown) -> None:
    fills = "[...document.querySelectorAll('.node rect')].map((one) => getComputedStyle(one).fill)"
    found = {}
    for name in ("Placement", "Time", "Error"):
        shown.run(PRESS % name)
        found[name] = shown.run(fills)
    assert found["Placement"][1] == found["Placement"][2] != found["Placement"][4]
    assert len(set(found["Time"][1:4])) == 3
    assert found["Error"][1] == found["Error"][2] != found["Error"][3]


def test_the_table_sorts_by_any_column(shown: Shown) -> None:
    rows = "[...document.querySelectorAll('#kernels tbody tr')].map((one) => +one.dataset.node)"
    assert shown.run(rows) == [1, 3, 2]
    shown.run("document.querySelector('#kernels [data-key=seconds]').click()")
    assert shown.run(rows) == [2, 3, 1]
    assert shown.run("document.querySelector('#kernels [aria-sort]').ariaSort") == "ascending"
    shown.run("document.querySelector('#kernels [data-key=op]').click()")
    assert shown.run(rows) == [3, 1, 2]


def test_a_row_leads_to_its_node(shown: Shown) -> None:
    shown.run("document.querySelector('#kernels tbody tr').click()")
    assert "conv2d + relu6" in shown.text(".details .op")


def test_keys_go_through_the_graph(shown: Shown) -> None:
    key = (
        "document.querySelector('.view').dispatchEvent(new KeyboardEvent('keydown', { key: '%s' }))"
    )
    for name in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        shown.run(key % name)
    assert "conv2d + relu6" in shown.text(".details .op")
    before = shown.run("document.querySelector('.view > g').getAttribute('transform')")
    shown.run(key % "+")
    assert shown.run("document.querySelector('.view > g').getAttribute('transform')") != before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_scheme_is_the_browsers_until_one_is_chosen(
    chromium: Browser, tmp_path: Path, theme: str
) -> None:
    RunReport(make_record()).save(tmp_path / "run.html")
    stage = Shown(chromium, tmp_path / "run.html", 1200, theme)
    light = "getComputedStyle(document.body).backgroundColor === 'rgb(246, 247, 249)'"
    assert stage.run(light) is (theme == "light")
    stage.run(PRESS % ("Dark" if theme == "light" else "Light"))
    assert stage.run(light) is (theme != "light")
    stage.page.close()


def test_two_runs_stand_side_by_side(compared: Shown) -> None:
    told = compared.text("#compare")
    assert "0.500×" in told
    assert compared.run("document.querySelectorAll('#timeline .scroll').length") == 2
    assert compared.run("document.querySelectorAll('#start .bars').length") == 2
    compared.run(PRESS % "Change")
    compared.run(PRESS % "Before")
    compared.run(CLICK % 1)
    assert "80.0 µs" in compared.text(".details")


def test_a_narrow_screen_needs_no_sideways_scrolling(chromium: Browser, tmp_path: Path) -> None:
    RunReport(make_record(), make_record(2.0)).save(tmp_path / "run.html")
    stage = Shown(chromium, tmp_path / "run.html", 400, "light")
    assert stage.run("document.documentElement.scrollWidth <= innerWidth")
    stage.page.close()
