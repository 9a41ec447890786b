"""Bars of long work: in a notebook by IPython's display, in a terminal by rich, else nowhere."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
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
from fourfold.support.progress import NotebookBar, followed, left_text

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
    """IPython with a kernel: notes what it is asked to show, and to show again."""

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
    # As if it were still being imported: what is whole is kept by who imports it when it is used.
    shown.__spec__ = SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    return fake


def test_a_bar_in_a_notebook(notebook: FakeNotebook) -> None:
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


def test_a_bar_stays_where_the_work_stopped(notebook: FakeNotebook) -> None:
    with suppress(KeyboardInterrupt), followed(True, "work") as report:
        assert report is not None
        report(1, 4, "first", 0.0)
        raise KeyboardInterrupt
    assert '<progress value="1" max="4"></progress> work stopped after ' in notebook.pictures[-1]


def test_a_notebook_is_not_flooded(notebook: FakeNotebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PAUSE", 1000.0)
    bar = NotebookBar("work")
    bar.report(0, 10_000, "", 0.0)
    for number in range(10_000):
        bar.report(number, 10_000, "", 0.0)
    bar.finish()
    assert len(notebook.pictures) <= 3


def test_a_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with followed(True, "work") as report:
        assert report is not None
        report(1, 4, "first", 65.0)
    assert "work first" in terminal.getvalue()
    assert "about 1:05 left" in terminal.getvalue()


def test_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for option in (True, False, None):
        with followed(option, "work") as report:
            assert report is None
    monkeypatch.setattr(sys, "stderr", None)
    with followed(True, "work") as report:
        assert report is None


def test_the_time_that_is_left() -> None:
    assert (left_text(0.0), left_text(125.0)) == ("", "about 2:05 left")


def test_opening_tells_its_stages(device: DeviceInfo) -> None:
    told: list[tuple[int, int, str, float]] = []

    def report(*what: Any) -> None:
        told.append(what)

    with fourfold.Session(small_onnx(), device, cache=None, progress=report) as session:
        assert not session.timings.listener
        assert [what for _, _, what, _ in told][-5:] == ["rewrite", "probe", "lower", "build", ""]
        places = [done for done, _, _, _ in told]
        assert places == sorted(places)
        assert told[-1][:2] == (len(STAGES), len(STAGES))
        again = pickle.loads(pickle.dumps(session))  # a local function could not be sent
        again.close()


def test_opening_in_a_notebook(device: DeviceInfo, notebook: FakeNotebook) -> None:
    fourfold.Session(small_onnx(), device, cache=None, progress=True).close()
    assert any("opening a model in memory: build" in one for one in notebook.pictures)
    assert "done in " in notebook.pictures[-1]


def test_quantising_and_optimising(notebook: FakeNotebook, tmp_path: Path) -> None:
    fourfold.quantize(small_onnx(), tmp_path / "q.onnx", "fp16", progress=True)
    assert "quantising done in " in notebook.pictures[-1]
    fourfold.optimize(small_onnx(), tmp_path / "o.onnx", progress=True)
    assert "optimising done in " in notebook.pictures[-1]


@pytest.mark.skipif(not WITH_KERNELS, reason="ipykernel and nbclient are not installed")
def test_a_true_notebook(tmp_path: Path) -> None:
    """A cell shows a session as a table and its opening as a bar, and no line of a driver."""
    model = tmp_path / "small.onnx"
    model.write_bytes(small_onnx())
    opens = f"import fourfold\nsession = fourfold.Session({str(model)!r}, progress=True)\nsession"
    command = [sys.executable, "-c", NOTEBOOK, opens, "session.plan"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bar, session, plan = done.stdout.splitlines()
    assert bar.startswith("display_data <div><progress")
    assert session.startswith("execute_result <p>Session of small.onnx</p><table>")
    assert plan.startswith("execute_result <p>Plan main: ")
