"""trust='data': nothing that a prepared file holds runs as native code of this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_calls import ask, call
from docs.tiny_model import tiny_model
from tiny_plan import with_plan

import fourfold
from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, InputError
from fourfold.options import SessionOptions
from fourfold.runtime.loading import load_compiled
from fourfold.runtime.opening import open_request
from fourfold.store.draft import Draft
from fourfold.store.prepared import Prepared

IMAGE = np.ones((1, 32, 32, 3), np.float32)
pytestmark = pytest.mark.devices(takes=lambda device: device.api == "opencl")


@pytest.fixture
def prepared(tmp_path: Path, device: DeviceInfo) -> Path:
    model, path = tmp_path / "tiny.tflite", tmp_path / "tiny.fourfold"
    model.write_bytes(tiny_model())
    fourfold.prepare(model, path, devices=device, everywhere=False, cache=None)
    return path


def test_binaries_and_facts_are_left_out(prepared: Path) -> None:
    everything, data = (Prepared.open(str(prepared), trust) for trust in ("all", "data"))
    assert everything.index["binaries"]
    assert everything.rows[0]["facts"]
    assert data.index["binaries"] == []
    assert [row["facts"] for row in data.rows] == [{} for _ in data.rows]


@pytest.mark.devices(takes=lambda device: device.is_cpu)
def test_kernels_are_not_compiled_for_a_cpu(
    prepared: Path, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in (prepared, prepared.read_bytes()):
        with pytest.raises(InputError, match="with trust='data'") as failure:
            fourfold.Session(source, device, cache=None, trust="data")
        assert "does not hold the original model" in failure.value.why
    monkeypatch.setenv("FOURFOLD_TRUST", "data")
    with pytest.raises(InputError, match="with trust='data'"):
        fourfold.Session(prepared, device, cache=None)
    with fourfold.Session(prepared, device, cache=None, trust="all") as session:
        assert session.origin == "file"


@pytest.mark.parametrize("host_pointers", [True, False])
def test_kernels_run_on_a_gpu_that_cannot_reach_the_process(
    prepared: Path, device: DeviceInfo, host_pointers: bool
) -> None:
    request, _ = open_request(str(prepared), SessionOptions(device=device, trust="data"))
    facts = {"host_pointers": host_pointers}
    gpu = replace(request.device, kind="gpu").with_facts(facts)
    request = request._replace(device=gpu)
    if host_pointers:
        with pytest.raises(InputError, match="with trust='data'"):
            load_compiled(request, None)
        return
    loaded = load_compiled(request, None)
    assert [loaded.find_binary(plan) for plan in loaded.model.plans] == [None]


def test_data_files_open(tmp_path: Path, device: DeviceInfo) -> None:
    with fourfold.Session(tiny_model(), device, cache=None, trust="data") as session:
        assert session.origin == "model"


def test_commands_take_the_option(prepared: Path, device: DeviceInfo) -> None:
    here = ("--device", device.index)
    assert ask("inspect", prepared, "--trust", "data")["binaries"]
    assert ask("check", prepared, *here, "--trust", "data")["prepared"]["has_binaries"] is False
    assert ask("check", prepared, *here)["prepared"]["has_binaries"] is True
    assert call("explain", prepared, "--trust", "data").exit_code == 0
    result = call("run", prepared, *here, "--trust", "signed:12")
    assert "a key has 64 hexadecimal digits" in result.output


@pytest.mark.devices(takes=lambda device: device.is_cpu)
def test_the_model_in_a_file_is_compiled_instead(tmp_path: Path, device: DeviceInfo) -> None:
    """The kernels of the file are not used: here they are wrong."""
    model, path = tmp_path / "tiny.tflite", tmp_path / "tiny.fourfold"
    model.write_bytes(tiny_model())
    options = {"devices": device, "everywhere": False, "include_model": True, "cache": None}
    fourfold.prepare(model, path, **options)
    with fourfold.Session(path, device, cache=None) as session:
        wanted = session.run(IMAGE)["scores"]
    draft = Draft.of(Prepared.open(str(path)))
    compiled = Prepared.open(str(path)).model(Prepared.open(str(path)).rows[0])
    program = compiled.plan.program._replace(text="this is no kernel")
    wrong = with_plan(compiled, replace(compiled.plan, program=program))
    draft.add_compiled(0, device, wrong, {})
    draft.write(path)
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):
        with fourfold.Session(path, device, cache=cache, trust="data") as session:
            assert np.array_equal(session.run(IMAGE)["scores"], wanted)
    assert session.origin == "store"
    with pytest.raises(BuildError):
        fourfold.Session(path, device, cache=None)


def test_models_are_included_on_request(tmp_path: Path, device: DeviceInfo) -> None:
    model = tmp_path / "tiny.tflite"
    model.write_bytes(tiny_model())
    ask("prepare", model, "-o", tmp_path / "a.fourfold", "--device", device.index)
    ask(
        "prepare", model, "-o", tmp_path / "b.fourfold", "--device", device.index, "--include-model"
    )
    sources = [Prepared.open(str(tmp_path / f"{name}.fourfold")).source(0) for name in "ab"]
    assert sources == [None, tiny_model()]
