"""Progress bars are shown in notebooks through IPython and in terminals through rich."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from small_networks import small_onnx

import fourfold
from fourfold.device import DeviceInfo
from fourfold.runtime.stages import STAGES
from fourfold.support import progress
from fourfold.support.progress import NotebookBar, followed, late_progress, left_text

WITH_KERNELS = find_spec("ipykernel") is not None and find_spec("nbclient") is not None
NOTEBOOK = """
import nbformat, sys
from nbclient import NotebookClient
cells = [nbformat.v4.new_code_cell(text) for text in sys.argv[1:]]
book = nbformat.v4.new_notebook(cells=cells)
NotebookClient(book, timeout=120, kernel_name="python3").execute()
for cell in book.cells:
    for one in cell.outputs:
        print(one.output_type, one.get("data", {}).get("text/html") or one.get("text"))
"""


class FakeNotebook:
    """A fake IPython kernel that records displayed and updated output."""

    def __init__(self) -> None:
        self.pictures: list[str] = []

    def display(self, thing: Any, display_id: bool) -> FakeNotebook:
        assert display_id
        self.update(thing)
        return self

    def update(self, thing: Any) -> None:
        self.pictures.append(thing._repr_html_())


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> FakeNotebook:
    fake, ipython, shown = FakeNotebook(), ModuleType("IPython"), ModuleType("IPython.display")
    vars(ipython)["get_ipython"] = lambda: SimpleNamespace(kernel=object())
    vars(shown)["display"] = fake.display
    # Pretend that the module is still being imported: `lazy_import` caches complete modules.
    shown.__spec__ = SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    return fake


def test_shows_a_bar_in_a_notebook(notebook: FakeNotebook) -> None:
    with followed(True, "work & <more>") as report:
        assert report is not None
        report(1, 4, "first", 125.0)
        report(2, 4, "second", 0.0)
    begun, first, second, last = notebook.pictures
    assert begun == "<div><progress></progress> work &amp; &lt;more&gt;</div>"
    assert '<progress value="1" max="4"></progress>' in first
    assert "first about 2:05 left" in first
    assert '<progress value="2" max="4"></progress>' in second
    assert '<progress value="4" max="4"></progress>' in last
    assert "done in " in last


def test_bar_of_interrupted_work_keeps_its_position(notebook: FakeNotebook) -> None:
    with suppress(KeyboardInterrupt), followed(True, "work") as report:
        assert report is not None
        report(1, 4, "first", 0.0)
        raise KeyboardInterrupt
    assert '<progress value="1" max="4"></progress> work stopped after ' in notebook.pictures[-1]


def test_limits_notebook_updates(notebook: FakeNotebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PAUSE", 1000.0)
    bar = NotebookBar("work")
    bar.report(0, 10_000, "", 0.0)
    for number in range(10_000):
        bar.report(number, 10_000, "", 0.0)
    bar.finish()
    assert len(notebook.pictures) <= 3


def test_shows_a_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with followed(True, "work") as report:
        assert report is not None
        report(1, 4, "first", 65.0)
    assert "work first" in terminal.getvalue()
    assert "about 1:05 left" in terminal.getvalue()


def test_shows_no_bar_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for option in (True, False, None):
        with followed(option, "work") as report:
            assert report is None
    with late_progress("work", delay_s=0.0) as report:
        assert report is None
    monkeypatch.setattr(sys, "stderr", None)
    with followed(True, "work") as report:
        assert report is None


def test_a_late_bar_appears_after_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with late_progress("quick", delay_s=1000.0) as report:
        assert report is not None
        report(1, 4, "first", 0.0)
    assert not terminal.getvalue()
    timers = FakeTimer.caught(monkeypatch)
    with late_progress("slow") as report:
        assert report is not None
        report(1, 4, "first", 0.0)
        (timer,) = timers
        assert timer.seconds == 0.5
        timer.function()
    assert "slow first" in terminal.getvalue()
    before = terminal.getvalue()
    timer.function()  # too late: the work is done
    assert terminal.getvalue() == before


class FakeTimer:
    """A timer that the test fires."""

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self.seconds, self.function, self.daemon = seconds, function, False

    @classmethod
    def caught(cls, monkeypatch: pytest.MonkeyPatch) -> list[FakeTimer]:
        timers: list[FakeTimer] = []

        def make(seconds: float, function: Callable[[], None]) -> FakeTimer:
            timers.append(cls(seconds, function))
            return timers[-1]

        monkeypatch.setattr(progress.threading, "Timer", make)
        return timers

    def start(self) -> None: ...

    def cancel(self) -> None: ...


def test_formats_the_remaining_time() -> None:
    assert (left_text(0.0), left_text(125.0)) == ("", "about 2:05 left")


def test_opening_reports_its_stages(device: DeviceInfo) -> None:
    reports: list[tuple[int, int, str, float]] = []

    def report(*values: Any) -> None:
        reports.append(values)

    with fourfold.Session(small_onnx(), device, cache=None, progress=report) as session:
        assert not session.timings.listener
        assert [values for _, _, values, _ in reports][-5:] == [
            "rewrite",
            "probe",
            "lower",
            "build",
            "",
        ]
        counts = [done for done, _, _, _ in reports]
        assert counts == sorted(counts)
        assert reports[-1][:2] == (len(STAGES), len(STAGES))
        again = pickle.loads(pickle.dumps(session))  # fails if the session holds the local function
        again.close()


def test_opening_shows_a_bar_in_a_notebook(device: DeviceInfo, notebook: FakeNotebook) -> None:
    fourfold.Session(small_onnx(), device, cache=None, progress=True).close()
    assert any("opening a model in memory: build" in one for one in notebook.pictures)
    assert "done in " in notebook.pictures[-1]


def test_quantize_and_optimize_show_bars(notebook: FakeNotebook, tmp_path: Path) -> None:
    fourfold.quantize(small_onnx(), tmp_path / "q.onnx", "fp16", progress=True)
    assert "quantising done in " in notebook.pictures[-1]
    fourfold.optimize(small_onnx(), tmp_path / "o.onnx", progress=True)
    assert "optimising done in " in notebook.pictures[-1]


@pytest.mark.skipif(not WITH_KERNELS, reason="ipykernel and nbclient are not installed")
def test_real_notebook_shows_tables_and_bars(tmp_path: Path) -> None:
    """The output contains no driver messages."""
    model = tmp_path / "small.onnx"
    model.write_bytes(small_onnx())
    opens = f"import fourfold\nsession = fourfold.Session({str(model)!r}, progress=True)\nsession"
    command = [sys.executable, "-c", NOTEBOOK, opens, "session.plan"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bar, session, plan = done.stdout.splitlines()
    assert bar.startswith("display_data <div><progress")
    assert session.startswith("execute_result <p>Session of small.onnx</p><table>")
    assert plan.startswith("execute_result <p>Plan main: ")
