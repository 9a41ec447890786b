"""What the log tells of opening a model, at which level, and what it costs where nobody listens."""

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
SAY = """
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
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, "fourfold"):
        yield caplog


def lines(caplog: pytest.LogCaptureFixture, room: str, level: int = logging.DEBUG) -> list[str]:
    found = [one for one in caplog.records if one.levelno == level]
    return [one.getMessage() for one in found if one.name == f"fourfold.{room}"]


def test_what_was_opened_from_where(
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


def test_other_shapes_are_opened_too(device: DeviceInfo, told: pytest.LogCaptureFixture) -> None:
    with fourfold.Session(split_model(), device, cache=None, placement="gpu") as session:
        session.resize(x=(2, 5))
    first, second = lines(told, "runtime", logging.INFO)
    assert "opened a model in memory from the model itself" in first
    assert "2 of 3 operators run on" in first
    assert "opened a model in memory for x=[2, 5] from the model itself" in second


def test_each_step_is_debugged(
    model: Path, device: DeviceInfo, tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    fourfold.Session(model, device, cache=store).close()
    entry = next(one for one in Store(store).entries() if one.kind == "compiled")
    assert any(entry.key in line and "is now cached" in line for line in lines(told, "store"))
    assert any(line.startswith("read: ") for line in lines(told, "support.timings"))
    assert any("fuse_pointwise: " in line for line in lines(told, "compiler.rewrite"))
    assert any(line.startswith("rewrote ") for line in lines(told, "compiler"))
    assert any(line.startswith("compiled: parts 1, launches ") for line in lines(told, "compiler"))
    assert any("is compiled from source" in line for line in lines(told, "runtime"))
    told.clear()
    fourfold.Session(model, device, cache=store).close()
    assert any(entry.key in line and "cached as" in line for line in lines(told, "store"))


def test_what_stays_on_the_cpu_is_debugged(
    device: DeviceInfo, told: pytest.LogCaptureFixture
) -> None:
    fourfold.Session(split_model(), device, cache=None, placement="gpu").close()
    assert any("MATRIX_DIAG" in line for line in lines(told, "runtime"))


def test_tuned_choices_are_debugged(
    model: Path, device: DeviceInfo, tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    store, level = Store(tmp_path / "store"), LEVELS["rapid"]
    tuned = tune_model(str(model), device, CompileOptions(), level, store, lambda *_: None)
    assert any(
        "takes" in line and "that were timed" in line for line in lines(told, "compiler.tune")
    )
    assert any(line.startswith("tuned ") for line in lines(told, "compiler.tune", logging.INFO))
    fourfold.Session(model, device, cache=store).close()
    used = [line for line in lines(told, "compiler") if line.startswith("tuned before: ")]
    assert used
    assert all(any(choice in line for choice in tuned.choices.values()) for line in used)


def test_a_run_says_nothing(
    model: Path, device: DeviceInfo, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even a call that finds nobody: the log costs a run nothing."""
    with fourfold.Session(model, device, cache=None) as session:
        session.run(IMAGE)
        told.clear()
        monkeypatch.setattr(Log, "_logger", None)  # whoever asked for it would fail
        session.run(IMAGE)
        session.run({"image": IMAGE})
        session.run_async(IMAGE).result()
    assert not told.records


def said(before: str = "") -> tuple[str, list[str]]:
    """What a process of its own says, without the times: on both streams."""
    command = [sys.executable, "-c", before + SAY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip(), [
        line.partition(" s  ")[2] or line for line in done.stderr.splitlines()
    ]


def test_nobody_listens_and_logging_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOURFOLD_LOG", raising=False)
    assert said() == ("False", [])
    assert said("import logging\n") == ("True", [])


def test_a_variable_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_LOG", "debug")
    warning, fact, step = "room: warning: a warning", "room: a fact", "room: a step"
    assert said()[1] == [warning, fact, step]
    monkeypatch.setenv("FOURFOLD_LOG", "info")
    assert said()[1] == [warning, fact]
    own = "import logging; logging.basicConfig(format='own %(message)s')\n"
    assert said(own)[1] == ["own a warning", "own a fact"]
    monkeypatch.setenv("FOURFOLD_LOG", "warning")
    assert said()[1] == ["a warning"]


def test_it_stays_silent_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    """As libraries do: the program decides what is shown."""
    log = Log("quiet")
    log.warning("nobody asked")
    handlers = logging.getLogger("fourfold").handlers
    assert any(isinstance(one, logging.NullHandler) for one in handlers)
    assert capsys.readouterr() == ("", "")


def test_once_means_once_that_it_was_heard(caplog: pytest.LogCaptureFixture) -> None:
    log = Log("once")
    with caplog.at_level(logging.ERROR, "fourfold"):
        log.warn_once("the sky falls")
    with caplog.at_level(logging.WARNING, "fourfold"):
        for line in ("the sky falls", "the sky falls", "the sky falls again"):
            log.warn_once(line, about="the sky")
    assert lines(caplog, "once", logging.WARNING) == ["the sky falls"]
    logs._said.pop("the sky")
