"""Reports of real runs account for every operator and state nothing that is unknown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from runtimes import needs_litert
from small_networks import small_onnx
from split_models import split_model

from fourfold import Session
from fourfold.cli import main
from fourfold.plan.targets import GPU
from fourfold.tools.report.run_report.record import RunRecord
from fourfold.tools.report.run_report.record_file import read_record

pytestmark = pytest.mark.needs_device
IMAGE = np.random.default_rng(1).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)
SHORT = {"seconds": 0.01}


@pytest.fixture(scope="module")
def session() -> Session:
    with Session(small_onnx(), cache=None, placement="gpu") as session:
        yield session


@pytest.fixture(scope="module")
def record(session: Session) -> RunRecord:
    return session.report(verify=True, **SHORT).record


def test_every_operator_of_the_file_is_in_one_node(record: RunRecord, session: Session) -> None:
    names = [one.name for node in record.nodes for one in node.operators]
    assert sorted(names) == sorted(row.name for row in session.placement.rows)


def test_nodes_are_joined_from_inputs_to_outputs(record: RunRecord) -> None:
    reached = {number for number, node in enumerate(record.nodes) if node.target == "input"}
    for edge in record.edges:
        assert edge.source in reached
        reached.add(edge.target)
    assert reached == set(range(len(record.nodes)))


def test_every_kernel_has_a_time_a_text_and_a_node(record: RunRecord, session: Session) -> None:
    assert len(record.kernels) == session.plan.stages
    for number, kernel in enumerate(record.kernels):
        assert kernel.seconds is not None
        assert kernel.entry in record.texts[kernel.text]
        assert number in record.nodes[kernel.node].kernels


def test_work_and_memory_are_those_of_the_plan(record: RunRecord, session: Session) -> None:
    assert sum(node.flops for node in record.nodes) == pytest.approx(session.plan.flops)
    assert record.memory.arena == session.plan.bytes("arena")
    assert sum(arena.bytes for arena in record.memory.arenas) == record.memory.arena


def test_accuracy_is_given_to_the_nodes_that_were_compared(record: RunRecord) -> None:
    assert record.accuracy is not None
    assert [name for name, _ in record.accuracy.outputs] == ["scores", "twice"]
    compared = [node for node in record.nodes if node.accuracy is not None]
    assert compared
    assert all(node.accuracy.agrees for node in compared if node.accuracy)


def test_ceilings_are_measured(record: RunRecord) -> None:
    assert record.ceilings is not None
    assert record.ceilings.flops > 0
    assert record.ceilings.bytes > 0
    assert record.ceilings.cached_bytes > 0


def test_inputs_are_taken_as_run_takes_them(session: Session) -> None:
    assert session.report(IMAGE, **SHORT).record.subject.data == "given by the caller"


def test_a_report_is_saved_as_a_page_or_as_data(record: RunRecord, tmp_path: Path) -> None:
    with Session(small_onnx(), cache=None) as session:
        report = session.report(**SHORT)
    report.save(tmp_path / "run.html")
    report.save(tmp_path / "run.json")
    assert (tmp_path / "run.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert read_record(tmp_path / "run.json") == report.record
    assert report.json()["version"] == record.version


@needs_litert
def test_cpu_operators_have_a_reason_and_connect_both_parts() -> None:
    with Session(split_model(), cache=None, placement="gpu") as session:
        record = session.report(**SHORT).record
    ops = [node.op for node in record.nodes]
    stayed = record.nodes[ops.index("MATRIX_DIAG")]
    assert stayed.target != GPU
    assert stayed.operators[0].reason
    assert stayed.seconds is None
    assert [node.target == GPU for node in record.nodes[1:-1]] == [True, False, True]
    assert [(edge.source, edge.target) for edge in record.edges] == [(0, 1), (1, 2), (2, 3), (3, 4)]


@needs_litert
def test_a_model_on_the_cpu_has_no_kernels_and_no_ceilings() -> None:
    with Session(split_model(), cache=None, device="cpu") as session:
        record = session.report(**SHORT).record
    assert record.kernels == ()
    assert record.ceilings is None
    assert record.memory.arenas == ()
    assert record.subject.device_kind == "CPU"


def test_the_command_writes_the_page_and_the_data_and_compares(tmp_path: Path) -> None:
    model, page, data = (tmp_path / name for name in ("m.onnx", "r.html", "r.json"))
    model.write_bytes(small_onnx())
    words = ["report", str(model), "-o", str(page), "--seconds", "0.01"]
    first = CliRunner().invoke(main, [*words, "--json", str(data), "--seed", "3"])
    assert first.exit_code == 0, first.output
    assert read_record(data).subject.data == "random numbers, seed 3"
    alone = page.stat().st_size
    second = CliRunner().invoke(main, [*words, "--compare", str(data)])
    assert second.exit_code == 0, second.output
    assert page.stat().st_size > alone


def test_a_prepared_file_is_shown_by_its_launches(tmp_path: Path) -> None:
    model, file = tmp_path / "m.onnx", tmp_path / "m.fourfold"
    model.write_bytes(small_onnx())
    made = CliRunner().invoke(main, ["prepare", str(model), "-o", str(file), "--tune", "none"])
    assert made.exit_code == 0, made.output
    with Session(file, cache=None) as session:
        record = session.report(verify=True, **SHORT).record
        launches = len(session.plan.launches)
    assert len(record.nodes) == launches
    assert any("prepared file" in note for note in record.notes)
    assert record.accuracy is None


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_a_missing_folder_is_reported_before_anything_runs(tmp_path: Path, option: str) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"no model at all")
    path = tmp_path / "none" / "r.html"
    result = CliRunner().invoke(main, ["report", str(model), option, str(path)])
    assert result.exit_code == 2
    assert "there is no folder" in result.output.replace("\n", " ")
    assert result.output.startswith("error: ")  # --json takes a file in this command
