"""Names of models, operators and devices reach terminals, logs and pages without control codes."""

from __future__ import annotations

import ast
import base64
import json
import logging
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from fake_devices import X86
from run_records import make_record
from tiny_plan import line

import fourfold
from fourfold import Session
from fourfold.cli import _show, main
from fourfold.device import DeviceList
from fourfold.errors import InputError, ModelError, Refusal, UnsupportedError
from fourfold.formats.protobuf import MessageWriter
from fourfold.plan import CompiledModel
from fourfold.runtime.profile import KernelTime, Profile
from fourfold.store.draft import Draft
from fourfold.store.prepared import Prepared
from fourfold.support.display import html_table, visible, visible_data
from fourfold.support.log import Log
from fourfold.support.progress import NotebookBar
from fourfold.tools.report.run_report.page import make_report_page
from fourfold.tools.report.run_report.report import RunReport

# It sets the title of a terminal (OSC), colours and clears it (CSI, also as one C1 character), goes
# back to the start of the line, and turns text around.
NAME = "\x1b]0;owned\x07\x1b[31mred\x9b2J\rx\u202etxt.exe\u2066\x7f"
HALF = "half \ud800"
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def assert_safe(text: str) -> None:
    found = UNSAFE.search(text)
    assert found is None, repr(text[max(found.start() - 80, 0) : found.end() + 20])


def onnx_model(path: Path) -> Path:
    """Write y = Relu(x) with the hostile name in every place that holds one."""

    def port(name: str) -> MessageWriter:
        size = MessageWriter().message(1, MessageWriter().integer(1, 4))
        tensor = MessageWriter().integer(1, 1).message(2, size)
        return MessageWriter().text(1, name).message(2, MessageWriter().message(1, tensor))

    first = MessageWriter().text(1, f"x{NAME}").text(2, f"m{NAME}").text(3, NAME).text(4, "Relu")
    other = MessageWriter().text(1, f"m{NAME}").text(2, f"y{NAME}").text(3, f"2{NAME}")
    other.text(4, f"Op{NAME}" if path.stem == "unknown" else "Neg")
    graph = MessageWriter().message(1, first).message(1, other).text(2, NAME)
    graph.message(11, port(f"x{NAME}")).message(12, port(f"y{NAME}"))
    entry = MessageWriter().text(1, f"key{NAME}").text(2, f"text{NAME}")
    content = MessageWriter().integer(1, 8).text(2, f"producer{NAME}").text(6, NAME)
    content.message(7, graph).message(8, MessageWriter().text(1, "").integer(2, 17))
    content.message(14, entry)
    path.write_bytes(content.finish())
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return onnx_model(tmp_path / "model.onnx")


@pytest.fixture
def hostile_path(tmp_path: Path) -> Path:
    return onnx_model(tmp_path / f"file{NAME}.onnx")


def hostile_compiled() -> CompiledModel:
    compiled = line()
    plan = replace(compiled.plan, name=NAME)
    return replace(CompiledModel.of_plan(plan, (f"x{NAME}",), (f"y{NAME}",)), name=NAME)


def run_command(*words: str | Path) -> str:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output


def test_visible_escapes_what_terminals_interpret() -> None:
    assert visible("a\x1b[1mb\tc\nd") == "a\\x1b[1mb\tc\nd"
    assert visible("\u202e\ud800\x9b") == "\\u202e\\ud800\\x9b"
    assert visible("naïve 模型 é 🎉\u00a0x") == "naïve 模型 é 🎉\u00a0x"
    assert_safe(visible(NAME + HALF))
    assert visible_data({NAME: [NAME, 1, None, (HALF,)]}) == {
        visible(NAME): [visible(NAME), 1, None, ["half \\ud800"]]
    }


@pytest.mark.parametrize(
    "words",
    [
        ("inspect",),
        ("check", "--device", "cpu"),
        ("explain", "--stage", "graph"),
        ("explain", "--stage", "plan"),
        ("explain", "--stage", "kernels"),
        ("run", "--device", "cpu"),
        ("verify", "--device", "cpu", "--layers"),
        ("estimate", "--device", "cpu"),
    ],
    ids=" ".join,
)
def test_commands_print_no_control_codes(
    words: tuple[str, ...], model: Path, hostile_path: Path
) -> None:
    for path in (model, hostile_path):
        output = run_command(words[0], path, *words[1:])
        assert output.strip()
        assert_safe(output)


def test_json_stays_exact(model: Path) -> None:
    output = run_command("inspect", model, "--json")
    assert_safe(output)
    assert f"x{NAME}" in json.dumps(json.loads(output), ensure_ascii=False).replace(
        json.dumps(NAME, ensure_ascii=False)[1:-1], NAME
    )


def test_errors_of_commands_print_no_control_codes(tmp_path: Path) -> None:
    model = onnx_model(tmp_path / "unknown.onnx")
    for words in (
        ("inspect", tmp_path / f"missing{NAME}"),
        ("run", model, "--device", "cpu"),
        ("check", model, "--device", NAME),
        ("explain", model, "--stage", NAME),
        (NAME,),
    ):
        output = run_command(*words)
        assert output.strip()
        assert_safe(output)


def test_tables_and_lines_print_no_control_codes(capsys: pytest.CaptureFixture[str]) -> None:
    _show.show_table(NAME, ("name", HALF), [(NAME, HALF), (HALF, 1)])
    _show.show_line(f"{NAME} {HALF}")
    _show.echo(f"{NAME} {HALF}")
    captured = capsys.readouterr()
    assert captured.out
    assert_safe(captured.out)


def test_texts_of_errors_are_safe_and_their_parts_exact() -> None:
    errors = (
        InputError(NAME, HALF, NAME),
        ModelError(NAME, NAME, HALF),
        UnsupportedError(NAME, [Refusal(NAME, NAME, HALF)], "fix"),
    )
    for error in errors:
        assert_safe(str(error))
        assert error.what == NAME


def test_messages_of_the_log_are_safe(caplog: pytest.LogCaptureFixture) -> None:
    log = Log("tests")
    with caplog.at_level(logging.DEBUG, "fourfold.tests"):
        log.debug("%s: %s, %d of %.1f", NAME, InputError(NAME, "why", "fix"), 3, 0.5)
        log.info("%s", f"name\nWARNING another line {HALF}")
        log.warn_once(f"a device {NAME}{HALF}")
    assert len(caplog.messages) == 3
    for message in caplog.messages:
        assert_safe(message)
    assert "3 of 0.5" in caplog.messages[0]
    assert "\n" not in caplog.messages[1]


def test_sessions_show_no_control_codes(hostile_path: Path) -> None:
    with Session(hostile_path, device="cpu") as session:
        (info,) = session.inputs
        assert info.name == f"x{NAME}", "names of inputs stay exact"
        results = session.run({info.name: np.ones(4, np.float32)})
        assert list(results) == [f"y{NAME}"]
        for one in (session, info, session.placement, session.compiled):
            assert_safe(repr(one))
            assert_safe(str(one))
            assert_safe(one._repr_html_())
        with pytest.raises(InputError) as wrong:
            session.run({"other": np.ones(4, np.float32)})
        assert_safe(str(wrong.value))
    report = fourfold.check(hostile_path, device="cpu")
    for text in (repr(report), str(report), report._repr_html_()):
        assert_safe(text)


def test_plans_and_prepared_files_show_no_control_codes(tmp_path: Path) -> None:
    device = replace(X86, name=NAME, platform=NAME, driver=HALF.encode("utf-8", "replace").decode())
    draft, path = Draft(), tmp_path / "app.fourfold"
    draft.add_compiled(draft.add_model(NAME, "digest", 1), device, hostile_compiled(), {})
    draft.add_choices(NAME, {"kernel": "choice"})
    draft.write(path)
    prepared = Prepared.open(str(path))
    assert prepared.models == (NAME,)
    shown = (prepared, device, DeviceList([device]), hostile_compiled(), hostile_compiled().plan)
    for one in (*shown, Profile((KernelTime(NAME, NAME, 1.0),))):
        assert_safe(repr(one))
        assert_safe(str(one))
        assert_safe(one._repr_html_())
    output = run_command("inspect", path)
    assert "device" in output
    assert_safe(output)


def test_pages_show_no_control_codes() -> None:
    record = make_record()
    subject = replace(record.subject, model=f"{NAME}{HALF}", device=NAME)
    record = replace(record, subject=subject)
    page = make_report_page(record)
    assert_safe(page)
    packed = max(re.findall(r"[A-Za-z0-9+/=]{200,}", page), key=len)
    data = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert data["run"]["subject"]["model"] == visible(f"{NAME}{HALF}")
    report = RunReport(record)
    assert_safe(repr(report))
    assert_safe(report._repr_html_())
    assert report.json()["subject"]["model"] == f"{NAME}{HALF}", "data stay exact"
    assert_safe(html_table(NAME, ("name", NAME), [(NAME, HALF)]))


def test_progress_bars_show_no_control_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourfold.support.progress.notebooks", _Notebook())
    bar = NotebookBar(NAME)
    bar.report(1, 2, HALF, 3.0)
    assert_safe(repr(bar))
    assert_safe(bar._repr_html_())


class _Notebook:
    def display(self, shown: object, display_id: bool) -> _Notebook:
        return self

    def update(self, shown: object) -> None:
        """Show nothing."""


def test_commands_print_in_one_place_only() -> None:
    """`_show.py` escapes names; a command that calls click itself would not. `__init__.py` shows
    errors.
    """
    folder = Path(_show.__file__).parent
    for path in folder.glob("*.py"):
        calls = [
            node.func.attr
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        ]
        printing = [name for name in calls if name == "echo"]
        assert not printing or path.name in ("_show.py", "__init__.py"), path.name
