"""Checks that the C player chooses the same plan of a prepared file as Python."""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from c_player.fake_device import EVERYTHING, everything, fake_device, run_fake_json
from tiny_plan import line

from fourfold.device import DeviceInfo, Fact
from fourfold.errors import FourfoldError
from fourfold.options import CompileOptions
from fourfold.plan import Container, Section
from fourfold.plan.container import write_container
from fourfold.store.draft import Draft
from fourfold.store.prepared import Prepared, facts_in_row, plan_ranks

Facts = dict[str, Fact]

NEEDS: dict[str, tuple[Any, ...]] = {
    "language_version": ("1.2", "3.0", "3.1", "1.10"),
    "half_arithmetic": (True, False),
    "matrix_units": (True, False),
    "subgroups": ("khr", "ptx", ""),
    "dot_products": ("khr", "x86", ""),
    "packs_bytes": (True, False),
    "resident_groups": (0, 4, 5),
    "forward_progress": (True, False),
    "reaches_host": (True, False),
    "address_bits": (0, 64, 128),
    "work_group": (1, 256, 257),
    "local_memory": (0, 32768, 32769),
    "buffer_bytes": (64, 2**26, 2**26 + 1),
    "alignment": (1, 128, 256),
    "images": ([], [[65536, 1, 16]], [[65537, 8, 8]], [[70000, 65536, 16]]),
}
MADE_FOR: dict[str, tuple[Any, ...]] = {
    "name": ("Fake GPU", "another"),
    "platform": ("Fake Platform", "another"),
    "kind": ("gpu", "cpu"),
    "compute_units": (1, 2, 4, 8),
}
ROWS: dict[str, tuple[Any, ...]] = {
    "precision": ("fp32", "mixed"),
    "generic": (True, False),
    "shapes": ({}, {}, {"x": [1, 2]}, {"x": [1, 2], "y": [3]}),
    "pixels": ({}, {}, {"x": "rgb"}, {"x": "rgb", "y": "bgr"}),
    "signature": ("", "", "serve"),
    "postprocess": ("", "", "topk"),
}


def worded(**texts: str) -> CompileOptions:
    """Return options with arbitrary texts for pixels or postprocessing."""

    class Worded(CompileOptions):
        pixels_text = texts.get("pixels_text", "")  # type: ignore[assignment]
        postprocess_text = texts.get("postprocess_text", "")  # type: ignore[assignment]

    return Worded(any_precision=True)


ANY = CompileOptions(any_precision=True)
OPTION_CASES: tuple[tuple[CompileOptions, tuple[str, ...]], ...] = (
    (ANY, ()),
    (CompileOptions("mixed"), ("--precision", "mixed")),
    (replace(ANY, signature="serve"), ("--signature", "serve")),
    (worded(postprocess_text="topk"), ("--postprocess", "topk")),
    (worded(pixels_text="auto"), ("--pixels", "auto")),
    (worded(pixels_text="rgb"), ("--pixels", "rgb")),
    (worded(pixels_text="x: rgb; y: bgr"), ("--pixels", "x: rgb; y: bgr")),
    (replace(ANY, shapes={"x": (1, 2)}), ("--shapes", "x=1,2")),
    (replace(ANY, shapes={"y": (3,), "x": (1, 2)}), ("--shapes", "y=3;x=1,2")),
)


def some(draw: random.Random, choices: dict[str, tuple[Any, ...]], most: int) -> dict[str, Any]:
    names = draw.sample(sorted(choices), draw.randrange(most + 1))
    return {name: draw.choice(choices[name]) for name in names}


def shuffled(path: Path, device: DeviceInfo, seed: int) -> Prepared:
    """Write a file whose plans differ in everything that the choice depends on."""
    draw, draft = random.Random(seed), Draft()
    draft.add_compiled(draft.add_model("line", "line", 1), device, line(), {})
    draft.write(path)
    file = Container.open(path)
    index = json.loads(bytes(file.section(0, "index")))
    first = index["plans"][0]
    rows = [
        {
            **first,
            **{name: draw.choice(values) for name, values in ROWS.items()},
            "made_for": {**first["made_for"], **some(draw, MADE_FOR, 3)},
            "requirements": {**first["requirements"], **some(draw, NEEDS, 2)},
        }
        for _ in range(draw.randrange(1, 9))
    ]
    for row in rows:
        changed = bool(row["shapes"]) + bool(row["pixels"])
        row["ranks"] = plan_ranks(generic=row["generic"], changed=changed)
        row["most_units"] = 2 * row["made_for"]["compute_units"]
    index["plans"] = rows
    reindexed(path, index)
    return Prepared.open(str(path))


def reindexed(path: Path, index: dict[str, Any]) -> None:
    """Replace the index of a file."""
    file = Container.open(path)
    sections = [Section(name, file.section(n, name)) for n, name in enumerate(file.names)]
    sections[0] = Section("index", json.dumps(index).encode())
    write_container(path, sections, 0o600, sync=False)


def expected(
    prepared: Prepared, bare: DeviceInfo, facts: Facts, wanted: CompileOptions
) -> int | None:
    """Return the index of the plan that Python chooses; None if there is none. Python may use the
    facts that the C player knows: those in any plan for this device.
    """
    own = any(facts_in_row(one, bare) for one in prepared.index["plans"])

    def ask(device: DeviceInfo, names: Collection[str]) -> DeviceInfo:
        return bare.with_facts(facts) if own else device

    try:
        row = prepared.best(0, bare, wanted, ask)
    except FourfoldError:
        return None
    return next(n for n, one in enumerate(prepared.index["plans"]) if one is row)


@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in range(0, 60, 20)])
def test_chooses_the_plan_that_python_chooses(seeds: range, tmp_path: Path) -> None:
    facts: Facts = {**EVERYTHING, "forward_progress": False, "resident": True}
    known, bare, played = fake_device(facts), fake_device(), 0
    for seed in seeds:
        prepared = shuffled(tmp_path / "f.fourfold", known, seed)
        wanted, words = OPTION_CASES[seed % len(OPTION_CASES)]
        row = expected(prepared, bare, facts, wanted)
        lines = run_fake_json(tmp_path / "f.fourfold", *words, status=0 if row is not None else 1)
        assert lines[0].get("plan") == row, (seed, words, prepared.index["plans"], lines)
        played += row is not None
    assert played > 4


def test_rejects_an_unknown_requirement(tmp_path: Path) -> None:
    index = shuffled(tmp_path / "f.fourfold", fake_device(), 0).index
    needs = {"language": "opencl", "language_version": "1.2", "x": 1}
    reindexed(
        tmp_path / "f.fourfold", {**index, "plans": [{**index["plans"][0], "requirements": needs}]}
    )
    (report,) = run_fake_json(tmp_path / "f.fourfold", status=1)
    assert (report["status"], "lacks 'x'" in report["error"]) == ("plan", True)


def test_rejects_a_model_with_cpu_parts(tmp_path: Path) -> None:
    index = shuffled(tmp_path / "f.fourfold", fake_device(), 0).index
    rows = [{**row, "parts": ["gpu", "litert"]} for row in index["plans"]]
    reindexed(tmp_path / "f.fourfold", {**index, "plans": rows})
    (report,) = run_fake_json(tmp_path / "f.fourfold", status=1)
    assert (report["status"], "requires the Python package" in report["error"]) == ("plan", True)


def test_selects_a_model_by_name(tmp_path: Path) -> None:
    draft, device = Draft(), fake_device(EVERYTHING)
    for name, compiled in {"one": line(), "two": everything()}.items():
        draft.add_compiled(draft.add_model(name, name, 1), device, compiled, {})
    draft.write(tmp_path / "f.fourfold")
    assert [one["model"] for one in run_fake_json(tmp_path / "f.fourfold")] == ["one", "two"]
    (report,) = run_fake_json(tmp_path / "f.fourfold", "--model", "two")
    assert (report["model"], report["number"]) == ("two", 1)
    (report,) = run_fake_json(tmp_path / "f.fourfold", "--model", "three", status=1)
    assert report["status"] == "argument"
