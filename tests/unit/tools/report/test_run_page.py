"""The page of a report as text: complete, without network access, and safe from names in models."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from run_records import HOSTILE, make_record

from fourfold.tools.report import run_report
from fourfold.tools.report.run_report.page import SCRIPTS, make_report_page
from fourfold.tools.report.run_report.record_file import record_as_data
from fourfold.tools.report.run_report.report import RunReport

TEMPLATE = files(run_report) / "template"
MOST_LINES = 250


class Tags(HTMLParser):
    """Collects all tags of a page with their attributes, and the text of its data."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.data, self._inside = "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") == "data"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.data += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


def test_the_data_are_in_the_page() -> None:
    record = make_record()
    packed = Tags(make_report_page(record)).data
    found = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert found == json.loads(json.dumps({"run": record_as_data(record), "before": None}))


def test_a_run_compared_with_an_earlier_one() -> None:
    now, before = make_record(), make_record(scale=2.0)
    packed = Tags(RunReport(now).compared_with(RunReport(before)).html()).data
    found = json.loads(zlib.decompress(base64.b64decode(packed)))
    both = {"run": record_as_data(now), "before": record_as_data(before)}
    assert found == json.loads(json.dumps(both))


def test_names_of_a_model_make_no_tags() -> None:
    page = make_report_page(make_record(), make_record())
    assert HOSTILE not in page
    tags = [tag for tag, _ in Tags(page).found]
    assert tags.count("script") == 2
    assert "img" not in tags


def test_the_page_reaches_for_nothing() -> None:
    page = make_report_page(make_record())
    for tag, attributes in Tags(page).found:
        for name in ("src", "href", "srcset", "action"):
            target = attributes.get(name) or "#"
            assert target.startswith(("#", "data:")), (tag, target)
    assert "default-src 'none'" in page
    style = TEMPLATE.joinpath("page.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style


def test_a_notebook_gets_its_own_frame() -> None:
    shown = RunReport(make_record())._repr_html_()
    ((tag, attributes),) = Tags(shown).found
    assert (tag, attributes["sandbox"]) == ("iframe", "allow-scripts")
    assert attributes["srcdoc"] == RunReport(make_record()).html()


def test_every_script_is_in_the_page_once() -> None:
    there = {path.name for path in TEMPLATE.iterdir() if path.name.endswith(".js")}
    assert there == set(SCRIPTS)
    assert len(SCRIPTS) == len(there)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_short_and_begin_with_a_sentence(name: str) -> None:
    text = TEMPLATE.joinpath(name).read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES
    assert re.match(r"// [A-Z].*\.$", lines[0])
    assert "innerHTML" not in text
    assert "</script" not in text
