"""From a model to a file prepared on another machine, and run in Python and in C."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from remote.machine_setup import HOST, SERIAL, FakeMachine, drivers
from small_networks import small_onnx
from stateful_models import svdf

import fourfold
from fourfold.backends import backend_of, determine_facts, find_device, make_player, probe, registry
from fourfold.backends.native import build_player
from fourfold.backends.remote.steps import StepFailed
from fourfold.cli import main
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import Program
from fourfold.store.keys import device_key, program_parts
from fourfold.store.prepared import Prepared
from fourfold.store.store import folder_store

pytestmark = pytest.mark.needs_device
ADDRESSES = {"adb": f"adb:{SERIAL}", "ssh": f"ssh:{HOST}"}
FACTS = ("half_arithmetic", "dot_products", "subgroups", "matrix_units", "self_test")
MORE_FACTS = ("forward_progress", "image_texels", "image_windows", "prefers_images")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return path


def call(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def call_json(*words: str) -> dict[str, Any]:
    done = call(*words, "--json")
    assert done.exit_code == 0, done.output
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def prepare(model: Path, *more: str) -> Path:
    output = model.with_suffix(".fourfold")
    done = call("prepare", str(model), "-o", str(output), "--only-here", *more)
    assert done.exit_code == 0, done.output
    return output


def random_inputs(session: fourfold.Session) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {one.name: random.uniform(-1, 1, one.shape).astype(one.dtype) for one in session.inputs}


@pytest.mark.parametrize("api", ["adb", "ssh"])
def test_remote_facts_equal_local_facts(machine: FakeMachine, api: str) -> None:
    there = find_device(ADDRESSES[api])
    here = next(
        one for one in registry.backends()["opencl"].devices() if one.ordinal == there.ordinal
    )
    for name in vars(here):
        if name not in (*FACTS, *MORE_FACTS, "remote", "index", "others", "probed", "memory"):
            assert getattr(there, name) == getattr(here, name), name
    tried = determine_facts(there, (*FACTS, *MORE_FACTS))
    local_facts = determine_facts(here, (*FACTS, *MORE_FACTS))
    assert {one: getattr(tried, one) for one in tried.probed} == {
        one: getattr(local_facts, one) for one in tried.probed
    }
    assert set(tried.probed) >= {*FACTS, *MORE_FACTS}
    assert machine.left == []


def test_prepares_remotely_and_runs_in_python_and_c(
    machine: FakeMachine, model: Path, store: Path, tmp_path: Path
) -> None:
    file = prepare(model, "--adb", SERIAL)
    assert machine.left == []
    prepared = Prepared.open(str(file))
    assert prepared.index["binaries"]
    with fourfold.Session(str(model), device="opencl", cache=None) as session:
        inputs = random_inputs(session)
        expected = session.run(inputs)
    with fourfold.Session(str(file), device="opencl", cache=None) as session:
        assert session.timings["build"] >= 0.0
        outputs = session.run(inputs)
        for name, array in expected.items():
            np.testing.assert_allclose(outputs[name], array, atol=1e-5)
    for number, array in enumerate(inputs.values()):
        np.save(tmp_path / f"0.{number}.npy", array)
    words = ["--inputs", str(tmp_path), "--output", str(tmp_path / "out"), "--json"]
    player = build_player(None, os.fspath(store))
    environment = {**os.environ, **drivers()}
    done = subprocess.run(
        [player, file, *words], capture_output=True, text=True, check=True, env=environment
    )
    line = json.loads(done.stdout.splitlines()[0])
    assert line["program"] == "file", "the binary of the other machine was not taken"
    for number, name in enumerate(outputs):
        np.testing.assert_array_equal(np.load(tmp_path / "out" / f"0.{number}.npy"), outputs[name])


def test_probe_and_tuning_results_are_cached_and_prepared(
    machine: FakeMachine, model: Path, store: Path
) -> None:
    device = find_device(ADDRESSES["adb"])
    file = prepare(model, "--adb", SERIAL, "--tune", "rapid", "--deadline", "60")
    kept = folder_store(str(store), 1 << 30)
    key = device_key(device)
    assert kept.choices(key)
    assert Prepared.open(str(file)).choices(key).items() <= kept.choices(key).items()
    assert kept.find_facts(device).facts.keys() >= {"self_test"}
    row = Prepared.open(str(file)).index["plans"][0]
    assert row["facts"].keys() >= {"self_test"}
    assert row["made_for"]["api"] == "opencl"
    plan = Prepared.open(str(file)).model(row).plan
    assert kept.find_binary(program_parts(plan.program, device)) is not None
    machine.forget_calls()
    prepare(model, "--adb", SERIAL, "--tune", "rapid", "--deadline", "60")
    # Folder, player and device list: nothing is probed, built or timed again.
    assert machine.calls < 15


def test_remote_session_computes_the_same(machine: FakeMachine, model: Path) -> None:
    with fourfold.Session(str(model), device="opencl", cache=None) as here:
        inputs = random_inputs(here)
        expected = here.run(inputs)
    with fourfold.Session(str(model), device=ADDRESSES["adb"]) as there:
        for _ in range(2):
            outputs = there.run(inputs)
            for name, array in expected.items():
                np.testing.assert_allclose(outputs[name], array, atol=1e-5)
        name = next(iter(expected))
        into = np.zeros_like(expected[name])
        there.run(inputs, out={name: into})
        np.testing.assert_allclose(into, expected[name], atol=1e-5)
        assert there.profile(inputs)[0].seconds > 0
        assert len(there.run_seconds(inputs, 3)) == 3
        assert there.run_async(inputs).result().keys() == expected.keys()
    assert machine.left == []


def test_remote_states_persist(machine: FakeMachine, tmp_path: Path) -> None:
    path = tmp_path / "state.tflite"
    path.write_bytes(svdf())
    with fourfold.Session(str(path), device="opencl", cache=None) as here:
        inputs = random_inputs(here)
        expected = [here.run(inputs)["y"] for _ in range(3)]
    with fourfold.Session(str(path), device=ADDRESSES["adb"], placement="gpu") as there:
        for _ in range(2):
            outputs = [there.run(inputs)["y"] for _ in range(3)]
            np.testing.assert_allclose(outputs, expected, atol=1e-5)
            there.reset()


@pytest.mark.parametrize("words", [("--adb", SERIAL), ("--ssh", HOST), ("--adb", "auto")])
def test_benchmarks_remotely(machine: FakeMachine, model: Path, words: tuple[str, ...]) -> None:
    report = call_json("bench", str(model), "--seconds", "0.1", *words)
    assert report["seconds"]["fourfold"]["runs"] >= 1
    assert " on adb:" in report["device"] or " on ssh:" in report["device"]
    assert not report["compared"]
    assert machine.left == []


def test_verifies_remotely(machine: FakeMachine, model: Path) -> None:
    assert call_json("verify", str(model), "--adb", SERIAL)["agrees"]


def test_lists_devices_of_phones(machine: FakeMachine) -> None:
    report = call_json("devices", "--adb", "--ssh", HOST)
    addresses = {one["address"] for one in report["devices"]}
    assert {f"adb:{SERIAL}", f"ssh:{HOST}"} <= addresses
    assert all(one["verdict"].startswith("right") for one in report["devices"])


def test_finds_a_remote_device_by_number(machine: FakeMachine) -> None:
    assert find_device(f"adb:{SERIAL}/0").ordinal == 0
    with pytest.raises(DeviceError, match="device adb:"):
        find_device(f"adb:{SERIAL}/99")


def test_rejects_two_machines(machine: FakeMachine, model: Path) -> None:
    done = call("run", str(model), "--adb", SERIAL, "--ssh", HOST)
    assert done.exit_code == 2
    assert "several devices were named" in done.output


def test_reports_remote_build_errors(machine: FakeMachine) -> None:
    device = find_device(ADDRESSES["adb"])
    with pytest.raises(BuildError, match="do not build"):
        backend_of(device).build_binary(device, Program("__kernel void k( {", ""))
    good = Program("__kernel void k(__global int *a, long b) { a[b] = 1; }", "")
    assert backend_of(device).build_binary(device, good)
    assert machine.left == []


def test_failed_step_does_not_end_the_connection(machine: FakeMachine, model: Path) -> None:
    device = probe(find_device(ADDRESSES["adb"]))
    with fourfold.Session(str(model), device="opencl", cache=None) as here:
        plan, inputs = here.plan, list(random_inputs(here).values())
    player = make_player(device, plan)
    for step in ("read 99 0 4 x", "time 0 9999 1", "jump", "input 77 x", "blank 0 0 99999999999"):
        with pytest.raises(StepFailed):
            player._ask(step)  # type: ignore[attr-defined]
    assert player.run(inputs)[0].shape == plan.outputs[0].type.shape
    player.close()
    player.close()
    assert machine.left == []
