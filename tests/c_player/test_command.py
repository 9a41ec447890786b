"""Checks the command fourfold-run: arguments, output and exit status."""

from __future__ import annotations

import re
import subprocess
from dataclasses import MISSING, fields
from pathlib import Path

import numpy as np
import pytest
from c_player.build import LIBRARY, build_program, environment, run, run_json
from c_player.fake_device import fake_device, prepare_fake, run_fake, run_fake_json
from c_player.test_format_reader import prepared
from stateful_models import stream
from tiny_plan import X, line

import fourfold
from fourfold.backends.opencl import devices
from fourfold.backends.opencl.devices import _multiplies_bytes
from fourfold.device import DeviceInfo
from fourfold.plan.container import VERSION

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "c-player.md"
RAW = ("extensions", "image_texels", "multiplies_bytes", "device")


def test_probe_matches_python(device: DeviceInfo) -> None:
    (known, handle), *_ = devices.found_devices()
    report = run_json("--probe")[device.ordinal]
    for name in {field.name for field in fields(DeviceInfo)} & {*report} - {"image_texels"}:
        assert report[name] == getattr(known, name), name
    assert report["extensions"] == handle.text(0x1030).split()
    assert report["image_texels"] == known.claims["image_texels"]
    assert report["multiplies_bytes"] == _multiplies_bytes()
    needed = {field.name for field in fields(DeviceInfo) if field.default is MISSING}
    needed -= {field.name for field in fields(DeviceInfo) if field.default_factory is not MISSING}
    assert needed | {"address_bits", "language_version", "uuid", *RAW} == {*report}


def test_help_lists_every_documented_option() -> None:
    shown = run("--help")
    options = set(re.findall(r"`(--[a-z-]+)", PAGE.read_text(encoding="utf-8")))
    assert shown.returncode == 0
    assert set(re.findall(r"--[a-z-]+", shown.stdout)) == options
    assert f"format {VERSION}" in run("--version").stdout


@pytest.mark.parametrize(
    "words",
    [(), ("a", "b"), ("--what",), ("a", "--runs", "0"), ("a", "--runs", "x"), ("a", "--model")],
)
def test_rejects_invalid_arguments(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert "fourfold-run" in done.stderr


def test_fails_without_opencl(tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]})
    for words in (("--probe",), (path,)):
        (line_,) = run_json(*words, status=3, LIBOPENCL_SO_PATH="/nowhere")
        assert line_["status"] == "opencl"
        assert "'/nowhere'" in line_["error"]
    (line_,) = run_fake_json(path, "--device", "7", status=3)
    assert line_["status"] == "opencl"


@pytest.mark.parametrize("content", [b"", b"FOURFOLD", b"x" * 100, None])
def test_rejects_files_that_are_not_prepared(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "f.fourfold"
    if content is not None:
        path.write_bytes(content)
    (line_,) = run_fake_json(path, status=1)
    assert line_["status"] == "file"
    done = run_fake(path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")


def test_rejects_a_changed_header(tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]})
    data = bytearray(path.read_bytes())
    data[8] += 1
    path.write_bytes(data)
    assert "the checksum of its header" in run_fake_json(path, status=1)[0]["error"]


def test_reads_inputs_by_position_name_and_raw_bytes(tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]})
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.raw").write_bytes(X.tobytes())
    for given in ("x.npy", "x.raw"):
        for name in ("", "the x="):
            words = ("--input", f"{name}{tmp_path / given}", "--output", tmp_path / "out")
            (line_,) = run_fake_json(path, *words)
            assert not line_["inputs"][0]["made_up"]
            assert np.array_equal(np.load(line_["outputs"][0]["file"]), 2 * X + 1)


@pytest.mark.parametrize(
    "array", [X[:-1], X.astype(np.float64), X.reshape(4, 4), X.reshape(4, 4).T[::1]]
)
def test_rejects_mismatched_inputs(array: np.ndarray, tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]})
    np.save(tmp_path / "x.npy", array)
    (line_,) = run_fake_json(path, "--input", tmp_path / "x.npy", status=1)
    assert line_["status"] == "argument"
    assert line_["error"].endswith("does not match the input 'the x' of type f32[16]")


def test_generated_inputs_are_reproducible(tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]})
    outputs = []
    for number in range(2):
        run_fake_json(path, "--output", tmp_path / str(number))
        outputs.append(np.load(tmp_path / str(number) / "0.0.npy"))
    assert np.array_equal(*outputs)
    assert len(np.unique(outputs[0])) == 16
    assert np.all((outputs[0] >= 1) & (outputs[0] < 3))


def test_prints_readable_output(tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]})
    shown = run_fake(path, "--bench", "--profile", "--seconds", "0").stdout
    assert shown.startswith("line: plan for Fake GPU in fp32, opened in ")
    assert "2.000 us  line  y = line(x)" in shown
    assert "0: Fake GPU (Fake Platform, driver 1.0), gpu of 4 units" in run_fake("--probe").stdout


def test_states_persist_until_reset(device: DeviceInfo, tmp_path: Path) -> None:
    model = tmp_path / "stream.tflite"
    model.write_bytes(stream(start=0.5))
    path = prepared(model, device, tmp_path / "m.fourfold", "auto")
    session = fourfold.Session(str(path), device=device.address, cache=None)
    ones = [np.ones(info.shape, info.dtype) for info in session.inputs]
    expected = []
    for number in range(4):
        if number == 3:
            session.reset()
        expected.append(next(iter(session.run(ones).values())).tobytes().hex())
    program = build_program((*LIBRARY, Path(__file__).parent / "states.c"))
    words = [str(program), str(path), str(device.ordinal)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment())
    assert done.stdout.split() == expected
    assert expected[3] == expected[0] != expected[1]
