"""The report page in a browser: clicking, typing and reading."""

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


class OpenReport:
    """A report in a browser tab, and all requests that its page made."""

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

    def events_of(self, method: str) -> list[dict[str, Any]]:
        self.run("1")  # waits for earlier events
        return [one["params"] for one in self.browser.events if one.get("method") == method]


@pytest.fixture
def report(chromium: Browser, tmp_path: Path) -> Iterator[OpenReport]:
    RunReport(make_record()).save(tmp_path / "run.html")
    stage = OpenReport(chromium, tmp_path / "run.html", 1200, "light")
    yield stage
    stage.page.close()


@pytest.fixture
def comparison(chromium: Browser, tmp_path: Path) -> Iterator[OpenReport]:
    RunReport(make_record(), make_record(2.0)).save(tmp_path / "two.html")
    stage = OpenReport(chromium, tmp_path / "two.html", 1200, "light")
    yield stage
    stage.page.close()


def test_opens_without_network_requests_or_errors(report: OpenReport) -> None:
    urls = [one["request"]["url"] for one in report.events_of("Network.requestWillBeSent")]
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
    assert report.events_of("Log.entryAdded") == []
    assert report.page.log() == []


def test_model_names_are_shown_as_text(report: OpenReport) -> None:
    report.run(CLICK % 2)
    report.run("document.querySelector('.details details').open = true")
    report.page.wait_for("document.querySelector('.details pre') !== null")
    assert HOSTILE in report.text("h1")
    assert HOSTILE in report.text(".details .name")
    assert HOSTILE in report.text(".details pre")
    assert report.run("window.broken") is None
    assert report.run("document.querySelectorAll('img').length") == 0


def test_clicking_a_node_shows_its_details(report: OpenReport) -> None:
    report.run(CLICK % 1)
    details = report.text(".details")
    for words in (
        "conv2d + relu6",
        "40.0 µs",
        "1×4×4×8",
        "stride",
        "(1, 1)",
        "rows: 4",
        "kernel_1",
    ):
        assert words in details
    assert report.run("document.querySelectorAll('.node')[1].classList.contains('chosen')")


def test_cpu_node_shows_its_reason(report: OpenReport) -> None:
    report.run(CLICK % 4)
    assert "softmax has no kernel here" in report.text(".details")
    assert "CPU (LiteRT)" in report.text(".details")


def test_colors_follow_the_selected_quantity(report: OpenReport) -> None:
    fills = "[...document.querySelectorAll('.node rect')].map((one) => getComputedStyle(one).fill)"
    outputs = {}
    for name in ("Placement", "Time", "Error"):
        report.run(PRESS % name)
        outputs[name] = report.run(fills)
    assert outputs["Placement"][1] == outputs["Placement"][2] != outputs["Placement"][4]
    assert len(set(outputs["Time"][1:4])) == 3
    assert outputs["Error"][1] == outputs["Error"][2] != outputs["Error"][3]


def test_table_sorts_by_any_column(report: OpenReport) -> None:
    rows = "[...document.querySelectorAll('#kernels tbody tr')].map((one) => +one.dataset.node)"
    assert report.run(rows) == [1, 3, 2]
    report.run("document.querySelector('#kernels [data-key=seconds]').click()")
    assert report.run(rows) == [2, 3, 1]
    assert report.run("document.querySelector('#kernels [aria-sort]').ariaSort") == "ascending"
    report.run("document.querySelector('#kernels [data-key=op]').click()")
    assert report.run(rows) == [3, 1, 2]


def test_clicking_a_row_selects_its_node(report: OpenReport) -> None:
    report.run("document.querySelector('#kernels tbody tr').click()")
    assert "conv2d + relu6" in report.text(".details .op")


def test_keys_navigate_the_graph(report: OpenReport) -> None:
    key = (
        "document.querySelector('.view').dispatchEvent(new KeyboardEvent('keydown', { key: '%s' }))"
    )
    for name in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        report.run(key % name)
    assert "conv2d + relu6" in report.text(".details .op")
    before = report.run("document.querySelector('.view > g').getAttribute('transform')")
    report.run(key % "+")
    assert report.run("document.querySelector('.view > g').getAttribute('transform')") != before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_color_scheme_follows_the_browser_until_changed(
    chromium: Browser, tmp_path: Path, theme: str
) -> None:
    RunReport(make_record()).save(tmp_path / "run.html")
    stage = OpenReport(chromium, tmp_path / "run.html", 1200, theme)
    light = "getComputedStyle(document.body).backgroundColor === 'rgb(246, 247, 249)'"
    assert stage.run(light) is (theme == "light")
    stage.run(PRESS % ("Dark" if theme == "light" else "Light"))
    assert stage.run(light) is (theme != "light")
    stage.page.close()


def test_shows_two_runs_side_by_side(comparison: OpenReport) -> None:
    text = comparison.text("#compare")
    assert "0.500×" in text
    assert comparison.run("document.querySelectorAll('#timeline .scroll').length") == 2
    assert comparison.run("document.querySelectorAll('#start .bars').length") == 2
    comparison.run(PRESS % "Change")
    comparison.run(PRESS % "Before")
    comparison.run(CLICK % 1)
    assert "80.0 µs" in comparison.text(".details")


def test_narrow_screen_needs_no_horizontal_scrolling(chromium: Browser, tmp_path: Path) -> None:
    RunReport(make_record(), make_record(2.0)).save(tmp_path / "run.html")
    stage = OpenReport(chromium, tmp_path / "run.html", 400, "light")
    assert stage.run("document.documentElement.scrollWidth <= innerWidth")
    stage.page.close()
