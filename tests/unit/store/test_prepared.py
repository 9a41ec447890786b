"""Prepared files contain plans of models for several devices, and can be extended."""

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


def make_draft() -> Draft:
    result = Draft()
    number = result.add_model("m", "digest", 100)
    result.add_compiled(number, NULL_GPU, line(2.0), {})
    result.add_compiled(number, CPU, line(3.0), {})
    result.add_binary(program_parts(line().plan.program, NULL_GPU), b"\x7fELF")
    result.add_choices("gpu", {"conv": "wide"})
    return result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "m.fourfold"
    make_draft().write(file)
    return file


def selected_factor(prepared: Prepared, **facts: object) -> tuple[float, bool]:
    device = replace(NULL_GPU, **facts)  # type: ignore[arg-type]
    row = prepared.best(0, device)
    constants = prepared.model(row).plan.constants
    return float(constants[:4].view(np.float32)[0]), is_for(row, device)


def test_selects_the_plan_of_the_device(path: Path) -> None:
    prepared = Prepared.open(str(path))
    assert selected_factor(prepared) == (2.0, True)
    assert selected_factor(prepared, name="a cpu", kind="cpu") == (3.0, True)
    assert selected_factor(prepared, driver="new") == (2.0, True)


def test_unlisted_device_gets_a_plan_of_its_kind(path: Path) -> None:
    prepared = Prepared.open(str(path))
    assert selected_factor(prepared, name="b cpu", kind="cpu") == (3.0, False)
    assert selected_factor(prepared, name="b gpu") == (2.0, False)
    assert selected_factor(prepared, name="dsp", kind="other")[1] is False


def test_rejects_devices_that_are_too_small(path: Path) -> None:
    with pytest.raises(InputError, match="can run on"):
        selected_factor(Prepared.open(str(path)), max_allocation=10)


def model_requiring(**needed: Any) -> CompiledModel:
    compiled = line(5.0)
    requirements = compiled.plan.requirements._replace(**needed)
    return with_plan(compiled, replace(compiled.plan, requirements=requirements))


def write_plans(tmp_path: Path, *plans: tuple[DeviceInfo, CompiledModel, bool]) -> Prepared:
    """Write a file of plans, each for a device or generic."""
    result = Draft()
    number = result.add_model("m", "digest", 100)
    for device, compiled, generic in plans:
        result.add_compiled(number, device, compiled, {}, generic)
    result.write(tmp_path / "m.fourfold")
    return Prepared.open(str(tmp_path / "m.fourfold"))


def test_persistent_plans_need_enough_resident_groups(tmp_path: Path) -> None:
    """A plan of 132 waiting groups would never end on 16 units, whatever the vendor."""
    prepared = write_plans(tmp_path, (H200, model_requiring(resident_groups=132), False))
    assert selected_factor(prepared, name="b gpu", compute_units=132, resident=True) == (5.0, False)
    known_facts: dict[str, object] = {"name": "b gpu", "probed": ("resident",), "resident": False}
    for facts in (
        {
            "vendor": "NVIDIA Corporation",
            "platform": "NVIDIA CUDA",
            "compute_units": 16,
            **known_facts,
        },
        {"vendor": "NVIDIA Corporation", "compute_units": 132, **known_facts},
        {"compute_units": 16, "resident": True},
    ):
        with pytest.raises(InputError, match="can run on") as caught:
            selected_factor(prepared, **facts)
        assert "132 of its work-groups wait" in caught.value.why


def test_device_without_a_feature_gets_the_generic_plan(tmp_path: Path) -> None:
    special = model_requiring(resident_groups=132, matrix_units=True)
    prepared = write_plans(tmp_path, (H200, special, False), (ANY_GPU, line(2.0), True))
    nvidia = {"vendor": "NVIDIA Corporation", "platform": "NVIDIA CUDA", "compute_units": 16}
    assert selected_factor(prepared, name="b gpu", **nvidia) == (2.0, False)
    facts = {"matrix_units": True, "resident": True}
    assert selected_factor(prepared, name="b gpu", compute_units=148, **facts) == (5.0, False)
    # A plan made for few units would leave many idle.
    assert selected_factor(prepared, name="b gpu", compute_units=300, **facts) == (2.0, False)
    assert selected_factor(prepared, name="dsp", kind="other")[1] is False


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
def test_plans_with_special_instructions_need_devices_that_support_them(
    needed: dict[str, Any], facts: dict[str, Any], tmp_path: Path
) -> None:
    prepared = write_plans(tmp_path, (NULL_GPU, model_requiring(**needed), False))
    assert selected_factor(prepared, name="b gpu", **facts) == (5.0, False)
    with pytest.raises(InputError, match="can run on"):
        selected_factor(prepared, name="b gpu", vendor="NVIDIA Corporation", platform="NVIDIA CUDA")


def test_probes_only_facts_that_decide(tmp_path: Path) -> None:
    special = model_requiring(resident_groups=16, matrix_units=True)
    prepared = write_plans(tmp_path, (NULL_GPU, special, False), (ANY_GPU, line(2.0), True))
    probed: list[set[str]] = []

    def probe(device: DeviceInfo, names: Collection[str]) -> DeviceInfo:
        probed.append(set(names))
        return device.with_facts({"matrix_units": True, "resident": True})

    def selected_device(**facts: Any) -> str:
        probed.clear()
        device = replace(NULL_GPU, **facts)
        return str(prepared.best(0, device, ask=probe)["device"])

    assert selected_device(name="b gpu") == "null"
    assert probed == [{"matrix_units", "resident"}]
    assert selected_device(name="b gpu", matrix_units=True, resident=True) == "null"
    assert probed == []
    # 8 units are too few in any case
    assert selected_device(name="b gpu", compute_units=8) == "any gpu"
    assert probed == []
    # the best of another kind is better than none
    assert selected_device(name="b gpu", kind="cpu") == "null"


def test_prepared_plans_include_device_facts(tmp_path: Path) -> None:
    probed_device = NULL_GPU.with_facts({"matrix_units": True, "subgroups": "ptx"})
    prepared = write_plans(tmp_path, (probed_device, model_requiring(matrix_units=True), False))

    def probe(device: DeviceInfo, names: Collection[str]) -> DeviceInfo:
        raise AssertionError(f"{names} are known")

    assert prepared.best(0, NULL_GPU, ask=probe)["device"] == "null"
    # Another driver has to be probed again, and no probe is passed here.
    for change in ({"driver": "2"}, {"compute_units": 17}, {"api": "cuda"}):
        with pytest.raises(InputError, match="uses matrix units"):
            prepared.best(0, replace(NULL_GPU, **change))  # type: ignore[arg-type]
    without_matrix_units = replace(NULL_GPU, probed=("matrix_units",))
    with pytest.raises(InputError, match="uses matrix units"):
        prepared.best(0, without_matrix_units)


def test_binaries_match_one_driver(path: Path) -> None:
    prepared = Prepared.open(str(path))
    program = line().plan.program
    assert prepared.binary(program_parts(program, NULL_GPU)) == b"\x7fELF"
    assert prepared.binary(program_parts(program, replace(NULL_GPU, driver="2"))) is None
    assert prepared.choices("gpu") == {"conv": "wide"}


def test_reads_prepared_bytes(path: Path) -> None:
    content = path.read_bytes()
    assert is_prepared(content)
    assert is_prepared(str(path))
    assert not is_prepared(b"TFL3")
    assert selected_factor(Prepared.open(content, "all")) == (2.0, True)


def test_rejects_options_and_models_that_were_not_prepared(path: Path) -> None:
    prepared = Prepared.open(str(path))
    with pytest.raises(InputError, match="mixed"):
        prepared.best(0, NULL_GPU, CompileOptions("mixed"))
    with pytest.raises(InputError, match="prepared for: fp32"):
        prepared.best(0, NULL_GPU, CompileOptions(any_precision=True, shapes={"x": (2, 2)}))
    with pytest.raises(InputError, match="did you mean 'm'"):
        prepared.choose_model("mm")


def test_several_models_need_a_name(path: Path) -> None:
    more = Draft.of(Prepared.open(str(path)))
    more.add_compiled(more.add_model("n", "other", 7), NULL_GPU, line(5.0), {})
    more.write(path)
    prepared = Prepared.open(str(path))
    with pytest.raises(InputError, match="2 models"):
        prepared.choose_model(None)
    assert [prepared.choose_model(name) for name in ("m", "n")] == [0, 1]


def test_adding_keeps_plans_and_shares_equal_sections(path: Path) -> None:
    before = path.stat().st_size
    more = Draft.of(Prepared.open(str(path)))
    more.add_compiled(0, OTHER_GPU, line(2.0), {})
    more.write(path)
    prepared = Prepared.open(str(path))
    assert selected_factor(prepared) == (2.0, True)
    assert selected_factor(prepared, name="another gpu", platform="other") == (2.0, True)
    assert selected_factor(prepared, name="a cpu", kind="cpu") == (3.0, True)
    assert prepared.choices("gpu") == {"conv": "wide"}
    plans = prepared.index["plans"]
    assert plans[0]["sections"] == plans[2]["sections"]
    assert path.stat().st_size < before + 1024


def test_model_with_other_content_replaces_the_old_one(path: Path) -> None:
    more = Draft.of(Prepared.open(str(path)))
    number = more.add_model("m", "new digest", 100)
    more.add_compiled(number, NULL_GPU, line(7.0), {})
    more.write(path)
    prepared = Prepared.open(str(path))
    assert prepared.models == ("m",)
    assert selected_factor(prepared, name="a cpu", kind="cpu") == (7.0, False)


def test_flipped_bytes_are_detected_or_harmless(path: Path) -> None:
    content = path.read_bytes()
    for offset in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[offset] ^= 0x40
        try:
            prepared = Prepared.open(bytes(damaged), "all")
            assert selected_factor(prepared) == (2.0, True)
            assert selected_factor(prepared, name="a cpu", kind="cpu") == (3.0, True)
        except ModelError:
            continue


def test_full_disk_leaves_the_file_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_rejects_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open"):
        Prepared.open(str(tmp_path / "none.fourfold"))
