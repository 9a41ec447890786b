"""Models that need conversion, with a fake framework: caching, failures, and cleanup."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from fake_framework import FakeFramework, fake_framework
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.cli import main
from fourfold.compiler.convert import make_readable
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, ModelError
from fourfold.store.entry import CONVERTED
from fourfold.store.store import Store

LIMIT_SECONDS = 60.0  # far more than a conversion takes


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeFramework:
    """Install the framework, with a temporary folder of its own for leftovers of converters."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return fake_framework(tmp_path / "installed", monkeypatch)


@pytest.fixture
def temporary_folder(framework: FakeFramework) -> Path:
    return Path(tempfile.gettempdir())


def test_session_opens_converted_models(
    framework: FakeFramework, tmp_path: Path, device: DeviceInfo
) -> None:
    model = framework.write(tmp_path / "net", "copy", matrix())
    x = numbers(1)
    for number in (1, 2):
        with fourfold.Session(model, device, cache=tmp_path / "cache") as session:
            np.testing.assert_allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)
            assert session.origin == ("model" if number == 1 else "store")
            origin = session.placement.origin
    assert origin == "converted from Fake to TFLite with abacus 1.0"
    assert origin in str(session.placement)
    assert len(framework.runs(model)) == 1


def test_other_shapes_use_the_same_conversion(
    framework: FakeFramework, tmp_path: Path, device: DeviceInfo
) -> None:
    """A session converts once, even without a cache."""
    model = framework.write(tmp_path / "net", "copy", matrix())
    with fourfold.Session(model, device, cache=None) as session:
        session.resize({"x": (5, 4)})
        assert session.run(numbers(1, rows=5))["y"].shape == (5, 3)
        assert session.placement.whole
    assert len(framework.runs(model)) == 1


def test_cached_conversion_is_used_until_something_changes(
    framework: FakeFramework, tmp_path: Path
) -> None:
    model, store = framework.write(tmp_path / "net", "copy", matrix()), Store(tmp_path / "cache")

    def count() -> int:
        result = make_readable(str(model), store, LIMIT_SECONDS)
        assert result.content == (model / "weights.bin").read_bytes()
        return len(framework.runs(model))

    assert [count(), count()] == [1, 1]
    framework.install("2.0")
    assert [count(), count()] == [2, 2]
    (model / "weights.bin").write_bytes(matrix(repeat=True))
    assert [count(), count()] == [3, 3]
    script = framework.folder / "fake_converter.py"
    script.write_text(f"{script.read_text()}\nOTHER = 1\n")
    assert [count(), count()] == [4, 4]
    converted_entries = [entry for entry in store.entries() if entry.kind == CONVERTED]
    assert {entry.title for entry in converted_entries} == {"net"}
    (tmp_path / "cache" / "entries" / converted_entries[0].file).write_bytes(b"damaged")
    assert [count(), count()] == [5, 5]


def test_plan_is_rebuilt_for_another_framework_version(
    framework: FakeFramework, tmp_path: Path, device: DeviceInfo
) -> None:
    model = framework.write(tmp_path / "net", "copy", matrix())
    origins = []
    for version in ("1.0", "2.0", "2.0"):
        if version not in str(list(framework.folder.glob("*.dist-info"))):
            framework.install(version)
        with fourfold.Session(model, device, cache=tmp_path / "cache") as session:
            origins.append(session.origin)
    assert origins == ["model", "model", "store"]
    assert len(framework.runs(model)) == 2


def test_cached_conversion_needs_no_framework(framework: FakeFramework, tmp_path: Path) -> None:
    model, store = framework.write(tmp_path / "net", "copy", matrix()), Store(tmp_path / "cache")
    make_readable(str(model), store, LIMIT_SECONDS)
    framework.remove()
    result = make_readable(str(model), store, LIMIT_SECONDS)
    assert result.content == matrix()
    assert result.origin.endswith("abacus 1.0")


def test_error_without_the_framework_contains_the_install_command(
    framework: FakeFramework, tmp_path: Path, device: DeviceInfo
) -> None:
    model = framework.write(tmp_path / "net", "copy", matrix())
    framework.remove()
    for cache in (None, tmp_path / "cache"):
        with pytest.raises(InputError, match=r"pip install 'fourfold\[fake\]'") as caught:
            fourfold.Session(model, device, cache=cache)
        assert "'abacus' is not installed" in caught.value.why
    assert framework.runs(model) == []


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("fail", "ValueError: the layer 'dense' is odd and so is 'conv'"),
        ("die", "out of memory in pass 7"),
        ("nonsense", "no readable model, expected TFLite"),
    ],
)
def test_conversion_error_contains_the_converters_message(
    framework: FakeFramework, temporary_folder: Path, tmp_path: Path, order: str, words: str
) -> None:
    model, store = framework.write(tmp_path / "net", order), Store(tmp_path / "cache")
    with pytest.raises(ModelError) as caught:
        make_readable(str(model), store, LIMIT_SECONDS)
    assert words in caught.value.why
    assert "Fake" in caught.value.what
    assert "net'" in caught.value.what
    assert store.entries() == []
    assert list(temporary_folder.iterdir()) == []


def test_conversion_has_a_time_limit(
    framework: FakeFramework, temporary_folder: Path, tmp_path: Path
) -> None:
    model = framework.write(tmp_path / "net", "sleep")
    with pytest.raises(ModelError, match="did not finish within 5 seconds") as caught:
        make_readable(str(model), None, 5.0)
    assert "FOURFOLD_CONVERSION_LIMIT" in caught.value.fix
    assert list(temporary_folder.iterdir()) == []
    _assert_gone(framework, model)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as POSIX has them")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_converter_process_ends_with_its_parent(
    framework: FakeFramework, temporary_folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Covers Ctrl-C, and a parent that is killed."""
    model = framework.write(tmp_path / "net", "sleep")
    code = """
import sys, tempfile
sys.path[:] = sys.argv[1].split(chr(10))
tempfile.tempdir = sys.argv[3]
from _pytest.monkeypatch import MonkeyPatch
from pathlib import Path
import fake_framework
from fourfold.compiler.convert import make_readable
found = fake_framework.fake_framework(Path(sys.argv[2]).parent / "again", MonkeyPatch())
make_readable(sys.argv[2], None, 600.0)
"""
    paths = "\n".join(sys.path)
    command = [sys.executable, "-c", code, paths, str(model), str(temporary_folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as parent:
        _wait_for(lambda: framework.runs(model)[-1:] == ["ready"] or parent.poll() is not None)
        parent.send_signal(number)
        errors = parent.communicate()[1]
    assert ("KeyboardInterrupt" in errors) == (number is signal.SIGINT)
    assert parent.returncode != 0
    _wait_for(lambda: list(temporary_folder.iterdir()) == [])
    if number is signal.SIGINT:  # a killed parent cannot end what the converter started
        _assert_gone(framework, model)
    else:
        _wait_for(lambda: not _is_running(int(framework.runs(model)[0])))
        os.kill(int(framework.runs(model)[1]), signal.SIGKILL)


def test_commands_report_a_running_conversion(
    framework: FakeFramework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path / "cache"))
    model = framework.write(tmp_path / "net", "copy", matrix())
    first = CliRunner().invoke(main, ["explain", str(model)])
    assert first.exit_code == 0
    assert "is being converted from Fake to TFLite with abacus 1.0" in first.stderr
    assert "this may take up to a minute, once" in first.stderr
    assert first.stdout.startswith("# converted from Fake to TFLite with abacus 1.0\n")
    assert "1 converted model\n" in CliRunner().invoke(main, ["cache", "info"]).stdout
    again = CliRunner().invoke(main, ["explain", str(model), "--stage", "kernels"])
    assert "using the cached model, converted from Fake to TFLite" in again.stderr
    assert again.stdout.startswith("// converted from Fake")
    assert len(framework.runs(model)) == 1


@pytest.mark.needs_device
@pytest.mark.parametrize("command", ["run", "check", "verify", "bench"])
def test_every_command_accepts_converted_models(
    framework: FakeFramework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path / "cache"))
    model = framework.write(tmp_path / "net", "copy", matrix())
    more = ["--seconds", "0.1"] if command == "bench" else []
    done = CliRunner().invoke(main, [command, str(model), "--json", *more])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["model"] == str(model)
    assert len(framework.runs(model)) == 1
    if command == "check":
        assert "converted from Fake" in json.loads(done.stdout)["placement"]["origin"]


@pytest.mark.needs_device
def test_converted_model_is_prepared_under_its_own_name(
    framework: FakeFramework,
    temporary_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path / "cache"))
    model, file = framework.write(tmp_path / "net", "copy", matrix()), tmp_path / "out.fourfold"
    done = CliRunner().invoke(main, ["prepare", str(model), "-o", str(file)])
    assert done.exit_code == 0, done.output
    framework.remove()
    x = numbers(1)
    with fourfold.Session(file, model="net", cache=None) as session:
        np.testing.assert_allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)
    assert list(temporary_folder.iterdir()) == []
    assert fourfold.is_supported(model)


def test_converted_models_can_be_optimized_and_quantized(
    framework: FakeFramework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path / "cache"))
    model = framework.write(tmp_path / "net", "copy", matrix())
    (result,) = fourfold.optimize(model, tmp_path / "small.onnx", device="cpu").models
    assert (result.name, result.format, result.written_as) == ("net", "TFLite", "ONNX")
    assert fourfold.quantize(model, method="fp16").content[4:8] == b"TFL3"
    assert len(framework.runs(model)) == 1


def test_logs_conversions(
    framework: FakeFramework, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = framework.write(tmp_path / "net", "copy", matrix())
    with caplog.at_level(logging.INFO, "fourfold.compiler.convert"):
        make_readable(str(model), None, LIMIT_SECONDS)
    first, second = caplog.messages
    assert "is being converted from Fake" in first
    assert second.startswith("converted in ")


def test_rejects_broken_links_and_too_many_files(
    framework: FakeFramework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = framework.write(tmp_path / "net", "copy", matrix())
    (model / "loop").symlink_to(model, target_is_directory=True)
    assert make_readable(str(model), None, LIMIT_SECONDS).content == matrix()
    (model / "gone").symlink_to(model / "nowhere")
    with pytest.raises(InputError, match="it is not a regular file"):
        make_readable(str(model), None, LIMIT_SECONDS)
    (model / "gone").unlink()
    monkeypatch.setattr("fourfold.formats.source.MAX_FILES", 1)
    with pytest.raises(InputError, match="more than 1 files"):
        make_readable(str(model), None, LIMIT_SECONDS)
    monkeypatch.undo()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")
def test_rejects_pipes(framework: FakeFramework, tmp_path: Path) -> None:
    model = framework.write(tmp_path / "net", "copy", matrix())
    os.mkfifo(model / "pipe")
    with pytest.raises(InputError, match=r"pipe' cannot be read"):
        make_readable(str(model), None, LIMIT_SECONDS)


def _assert_gone(framework: FakeFramework, model: Path) -> None:
    converter, child, _ = framework.runs(model)
    _wait_for(lambda: not _is_running(int(converter)) and not _is_running(int(child)))


def _is_running(process: int) -> bool:
    """Return True if a process is running, and not a zombie."""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat")
        return not state.exists() or state.read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def _wait_for(holds: object) -> None:
    assert callable(holds)
    end = time.monotonic() + LIMIT_SECONDS
    while not holds():
        assert time.monotonic() < end, "the condition was not met"
        time.sleep(0.05)
