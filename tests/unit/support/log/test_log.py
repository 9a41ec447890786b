"""Log messages while a model is opened, their levels, and no cost without listeners."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_networks import small_onnx
from split_models import split_model

import fourfold
from fourfold.compiler.tune import LEVELS
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.store.store import Store
from fourfold.support import log as logs
from fourfold.support.log import Log
from fourfold.tools.preparation import tune_model

IMAGE = np.zeros((1, 5, 6, 3), np.float32)
LOG_SCRIPT = """
import sys
from fourfold.support.log import Log
log = Log("room")
log.warning("a %s", "warning")
log.info("a fact")
log.debug("a step")
print("logging" in sys.modules)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return path


@pytest.fixture
def debug_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, "fourfold"):
        yield caplog


def lines(
    caplog: pytest.LogCaptureFixture, logger_name: str, level: int = logging.DEBUG
) -> list[str]:
    results = [one for one in caplog.records if one.levelno == level]
    return [one.getMessage() for one in results if one.name == f"fourfold.{logger_name}"]


def test_logs_the_opened_model_and_its_origin(
    model: Path, device: DeviceInfo, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "fourfold"):
        for _ in range(2):
            fourfold.Session(model, device, cache=tmp_path / "store").close()
    first, second = lines(caplog, "runtime", logging.INFO)
    assert f"opened {model} from the model itself in " in first
    assert f"on {device.name} ({device.address}), fp32, all operators in " in first
    assert all(f"{stage} " in first for stage in ("read", "rewrite", "lower", "build", "upload"))
    assert f"opened {model} from the store in " in second
    assert "lower" not in second
    assert not lines(caplog, "compiler")


def test_logs_opening_of_other_shapes(
    device: DeviceInfo, debug_log: pytest.LogCaptureFixture
) -> None:
    with fourfold.Session(split_model(), device, cache=None, placement="gpu") as session:
        session.resize(x=(2, 5))
    first, second = lines(debug_log, "runtime", logging.INFO)
    assert "opened a model in memory from the model itself" in first
    assert "2 of 3 operators run on" in first
    assert "opened a model in memory for x=[2, 5] from the model itself" in second


def test_debug_log_shows_each_step(
    model: Path, device: DeviceInfo, tmp_path: Path, debug_log: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    fourfold.Session(model, device, cache=store).close()
    entry = next(one for one in Store(store).entries() if one.kind == "compiled")
    assert any(entry.key in line and "is now cached" in line for line in lines(debug_log, "store"))
    assert any(line.startswith("read: ") for line in lines(debug_log, "support.timings"))
    assert any("fuse_pointwise: " in line for line in lines(debug_log, "compiler.rewrite"))
    assert any(line.startswith("rewrote ") for line in lines(debug_log, "compiler"))
    assert any(
        line.startswith("compiled: parts 1, launches ") for line in lines(debug_log, "compiler")
    )
    assert any("is compiled from source" in line for line in lines(debug_log, "runtime"))
    debug_log.clear()
    fourfold.Session(model, device, cache=store).close()
    assert any(entry.key in line and "cached as" in line for line in lines(debug_log, "store"))


def test_debug_log_shows_fallbacks(device: DeviceInfo, debug_log: pytest.LogCaptureFixture) -> None:
    fourfold.Session(split_model(), device, cache=None, placement="gpu").close()
    assert any("MATRIX_DIAG" in line for line in lines(debug_log, "runtime"))


def test_debug_log_shows_tuned_choices(
    model: Path, device: DeviceInfo, tmp_path: Path, debug_log: pytest.LogCaptureFixture
) -> None:
    store, level = Store(tmp_path / "store"), LEVELS["rapid"]
    tuned = tune_model(str(model), device, CompileOptions(), level, store, lambda *_: None)
    assert any(
        "takes" in line and "that were timed" in line for line in lines(debug_log, "compiler.tune")
    )
    assert any(
        line.startswith("tuned ") for line in lines(debug_log, "compiler.tune", logging.INFO)
    )
    fourfold.Session(model, device, cache=store).close()
    used = [line for line in lines(debug_log, "compiler") if line.startswith("tuned before: ")]
    assert used
    assert all(any(choice in line for choice in tuned.choices.values()) for line in used)


def test_runs_log_nothing(
    model: Path,
    device: DeviceInfo,
    debug_log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run does not even call the logger, so that the log costs nothing."""
    with fourfold.Session(model, device, cache=None) as session:
        session.run(IMAGE)
        debug_log.clear()
        monkeypatch.setattr(Log, "_logger", None)  # fails if the logger is used
        session.run(IMAGE)
        session.run({"image": IMAGE})
        session.run_async(IMAGE).result()
    assert not debug_log.records


def run_log_script(before: str = "") -> tuple[str, list[str]]:
    """Return the output and the log lines, without times, of a new process."""
    command = [sys.executable, "-c", before + LOG_SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip(), [
        line.partition(" s  ")[2] or line for line in done.stderr.splitlines()
    ]


def test_without_listeners_logging_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOURFOLD_LOG", raising=False)
    assert run_log_script() == ("False", [])
    assert run_log_script("import logging\n") == ("True", [])


def test_environment_variable_enables_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_LOG", "debug")
    warning, fact, step = "room: warning: a warning", "room: a fact", "room: a step"
    assert run_log_script()[1] == [warning, fact, step]
    monkeypatch.setenv("FOURFOLD_LOG", "info")
    assert run_log_script()[1] == [warning, fact]
    own = "import logging; logging.basicConfig(format='own %(message)s')\n"
    assert run_log_script(own)[1] == ["own a warning", "own a fact"]
    monkeypatch.setenv("FOURFOLD_LOG", "warning")
    assert run_log_script()[1] == ["a warning"]


def test_library_is_silent_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    """The application decides which messages are shown."""
    log = Log("quiet")
    log.warning("nobody asked")
    handlers = logging.getLogger("fourfold").handlers
    assert any(isinstance(one, logging.NullHandler) for one in handlers)
    assert capsys.readouterr() == ("", "")


def test_warn_once_counts_only_emitted_warnings(caplog: pytest.LogCaptureFixture) -> None:
    log = Log("once")
    with caplog.at_level(logging.ERROR, "fourfold"):
        log.warn_once("the sky falls")
    with caplog.at_level(logging.WARNING, "fourfold"):
        for line in ("the sky falls", "the sky falls", "the sky falls again"):
            log.warn_once(line, about="the sky")
    assert lines(caplog, "once", logging.WARNING) == ["the sky falls"]
    logs._said.pop("the sky")
