"""docs/internals/file-format.md agrees with the code: numbers, kinds and names."""

from __future__ import annotations

import dataclasses
import json
import re
from functools import cache

import pytest
from docs.blocks import ROOT, blocks
from tiny_plan import line

from fourfold.plan import InputsOnDevice, compiled_sections, record
from fourfold.plan.container import (
    ALIGNMENT,
    ENTRY,
    HEADER,
    MAGIC,
    PAGE,
    PAGE_ALIGNED_BYTES,
    VERSION,
)
from fourfold.plan.encode_constants import WeightList
from fourfold.plan.placement import Placement
from fourfold.plan.requirements import Requirements
from fourfold.store import entry, prepared

PAGE_FILE = ROOT / "docs" / "internals" / "file-format.md"
SIZES = {"u32": 4, "u64": 8}
ROW = re.compile(r"^\| *(.*?) *\|$", re.MULTILINE)
KEY = re.compile(r'"(\w+)"')


@cache
def section(heading: str) -> str:
    """Return the part of the page below a heading that starts with this text."""
    text = PAGE_FILE.read_text(encoding="utf-8")
    result = re.search(rf"^## {re.escape(heading)}[^\n]*\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert result is not None, heading
    return result[0]


def rows(heading: str, first: str) -> list[list[str]]:
    """Return the cells of a section's table whose first column is titled `first`."""
    cells = [row.split(" | ") for row in ROW.findall(section(heading))]
    start = next(number for number, row in enumerate(cells) if row[0] == first) + 2
    width = len(cells[start])
    table_ends = (n for n in range(start, len(cells)) if len(cells[n]) != width)
    return cells[start : next(table_ends, len(cells))]


def quoted(cells: list[list[str]]) -> set[str]:
    return {name for row in cells for name in re.findall(r"`(\w+)`", row[0])}


def layout(heading: str) -> list[tuple[int, int]]:
    """Return offset and size in bytes of each field."""
    fields = [(int(at), kind) for at, kind, _ in rows(heading, "at")]
    return [(at, SIZES.get(kind) or int(kind.split()[0])) for at, kind in fields]


@pytest.mark.parametrize(("heading", "form"), [("Header", HEADER), ("Table", ENTRY)])
def test_layouts_match_the_code(heading: str, form: object) -> None:
    fields = layout(heading)
    assert [at for at, _ in fields[1:]] == [at + size for at, size in fields[:-1]]
    assert sum(size for _, size in fields) == form.size  # type: ignore[attr-defined]
    assert f"{form.size} bytes" in section(heading).splitlines()[0]  # type: ignore[attr-defined]


def test_numbers_match_the_code() -> None:
    header = {at: what for at, _, what in rows("Header", "at")}
    assert header["0"] == f"`{MAGIC.decode()}`"
    assert header["8"] == f"format: {VERSION}"
    assert header["12"] == f"size of this header: {HEADER.size}"
    starts = f"a multiple of {ALIGNMENT}, of {PAGE} from {PAGE_ALIGNED_BYTES >> 10} KiB on"
    assert starts in section("Table")
    assert f"Format {VERSION} " in section("Table")


def test_buffer_kinds_match_the_code() -> None:
    assert quoted(rows("A plan", "kind")) == set(record.KINDS)


def test_requirements_match_the_code() -> None:
    named = quoted(rows("A plan", "name")) | {"language", "language_version"}
    assert named == set(Requirements._fields)


def keys(heading: str) -> set[str]:
    """Return the names in the section's record."""
    results = [one.text for one in blocks(PAGE_FILE) if one.text in section(heading)]
    return set(KEY.findall(results[0]))


def test_records_match_the_code() -> None:
    compiled = line(2.0, 1.0)
    values = {"language", "language_version", "opencl", "fp32", "mixed", "fp16"}
    way = InputsOnDevice(compiled.plan.launches[0].arguments, ())
    plan = dataclasses.replace(compiled.plan, on_device=way)
    stored = json.loads(bytes(record.plan_sections(plan, weights=WeightList())[0].data))
    assert keys("A plan") - values == set(stored) == {*record.plan_record(plan), "constants"}
    in_parts = dataclasses.replace(compiled, parts=compiled.parts * 2)
    sections = compiled_sections(in_parts)
    assert keys("A compiled model") - {"gpu"} == set(json.loads(bytes(sections[0].data)))
    fields = {field.name for field in dataclasses.fields(Placement)}
    placement = section("A compiled model").partition("`placement` is JSON: ")[2].partition(".")[0]
    assert set(re.findall(r"`(\w+)`", placement)) == fields


def test_entries_and_indices_match_the_code() -> None:
    kinds = re.search(r'"kind": ([^,]*),', section("An entry of the store"))
    assert kinds is not None
    assert set(KEY.findall(kinds[1])) == set(entry.KINDS)
    assert keys("A prepared file") >= {"made_by", *prepared.LISTS}
