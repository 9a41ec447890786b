"""Prepared files: models for several devices in one file, added to without a loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_plan import line

from fourfold.errors import InputError, ModelError
from fourfold.plan import BufferUse
from fourfold.players.null import NULL_GPU
from fourfold.store.draft import Draft
from fourfold.store.keys import program_parts
from fourfold.store.prepared import Prepared, is_for, is_prepared
from fourfold.types import TensorType

CPU = replace(NULL_GPU, name="a cpu", kind="cpu")
OTHER_GPU = replace(NULL_GPU, name="another gpu", platform="other")


def draft() -> Draft:
    made = Draft()
    number = made.add_model("m", "digest", 100)
    made.add_plan(number, NULL_GPU, line(2.0), {})
    made.add_plan(number, CPU, line(3.0), {})
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
    row = prepared.best(0, device, None, None)
    constants = prepared.plan(row).plan.constants
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


def test_instructions_of_one_vendor_are_for_its_devices(tmp_path: Path) -> None:
    made, compiled = Draft(), line(5.0)
    text = compiled.plan.program.text + '// asm volatile("mma.sync.aligned");'
    plan = replace(compiled.plan, program=compiled.plan.program._replace(text=text))
    number = made.add_model("m", "digest", 100)
    made.add_plan(number, NULL_GPU, replace(compiled, plan=plan), {})
    made.write(tmp_path / "m.fourfold")
    prepared = Prepared.open(str(tmp_path / "m.fourfold"))
    assert factor(prepared, name="b gpu", vendor="NVIDIA Corporation") == (5.0, False)
    with pytest.raises(InputError, match="can run on"):
        factor(prepared, name="b gpu", vendor="other", platform="other")


def test_images_are_for_devices_that_have_them(tmp_path: Path) -> None:
    made, compiled = Draft(), line(5.0)
    (launch,) = compiled.plan.launches
    use = BufferUse(1, 8, TensorType.parse("f16[6,4]"))
    launch = launch._replace(arguments=(use, *launch.arguments[1:]))
    plan = replace(compiled.plan, launches=(launch,))
    made.add_plan(made.add_model("m", "digest", 100), NULL_GPU, replace(compiled, plan=plan), {})
    made.write(tmp_path / "m.fourfold")
    prepared = Prepared.open(str(tmp_path / "m.fourfold"))
    assert factor(prepared) == (5.0, True)  # whose images may begin near what is read
    assert factor(prepared, name="b gpu", image_texels=8) == (5.0, False)
    for few in (0, 7):
        with pytest.raises(InputError, match="can run on"):
            factor(prepared, name="b gpu", image_texels=few)


def test_sub_groups_are_for_devices_that_have_them(tmp_path: Path) -> None:
    made, compiled = Draft(), line(5.0)
    text = compiled.plan.program.text + "// sub_group_shuffle_xor(value, 1)"
    plan = replace(compiled.plan, program=compiled.plan.program._replace(text=text))
    number = made.add_model("m", "digest", 100)
    made.add_plan(number, NULL_GPU, replace(compiled, plan=plan), {})
    made.write(tmp_path / "m.fourfold")
    prepared = Prepared.open(str(tmp_path / "m.fourfold"))
    assert factor(prepared, name="b gpu", subgroups="khr") == (5.0, False)
    for other in ("", "ptx"):
        with pytest.raises(InputError, match="can run on"):
            factor(prepared, name="b gpu", subgroups=other)


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
        prepared.best(0, NULL_GPU, "mixed", None)
    with pytest.raises(InputError, match="prepared for: fp32"):
        prepared.best(0, NULL_GPU, None, {"x": (2, 2)})
    with pytest.raises(InputError, match="did you mean 'm'"):
        prepared.choose_model("mm")


def test_one_of_several_models_needs_a_name(path: Path) -> None:
    more = Draft.of(Prepared.open(str(path)))
    more.add_plan(more.add_model("n", "other", 7), NULL_GPU, line(5.0), {})
    more.write(path)
    prepared = Prepared.open(str(path))
    with pytest.raises(InputError, match="2 models"):
        prepared.choose_model(None)
    assert [prepared.choose_model(name) for name in ("m", "n")] == [0, 1]


def test_adding_loses_nothing_and_keeps_equal_pieces_once(path: Path) -> None:
    before = path.stat().st_size
    more = Draft.of(Prepared.open(str(path)))
    more.add_plan(0, OTHER_GPU, line(2.0), {})
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
    more.add_plan(number, NULL_GPU, line(7.0), {})
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
    more.add_plan(0, OTHER_GPU, line(9.0), {})
    monkeypatch.setattr("fourfold.plan.container._write", full)
    with pytest.raises(InputError, match="No space left"):
        more.write(path)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_missing_file_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open"):
        Prepared.open(str(tmp_path / "none.fourfold"))
