"""Prepared files: models for several devices in one file, added to without a loss."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_devices import H200
from tiny_plan import line, with_plan

from fourfold.backends.null import NULL_GPU
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, ModelError
from fourfold.options import CompileOptions
from fourfold.plan import CompiledModel
from fourfold.plan.requirements import ImageNeed
from fourfold.store.draft import Draft
from fourfold.store.keys import program_parts
from fourfold.store.prepared import Prepared, is_for, is_prepared
from fourfold.tools.preparation import ANY_GPU

CPU = replace(NULL_GPU, name="a cpu", kind="cpu")
OTHER_GPU = replace(NULL_GPU, name="another gpu", platform="other")


def draft() -> Draft:
    made = Draft()
    number = made.add_model("m", "digest", 100)
    made.add_compiled(number, NULL_GPU, line(2.0), {})
    made.add_compiled(number, CPU, line(3.0), {})
    made.add_binary(program_parts(line().plan.program, NULL_GPU), b"\x7fELF")
    made.add_choices("gpu", {"conv": "wide"})
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "m.fourfold"
    draft().write(file)
    return file


def factor(prepared: Prepared, **facts: object) -> tuple[float, bool]:
    device = replace(NULL_GPU, **facts)  # type: ignore[arg-type]
    row = prepared.best(0, device)
    constants = prepared.model(row).plan.constants
    return float(constants[:4].view(np.float32)[0]), is_for(row, device)


def test_the_plan_of_the_device_is_found(path: Path) -> None:
    prepared = Prepared.open(str(path))
    assert factor(prepared) == (2.0, True)
    assert factor(prepared, name="a cpu", kind="cpu") == (3.0, True)
    assert factor(prepared, driver="new") == (2.0, True)


def test_an_unknown_device_gets_the_plan_of_its_kind(path: Path) -> None:
    prepared = Prepared.open(str(path))
    assert factor(prepared, name="b cpu", kind="cpu") == (3.0, False)
    assert factor(prepared, name="b gpu") == (2.0, False)
    assert factor(prepared, name="dsp", kind="other")[1] is False


def test_a_device_that_is_too_small_is_told(path: Path) -> None:
    with pytest.raises(InputError, match="can run on"):
        factor(Prepared.open(str(path)), max_allocation=10)


def needing(**needed: Any) -> CompiledModel:
    compiled = line(5.0)
    requirements = compiled.plan.requirements._replace(**needed)
    return with_plan(compiled, replace(compiled.plan, requirements=requirements))


def file_of(tmp_path: Path, *plans: tuple[DeviceInfo, CompiledModel, bool]) -> Prepared:
    """A file with plans, each made for a device, generic or not."""
    made = Draft()
    number = made.add_model("m", "digest", 100)
    for device, compiled, generic in plans:
        made.add_compiled(number, device, compiled, {}, generic)
    made.write(tmp_path / "m.fourfold")
    return Prepared.open(str(tmp_path / "m.fourfold"))


def test_groups_that_wait_are_for_devices_that_have_them_all(tmp_path: Path) -> None:
    """Whoever sold the device: a plan of 132 groups would never end on 16 units."""
    prepared = file_of(tmp_path, (H200, needing(resident_groups=132), False))
    assert factor(prepared, name="b gpu", compute_units=132, resident=True) == (5.0, False)
    known: dict[str, object] = {"name": "b gpu", "probed": ("resident",), "resident": False}
    for facts in (
        {"vendor": "NVIDIA Corporation", "platform": "NVIDIA CUDA", "compute_units": 16, **known},
        {"vendor": "NVIDIA Corporation", "compute_units": 132, **known},
        {"compute_units": 16, "resident": True},
    ):
        with pytest.raises(InputError, match="can run on") as caught:
            factor(prepared, **facts)
        assert "132 of its work-groups wait" in caught.value.why


def test_a_device_that_lacks_something_gets_the_generic_plan(tmp_path: Path) -> None:
    special = needing(resident_groups=132, matrix_units=True)
    prepared = file_of(tmp_path, (H200, special, False), (ANY_GPU, line(2.0), True))
    nvidia = {"vendor": "NVIDIA Corporation", "platform": "NVIDIA CUDA", "compute_units": 16}
    assert factor(prepared, name="b gpu", **nvidia) == (2.0, False)
    facts = {"matrix_units": True, "resident": True}
    assert factor(prepared, name="b gpu", compute_units=148, **facts) == (5.0, False)
    # What was made for few units would leave many idle.
    assert factor(prepared, name="b gpu", compute_units=300, **facts) == (2.0, False)
    assert factor(prepared, name="dsp", kind="other")[1] is False


@pytest.mark.parametrize(
    ("needed", "facts"),
    [
        ({"matrix_units": True}, {"matrix_units": True}),
        ({"subgroups": "khr"}, {"subgroups": "khr"}),
        ({"dot_products": "ptx"}, {"dot_products": "ptx"}),
        ({"packs_bytes": True}, {"dot_products": "x86"}),
        ({"reaches_host": True}, {"reaches_host": True}),
        ({"images": (ImageNeed(8, 6, 8),)}, {"image_texels": 8}),
    ],
)
def test_special_instructions_are_for_devices_that_have_them(
    needed: dict[str, Any], facts: dict[str, Any], tmp_path: Path
) -> None:
    prepared = file_of(tmp_path, (NULL_GPU, needing(**needed), False))
    assert factor(prepared, name="b gpu", **facts) == (5.0, False)
    with pytest.raises(InputError, match="can run on"):
        factor(prepared, name="b gpu", vendor="NVIDIA Corporation", platform="NVIDIA CUDA")


def test_what_decides_is_asked_for_then_and_only_then(tmp_path: Path) -> None:
    special = needing(resident_groups=16, matrix_units=True)
    prepared = file_of(tmp_path, (NULL_GPU, special, False), (ANY_GPU, line(2.0), True))
    asked: list[set[str]] = []

    def ask(device: DeviceInfo, names: Collection[str]) -> DeviceInfo:
        asked.append(set(names))
        return device.with_facts({"matrix_units": True, "resident": True})

    def chosen(**facts: Any) -> str:
        asked.clear()
        device = replace(NULL_GPU, **facts)
        return str(prepared.best(0, device, ask=ask)["device"])

    assert chosen(name="b gpu") == "null"
    assert asked == [{"matrix_units", "resident"}]
    assert chosen(name="b gpu", matrix_units=True, resident=True) == "null"
    assert asked == []
    assert chosen(name="b gpu", compute_units=8) == "any gpu"  # 8 units are too few in any case
    assert asked == []
    assert chosen(name="b gpu", kind="cpu") == "null"  # rather than none of another kind


def test_the_facts_of_a_device_come_with_its_plans(tmp_path: Path) -> None:
    told = NULL_GPU.with_facts({"matrix_units": True, "subgroups": "ptx"})
    prepared = file_of(tmp_path, (told, needing(matrix_units=True), False))

    def ask(device: DeviceInfo, names: Collection[str]) -> DeviceInfo:
        raise AssertionError(f"{names} are known")

    assert prepared.best(0, NULL_GPU, ask=ask)["device"] == "null"
    # With another driver it has to be asked anew, and here nobody answers.
    for change in ({"driver": "2"}, {"compute_units": 17}, {"api": "cuda"}):
        with pytest.raises(InputError, match="uses matrix units"):
            prepared.best(0, replace(NULL_GPU, **change))  # type: ignore[arg-type]
    known = replace(NULL_GPU, probed=("matrix_units",))
    with pytest.raises(InputError, match="uses matrix units"):
        prepared.best(0, known)


def test_binaries_are_for_one_driver(path: Path) -> None:
    prepared = Prepared.open(str(path))
    program = line().plan.program
    assert prepared.binary(program_parts(program, NULL_GPU)) == b"\x7fELF"
    assert prepared.binary(program_parts(program, replace(NULL_GPU, driver="2"))) is None
    assert prepared.choices("gpu") == {"conv": "wide"}


def test_bytes_serve_as_well(path: Path) -> None:
    content = path.read_bytes()
    assert is_prepared(content)
    assert is_prepared(str(path))
    assert not is_prepared(b"TFL3")
    assert factor(Prepared.open(content)) == (2.0, True)


def test_what_is_asked_for_must_be_there(path: Path) -> None:
    prepared = Prepared.open(str(path))
    with pytest.raises(InputError, match="mixed"):
        prepared.best(0, NULL_GPU, CompileOptions("mixed"))
    with pytest.raises(InputError, match="prepared for: fp32"):
        prepared.best(0, NULL_GPU, CompileOptions(any_precision=True, shapes={"x": (2, 2)}))
    with pytest.raises(InputError, match="did you mean 'm'"):
        prepared.choose_model("mm")


def test_one_of_several_models_needs_a_name(path: Path) -> None:
    more = Draft.of(Prepared.open(str(path)))
    more.add_compiled(more.add_model("n", "other", 7), NULL_GPU, line(5.0), {})
    more.write(path)
    prepared = Prepared.open(str(path))
    with pytest.raises(InputError, match="2 models"):
        prepared.choose_model(None)
    assert [prepared.choose_model(name) for name in ("m", "n")] == [0, 1]


def test_adding_loses_nothing_and_keeps_equal_pieces_once(path: Path) -> None:
    before = path.stat().st_size
    more = Draft.of(Prepared.open(str(path)))
    more.add_compiled(0, OTHER_GPU, line(2.0), {})
    more.write(path)
    prepared = Prepared.open(str(path))
    assert factor(prepared) == (2.0, True)
    assert factor(prepared, name="another gpu", platform="other") == (2.0, True)
    assert factor(prepared, name="a cpu", kind="cpu") == (3.0, True)
    assert prepared.choices("gpu") == {"conv": "wide"}
    plans = prepared.index["plans"]
    assert plans[0]["sections"] == plans[2]["sections"]
    assert path.stat().st_size < before + 1024


def test_a_model_with_other_content_takes_the_place_of_the_old(path: Path) -> None:
    more = Draft.of(Prepared.open(str(path)))
    number = more.add_model("m", "new digest", 100)
    more.add_compiled(number, NULL_GPU, line(7.0), {})
    more.write(path)
    prepared = Prepared.open(str(path))
    assert prepared.models == ("m",)
    assert factor(prepared, name="a cpu", kind="cpu") == (7.0, False)


def test_every_flipped_byte_is_seen_or_harmless(path: Path) -> None:
    content = path.read_bytes()
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 0x40
        try:
            prepared = Prepared.open(bytes(damaged))
            assert factor(prepared) == (2.0, True)
            assert factor(prepared, name="a cpu", kind="cpu") == (3.0, True)
        except ModelError:
            continue


def test_a_full_disk_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    more = Draft.of(Prepared.open(str(path)))
    more.add_compiled(0, OTHER_GPU, line(9.0), {})
    monkeypatch.setattr("fourfold.plan.container._write", full)
    with pytest.raises(InputError, match="No space left"):
        more.write(path)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_missing_file_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open"):
        Prepared.open(str(tmp_path / "none.fourfold"))
