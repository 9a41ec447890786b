"""Models in several parts are cached, prepared and validated like single-part models."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite_writer as writer
from click.testing import CliRunner
from runtimes import needs_litert

import fourfold
from fourfold.cli import main
from fourfold.compiler import compile as compiler
from fourfold.custom import CUSTOM_OPS
from fourfold.device import DeviceInfo
from fourfold.errors import ModelError
from fourfold.formats.tflite import walk
from fourfold.formats.tflite.convert import rules
from fourfold.plan import Container, Section, container_bytes, read_compiled_model
from fourfold.plan.targets import GPU
from fourfold.store.prepared import Prepared
from fourfold.store.store import Store
from fourfold.store.transfer import export_store, import_store
from fourfold.support import log

pytestmark = needs_litert
X = np.random.default_rng(11).uniform(-2, 2, (3, 7)).astype(np.float32)
WEIGHTS = np.random.default_rng(12).uniform(-1, 1, (5, 7)).astype(np.float32)
EXPECTED = np.maximum(np.tanh(X @ WEIGHTS.T), 0) * 3
COMPILER_MODULES = (
    "fourfold.compiler.compile",
    "fourfold.formats",
    "fourfold.graph",
    "fourfold.ops",
    "fourfold.compiler.rewrite",
    "fourfold.compiler.lower",
    "fourfold.codegen",
    "fourfold.compiler.partition",
    "fourfold.compiler.placement",
)


def make_model(*middle: writer.Operator) -> bytes:
    """Return a model of y = relu(middle(x times WEIGHTS)) * 3."""
    three = writer.Tensor("three", (1,), data=np.array([3], np.float32))
    weights = writer.Tensor("w", (5, 7), data=WEIGHTS)
    inner = [writer.Tensor(name, (3, 5)) for name in ("a", "b", "c", "y")]
    return writer.write(
        [writer.Tensor("x", (3, 7)), weights, *inner, three],
        [
            writer.Operator("FULLY_CONNECTED", ["x", "w", None], ["a"], "FullyConnectedOptions"),
            *middle,
            writer.Operator("RELU", ["b"], ["c"]),
            writer.Operator("MUL", ["c", "three"], ["y"], "MulOptions"),
        ],
        ["x"],
        ["y"],
    )


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a model with an operator that only LiteRT supports."""
    supported = {name: rule for name, rule in rules().items() if name != "TANH"}
    monkeypatch.setattr(walk, "rules", lambda: supported)
    path = tmp_path / "model.tflite"
    path.write_bytes(make_model(writer.Operator("TANH", ["a"], ["b"])))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record every placement decision."""
    created: list[Any] = []
    decide = compiler.decide
    monkeypatch.setattr(
        compiler, "decide", lambda *arguments: created.append(arguments) or decide(*arguments)
    )
    return created


def run_session(
    source: Path | bytes, device: DeviceInfo, cache: Path | None, **options: Any
) -> str:
    options.setdefault("placement", "gpu")
    options.setdefault("trust", "all" if isinstance(source, bytes) else None)
    with fourfold.Session(source, device, cache=cache, **options) as session:
        for _ in range(2):
            np.testing.assert_allclose(session.run(X)["y"], EXPECTED, atol=1e-6)
    return session.origin


def test_second_start_makes_no_placement_decision(
    model: Path, device: DeviceInfo, folder: Path, decisions: list[Any]
) -> None:
    assert [run_session(model, device, folder) for _ in range(3)] == ["model", "store", "store"]
    assert len(decisions) == 1


def test_cached_model_reports_the_same_placement(
    model: Path, device: DeviceInfo, folder: Path
) -> None:
    fallbacks: list[list[Any]] = [[], []]
    descriptions = []
    for rows in fallbacks:
        options = {"placement": "gpu", "on_fallback": rows.append}
        with fourfold.Session(model, device, cache=folder, **options) as session:
            descriptions.append(
                (session.placement, session.inputs, session.outputs, str(session.compiled))
            )
    assert descriptions[0] == descriptions[1]
    assert [part.target for part in descriptions[1][0].parts] == [GPU, "litert", GPU]
    assert fallbacks[0] == fallbacks[1]
    assert [row.op for row in fallbacks[1]] == ["TANH"]


def test_different_options_have_separate_entries(
    model: Path, device: DeviceInfo, folder: Path, decisions: list[Any]
) -> None:
    several: list[dict[str, Any]] = [
        {},
        {"max_partitions": 1},
        {"placement": "cpu"},
        {"threads": 1},
    ]
    for options in several:
        assert run_session(model, device, folder, **options) == "model"
    for options in several:
        assert run_session(model, device, folder, **options) == "store"
    assert len(decisions) == len(several)


CHILD = """
import sys, numpy as np, fourfold
x = np.load(sys.argv[2])
with fourfold.Session(sys.argv[1], int(sys.argv[3]), cache=sys.argv[4], placement="gpu") as session:
    np.save(sys.argv[5], session.run(x)["y"])
print(session.origin, *(name for name in sys.modules if name in sys.argv[6:]))
"""


@pytest.mark.parametrize("prepared", [False, True])
def test_warm_start_does_not_import_the_compiler(
    model: Path, device: DeviceInfo, folder: Path, tmp_path: Path, prepared: bool
) -> None:
    assert run_session(model, device, folder) == "model"
    source = prepare(model, device, tmp_path) if prepared else model
    np.save(tmp_path / "x.npy", X)
    words = [
        source,
        tmp_path / "x.npy",
        device.index,
        folder,
        tmp_path / "y.npy",
        *COMPILER_MODULES,
    ]
    root = str(Path(fourfold.__file__).parent.parent)
    code = f"import sys; sys.path.insert(0, {root!r}){CHILD}"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["file" if prepared else "store"], done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), EXPECTED, atol=1e-6)


@pytest.fixture
def registered() -> Iterator[None]:
    @fourfold.register_op("Tanh2")
    def tanh(options: bytes, x: np.ndarray) -> np.ndarray:
        return np.tanh(x)

    yield
    CUSTOM_OPS.clear()


@pytest.mark.usefixtures("registered")
def test_custom_op_code_is_not_cached(device: DeviceInfo, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "custom.tflite"
    path.write_bytes(make_model(writer.Operator("CUSTOM", ["a"], ["b"], custom_code="Tanh2")))
    assert [run_session(path, device, folder) for _ in range(2)] == ["model", "model"]
    result = CliRunner().invoke(
        main, ["prepare", str(path), "-o", str(tmp_path / "no.fourfold"), "--only-here"]
    )
    assert result.exit_code != 0
    assert "which a file cannot hold" in result.output + str(result.exception)


def test_custom_op_kernels_are_not_cached(device: DeviceInfo, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "custom.tflite"
    path.write_bytes(make_model(writer.Operator("CUSTOM", ["a"], ["b"], custom_code="Grow")))
    for factor in (2.0, 5.0):

        @fourfold.register_op("Grow", pointwise=lambda options, x, by=factor: x * by)
        def grow(options: bytes, x: np.ndarray, by: float = factor) -> np.ndarray:
            return x * by

        with fourfold.Session(path, device, cache=folder, strict=True) as session:
            output = session.run(X)["y"]
        np.testing.assert_allclose(output, np.maximum(X @ WEIGHTS.T * factor, 0) * 3, rtol=1e-5)
    CUSTOM_OPS.clear()


def damaged(content: bytes) -> Iterator[bytes]:
    """Yield truncated copies, and copies with one changed byte in header, table or sections."""
    for size in (0, 8, 63, len(content) // 2, len(content) - 1):
        yield content[:size]
    for offset in (9, 70, *range(200, len(content), max(len(content) // 23, 1))):
        changed = bytearray(content)
        changed[offset] ^= 0x10
        yield bytes(changed)


def test_damaged_entries_are_rebuilt(
    model: Path, device: DeviceInfo, folder: Path, decisions: list[Any]
) -> None:
    assert run_session(model, device, folder) == "model"
    (entry,) = (folder / "entries").glob("compiled-*")
    for content in damaged(entry.read_bytes()):
        (entry,) = (folder / "entries").glob("compiled-*")
        good = entry.read_bytes()
        entry.write_bytes(content)
        # bytes between sections do not matter
        assert run_session(model, device, folder) in ("model", "store")
        (entry,) = (folder / "entries").glob("compiled-*")
        entry.write_bytes(good)
    assert len(decisions) > 5
    assert run_session(model, device, folder) == "store"


def test_cache_why_explains_multi_part_models(
    model: Path, device: DeviceInfo, folder: Path
) -> None:
    command = ["cache", "--folder", str(folder), "why", str(model), "--device", str(device.index)]
    run_session(model, device, folder, placement="auto", max_partitions=3)
    shown = CliRunner().invoke(main, command)
    assert "other placement options were passed" in " ".join(shown.output.split())
    with fourfold.Session(model, device, cache=folder) as session:
        assert session.origin == "model"
    shown = CliRunner().invoke(main, command)
    assert "cached" in shown.output
    assert "differs" not in shown.output


def test_entries_can_be_exported_and_imported(
    model: Path, device: DeviceInfo, folder: Path, tmp_path: Path, decisions: list[Any]
) -> None:
    assert run_session(model, device, folder) == "model"
    export_store(Store(folder), tmp_path / "all.fourfold")
    import_store(Store(tmp_path / "other"), tmp_path / "all.fourfold")
    assert run_session(model, device, tmp_path / "other") == "store"
    assert len(decisions) == 1


def prepare(model: Path, device: DeviceInfo, folder: Path, *words: str) -> Path:
    path = folder / "app.fourfold"
    more = ["--device", str(device.index), *words]
    result = CliRunner().invoke(main, ["prepare", str(model), "-o", str(path), *more])
    assert result.exit_code == 0, result.output
    return path


def test_prepared_file_needs_no_placement_decision(
    model: Path, device: DeviceInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = prepare(model, device, tmp_path)
    monkeypatch.setattr(compiler, "decide", None)
    assert run_session(path, device, None) == "file"
    assert run_session(path.read_bytes(), device, None, model="model") == "file"
    shown = CliRunner().invoke(main, ["inspect", str(path), "--json"])
    assert shown.exit_code == 0, shown.output
    assert {one["in_parts"] for one in json.loads(shown.output)["plans"]} == {True}


def test_prepared_file_runs_on_an_unlisted_device_with_a_warning(
    model: Path,
    device: DeviceInfo,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log._said.clear()
    path = prepare(model, device, tmp_path, "--only-here")
    index = Prepared.open(str(path)).index
    monkeypatch.setattr(Prepared, "__init__", _with_another_device_name(Prepared.__init__))
    assert run_session(path, device, None) == "file"
    assert any("was not prepared for" in one.getMessage() for one in caplog.records)
    assert index["plans"]


def _with_another_device_name(make: Any) -> Any:
    def renamed(self: Prepared, file: Container, trust: str) -> None:
        make(self, file, trust)
        for row in self.rows:
            row["made_for"]["name"] = "another"

    return renamed


def test_rejects_damaged_prepared_files(model: Path, device: DeviceInfo, tmp_path: Path) -> None:
    content = prepare(model, device, tmp_path, "--only-here").read_bytes()
    refused = 0
    for wrong in damaged(content):
        try:
            run_session(wrong, device, None)
        except fourfold.FourfoldError:
            refused += 1
    assert refused > 10


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parts", [["moon", ["x"], ["y"], [[], []]]]),
        ("parts", [["litert", ["x"], ["y"], [[], []]]]),
        ("parts", []),
        ("inputs", []),
        ("crossing", {}),
        ("output_names", [7]),
        ("open_sizes", 3),
        ("states", [7]),
    ],
)
def test_rejects_invalid_model_records(
    model: Path, device: DeviceInfo, folder: Path, key: str, value: Any
) -> None:
    run_session(model, device, folder)
    (entry,) = (folder / "entries").glob("compiled-*")
    file = Container.open(entry)
    record = json.loads(bytes(file.section(1, "model")))
    record[key] = value
    sections = [Section(name, file.section(at, name)) for at, name in enumerate(file.names)]
    sections[1] = Section("model", json.dumps(record).encode())
    changed = Container(container_bytes(sections), "it")
    with pytest.raises(ModelError, match="damaged"):
        read_compiled_model(changed, range(1, len(sections)))
