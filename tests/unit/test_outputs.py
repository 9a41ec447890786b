"""Sessions compute only the requested outputs and write results to the caller's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import interpreted_devices as devices
import numpy as np
import pytest
import tflite_writer as writer
from foreign_arrays import ArrayInterface, ArrayMethod, CudaArray, Dlpack

import fourfold
from fourfold.backends.cpu import litert
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.formats.tflite import walk
from fourfold.formats.tflite.convert import rules
from fourfold.options import CompileOptions
from fourfold.runtime import instance_cache
from fourfold.runtime.instance import ModelInstance
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_model

INTERPRETED = (devices.PLAIN,)
X, Z = np.random.default_rng(5).uniform(-1, 1, (2, 2, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(6).uniform(-1, 1, (3, 4)).astype(np.float32)
FEEDS = {"x": X, "z": Z}
EXPECTED = {"scores": X @ WEIGHTS.T, "boxes": np.tanh(np.exp(X) + Z)}


def two_head_model() -> bytes:
    """Return a model of scores = x times WEIGHTS and boxes = tanh(exp(x) + z)."""
    shapes = {"x": (2, 4), "z": (2, 4), "scores": (2, 3), "t": (2, 4), "s": (2, 4), "boxes": (2, 4)}
    weights = writer.Tensor("w", (3, 4), data=WEIGHTS)
    times = ("FULLY_CONNECTED", ["x", "w", None], ["scores"], "FullyConnectedOptions")
    return writer.write(
        [weights, *(writer.Tensor(name, shape) for name, shape in shapes.items())],
        [
            writer.Operator(*times),
            writer.Operator("EXP", ["x"], ["t"]),
            writer.Operator("ADD", ["t", "z"], ["s"], "AddOptions"),
            writer.Operator("TANH", ["s"], ["boxes"]),
        ],
        ["x", "z"],
        ["scores", "boxes"],
    )


def check_outputs(found: dict[str, Any], *names: str) -> None:
    assert list(found) == list(names)
    for name in names:
        np.testing.assert_allclose(found[name], EXPECTED[name], rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module", params=["whole", "cpu", "parts"])
def session(request: pytest.FixtureRequest, device: DeviceInfo) -> Iterator[fourfold.Session]:
    """Yield sessions on the device, on a CPU engine, and split between both."""
    if request.param != "whole" and not litert.ENGINE.installed():
        pytest.skip("LiteRT is not installed")
    where: Any = "cpu" if request.param == "cpu" else device
    placement: Any = "gpu" if request.param == "parts" else "auto"
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "parts":
            disable_tanh(patch)
        compiled_outputs = fourfold.Session(
            two_head_model(), where, cache=None, placement=placement
        )
    with compiled_outputs:
        yield compiled_outputs


def disable_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make TANH an operator that only LiteRT supports."""
    supported = {name: rule for name, rule in rules().items() if name != "TANH"}
    monkeypatch.setattr(walk, "rules", lambda: supported)


def test_returns_requested_outputs_in_order(session: fourfold.Session) -> None:
    check_outputs(session.run(FEEDS, outputs=["scores"]), "scores")
    check_outputs(session.run(FEEDS, outputs="boxes"), "boxes")
    check_outputs(session.run(FEEDS, outputs=("boxes", "scores")), "boxes", "scores")
    check_outputs(session.run(FEEDS), "scores", "boxes")
    assert [info.name for info in session.outputs] == ["scores", "boxes"]


def test_run_accepts_the_onnx_runtime_call_form(session: fourfold.Session) -> None:
    for names in (None, []):
        outputs = session.run(names, FEEDS)
        check_outputs(dict(zip(EXPECTED, outputs, strict=True)), "scores", "boxes")
    boxes, scores, again = session.run(["boxes", "scores", "boxes"], FEEDS)
    check_outputs({"scores": scores, "boxes": boxes}, "scores", "boxes")
    np.testing.assert_array_equal(again, boxes)
    np.testing.assert_array_equal(session.run("boxes", FEEDS)[0], boxes)
    out = np.empty((2, 3), np.float32)
    assert session.run(["scores"], FEEDS, out=[out])[0] is out


@pytest.mark.parametrize(
    ("call", "what", "fix"),
    [
        (lambda run: run(FEEDS, outputs=["score"]), "no output 'score'", "did you mean 'scores'?"),
        (lambda run: run(["score"], FEEDS), "no output 'score'", "did you mean 'scores'?"),
        (lambda run: run(FEEDS, outputs=[]), "no output is requested", "leave it out"),
        (lambda run: run(FEEDS, outputs=3), "no output is requested", "leave it out"),
        (lambda run: run(X, Z), "first of two arguments is a ndarray", "run([a, b])"),
        (lambda run: run([X], Z), "first of two arguments is a list", "run([a, b])"),
        (lambda run: run(None, FEEDS, outputs=["scores"]), "named twice", "outputs=names"),
    ],
)
def test_rejects_unknown_outputs_and_ambiguous_arguments(
    session: fourfold.Session, call: Callable[[Any], Any], what: str, fix: str
) -> None:
    with pytest.raises(InputError, match=what) as caught:
        call(session.run)
    assert caught.value.why
    assert fix in caught.value.fix


def empty_array(name: str, **options: Any) -> np.ndarray:
    return np.full(EXPECTED[name].shape, np.nan, np.float32, **options)


def strided_array(name: str) -> np.ndarray:
    rows, columns = EXPECTED[name].shape
    return np.full((rows, 2 * columns), np.nan, np.float32)[:, ::2]


def unaligned_array(name: str) -> np.ndarray:
    memory = np.zeros(EXPECTED[name].nbytes + 1, np.uint8)
    return memory[1:].view(np.float32).reshape(EXPECTED[name].shape)


@pytest.mark.parametrize(
    "make",
    [
        empty_array,
        strided_array,
        unaligned_array,
        lambda name: empty_array(name, order="F"),
        lambda name: empty_array(name)[::-1],
        lambda name: empty_array(name).view(np.matrix),
        lambda name: ArrayInterface(empty_array(name)),
        lambda name: Dlpack(empty_array(name)),
        lambda name: memoryview(empty_array(name)),
    ],
)
def test_out_writes_results_to_the_callers_memory(
    session: fourfold.Session, make: Callable[[str], Any]
) -> None:
    boxes, scores = make("boxes"), make("scores")
    cases: list[tuple[Any, Any]] = [
        ({"boxes": boxes, "scores": scores}, None),
        ([scores, boxes], None),
        ([None, boxes], None),
        ({"boxes": boxes}, None),
        (boxes, "boxes"),
        ([boxes, scores], ["boxes", "scores"]),
    ]
    for out, outputs in cases:
        actual = session.run(FEEDS, outputs=outputs, out=out)
        assert actual["boxes"] is boxes
        check_outputs({name: as_numpy(one) for name, one in actual.items()}, *actual)
        as_numpy(boxes)[:] = np.nan


def as_numpy(value: Any) -> np.ndarray:
    """Return the values in the caller's memory."""
    return np.asarray(getattr(value, "array", value))


def test_out_may_be_an_input(session: fourfold.Session) -> None:
    z = Z.copy()
    outputs = session.run({"x": X, "z": z}, out={"boxes": z})
    assert outputs["boxes"] is z
    check_outputs(outputs, "scores", "boxes")


READ_ONLY = empty_array("boxes")
READ_ONLY.flags.writeable = False
SHARED_MEMORY = np.zeros(14, np.float32)


@pytest.mark.parametrize(
    ("out", "what", "fix"),
    [
        ({"box": X}, "out has 'box'", "did you mean 'boxes'?"),
        (X, "out has 1 arrays for 2 outputs", "with None for a new array"),
        ({"boxes": READ_ONLY}, "cannot be written to", "np.empty"),
        ({"boxes": np.zeros((2, 4))}, "is float64, not float32", "np.empty((2, 4), np.float32)"),
        ({"boxes": np.zeros((2, 4), ">f4")}, "is >f4, not float32", "np.empty"),
        ({"boxes": np.zeros((4, 2), np.float32)}, r"has shape \(4, 2\), not", "np.empty((2, 4)"),
        ({"boxes": np.zeros((2, 1, 4), np.float32)}, "has shape", "np.empty((2, 4)"),
        ({"boxes": [[0.0] * 4] * 2}, "is a list, which has no memory", "NumPy array"),
        ({"boxes": ArrayMethod(X)}, "which has no memory", "NumPy array"),
        ({"boxes": CudaArray()}, "in the memory of a GPU", "NumPy array"),
        ({"boxes": Dlpack(X, 2)}, "in the memory of a GPU", "NumPy array"),
        ({"boxes": bytes(32)}, "cannot be written to", "np.empty"),
        (
            {"scores": SHARED_MEMORY[:6].reshape(2, 3), "boxes": SHARED_MEMORY[5:13].reshape(2, 4)},
            "share memory",
            "two arrays",
        ),
    ],
)
def test_out_rejects_unusable_memory(
    session: fourfold.Session, out: Any, what: str, fix: str
) -> None:
    with pytest.raises(InputError, match=what) as caught:
        session.run(FEEDS, out=out)
    assert caught.value.why
    assert fix in caught.value.fix


def test_out_accepts_views_of_one_array(session: fourfold.Session) -> None:
    both = np.zeros((2, 7), np.float32)
    outputs = session.run(FEEDS, out={"scores": both[:, :3], "boxes": both[:, 3:]})
    check_outputs(outputs, "scores", "boxes")
    np.testing.assert_array_equal(both, np.hstack([outputs["scores"], outputs["boxes"]]))


@pytest.fixture
def compiled_outputs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Record the outputs that each model instance is created for."""
    records: list[tuple[str, ...]] = []

    class RecordingInstance(ModelInstance):
        def __init__(self, request: Any, *others: Any) -> None:
            records.append(request.compile_options.outputs)
            super().__init__(request, *others)

    monkeypatch.setattr(instance_cache, "ModelInstance", RecordingInstance)
    return records


@pytest.mark.parametrize("form", ["list", "one", "cpu"])
def test_unrequested_outputs_are_not_computed(
    device: DeviceInfo,
    form: str,
    compiled_outputs: list[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Covers a list of launches, one launch, and a CPU engine."""
    where: Any = "cpu" if form == "cpu" else device
    if form != "cpu":
        monkeypatch.setenv("FOURFOLD_LAUNCHES", form)
    with fourfold.Session(two_head_model(), where, cache=None) as session:
        instance = session._instance
        monkeypatch.setattr(instance.executor, "run", None)
        for _ in range(3):
            check_outputs(session.run(FEEDS, outputs=["scores"]), "scores")
        cut = session._instances.cut_to(["scores"])
        assert cut is not None
        assert [info.name for info in cut.outputs] == ["scores"]
        assert [info.name for info in cut.inputs] == ["x", "z"]
        if form == "list":
            assert [launch.node.split()[0] for launch in cut.model.launches] == ["scores"]
        assert cut.model.stages == (0 if form == "cpu" else 1)
    assert compiled_outputs == [(), ("scores",)]


def test_output_that_needs_all_operators_is_fetched_alone(
    device: DeviceInfo, compiled_outputs: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cutting the model would save nothing, so no second instance is created."""
    chain = writer.write(
        [writer.Tensor(name, (2, 4)) for name in ("x", "inner", "y")],
        [writer.Operator("TANH", ["x"], ["inner"]), writer.Operator("EXP", ["inner"], ["y"])],
        ["x"],
        ["inner", "y"],
    )
    with fourfold.Session(chain, device, cache=None) as session:
        fetched = record_fetches(session, monkeypatch)
        output = session.run(X, outputs=["y"])
        np.testing.assert_allclose(output["y"], np.exp(np.tanh(X)), rtol=1e-5)
    assert compiled_outputs == [()]
    assert fetched == [[False, True]]


def record_fetches(session: fourfold.Session, monkeypatch: pytest.MonkeyPatch) -> list[list[bool]]:
    """Record the outputs that each run fetches."""
    fetched: list[list[bool]] = []
    player = session._instance.executor.player
    run = player.run

    def recording_run(arrays: Any, into: Any = None) -> Any:
        fetched.append([target is not None for target in into])
        return run(arrays, into)

    monkeypatch.setattr(player, "run", recording_run)
    return fetched


def test_prepared_file_fetches_requested_outputs_only(
    device: DeviceInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, source, file = Draft(), tmp_path / "m.tflite", tmp_path / "m.fourfold"
    source.write_bytes(two_head_model())
    prepare_model(draft, source, device, CompileOptions(), {})
    draft.write(file)
    with fourfold.Session(file, device, cache=None) as session:
        fetched = record_fetches(session, monkeypatch)
        check_outputs(session.run(FEEDS, outputs=["boxes"]), "boxes")
    assert fetched == [[False, True]]


def stateful_model() -> bytes:
    """Return an SVDF model with a second output, which must not stop the state from advancing."""
    tensors = [
        writer.Tensor("x", (2, 7)),
        writer.constant("f", np.full((6, 7), 0.1), "float32"),
        writer.constant("t", np.full((6, 5), 0.1), "float32"),
        writer.Tensor("s", (2, 30), variable=True),
        writer.Tensor("y", (2, 3)),
        writer.Tensor("e", (2, 7)),
    ]
    fields = {"Rank": 2, "FusedActivationFunction": 0}
    svdf = writer.Operator("SVDF", ["x", "f", "t", None, "s"], ["y"], "SVDFOptions", fields)
    return writer.write(tensors, [svdf, writer.Operator("EXP", ["x"], ["e"])], ["x"], ["y", "e"])


@pytest.mark.parametrize("target", ["device", "cpu", "parts"])
def test_state_advances_when_its_output_is_not_requested(
    device: DeviceInfo, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    supported = {name: rule for name, rule in rules().items() if target != "parts" or name != "EXP"}
    monkeypatch.setattr(walk, "rules", lambda: supported)
    x = np.ones((2, 7), np.float32)
    where: Any = "cpu" if target == "cpu" else device
    results = []
    for outputs in (None, "e"):
        with fourfold.Session(stateful_model(), where, cache=None, placement="gpu") as session:
            session.run(x, outputs=outputs)
            results.append(session.run(x)["y"])
    np.testing.assert_array_equal(*results)
    assert results[0].any()


def test_unneeded_parts_are_skipped(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    disable_tanh(monkeypatch)
    with fourfold.Session(two_head_model(), device, cache=None, placement="gpu") as session:
        executor: Any = session._instance.executor
        assert len(executor._runners) > 1
        ran: list[str] = []
        fetched: list[dict[str, bool]] = []
        for part, runner in zip(executor.model.parts, executor._runners, strict=True):

            def recording_run(
                arrays: Any, targets: Any, run: Any = runner.run, part: Any = part
            ) -> Any:
                ran.append(part.target)
                if part.plan is not None:
                    fetches = [target is not None for target in targets]
                    fetched.append(dict(zip(part.outputs, fetches, strict=True)))
                return run(arrays, targets)

            monkeypatch.setattr(runner, "run", recording_run)
        check_outputs(session.run(FEEDS, outputs=["scores"]), "scores")
        assert ran == ["gpu"]
        check_outputs(session.run(FEEDS, outputs=["boxes"]), "boxes")
        assert ran == ["gpu", "gpu", "litert"]
        assert fetched == [{"scores": True, "s": False}, {"scores": False, "s": True}]


def test_cut_model_is_cached_under_its_own_key(device: DeviceInfo, tmp_path: Path) -> None:
    origins = []
    for _ in range(2):
        with fourfold.Session(two_head_model(), device, cache=tmp_path) as session:
            check_outputs(session.run(FEEDS, outputs=["scores"]), "scores")
            cut = session._instances.cut_to(["scores"])
            assert cut is not None
            origins.append((session.origin, cut.origin))
            check_outputs(session.run(FEEDS), "scores", "boxes")
    assert origins == [("model", "model"), ("store", "store")]


def test_only_recent_cut_models_stay_open(
    device: DeviceInfo, compiled_outputs: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[tuple[str, ...]] = []
    close = ModelInstance.close
    monkeypatch.setattr(
        ModelInstance,
        "close",
        lambda one: (closed.append(one.request.compile_options.outputs), close(one))[1],
    )
    with fourfold.Session(two_head_model(), device, cache=None, kept_shapes=1) as session:
        for name in ("scores", "boxes", "scores"):
            check_outputs(session.run(FEEDS, outputs=[name]), name)
        check_outputs(session.run(FEEDS), "scores", "boxes")
        assert closed == [("scores",), ("boxes",)]
    assert compiled_outputs == [(), ("scores",), ("boxes",), ("scores",)]
    assert closed[2:] == [(), ("scores",)]


def test_runs_the_full_model_when_the_cut_one_does_not_fit(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with fourfold.Session(two_head_model(), device, cache=None) as session:

        def full(*arguments: Any) -> ModelInstance:
            raise DeviceError("out of memory", "the device is full", "close other sessions")

        monkeypatch.setattr(instance_cache, "ModelInstance", full)
        monkeypatch.setattr(instance_cache.log, "warn_once", caplog.records.append)
        for _ in range(2):
            check_outputs(session.run(FEEDS, outputs=["scores"]), "scores")
    assert len(caplog.records) == 1


def test_each_shape_is_cut_separately(device: DeviceInfo) -> None:
    with fourfold.Session(two_head_model(), device, cache=None) as session:
        session.run(FEEDS, outputs=["scores"])
        session.resize(x=(5, 4), z=(5, 4))
        x = np.ones((5, 4), np.float32)
        output = session.run([x, x], outputs=["scores"])["scores"]
        np.testing.assert_allclose(output, x @ WEIGHTS.T, rtol=1e-5)
        session.resize(x=(2, 4), z=(2, 4))
        check_outputs(session.run(FEEDS, outputs=["scores"]), "scores")


@pytest.mark.parametrize("target", ["device", "cpu"])
def test_supports_outputs_of_data_dependent_shape(device: DeviceInfo, target: str) -> None:
    onnx_writer = pytest.importorskip("onnx_writer", reason="the package onnx is not installed")
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    nodes = [onnx_writer.node("NonZero", ["x"], ["places"]), onnx_writer.node("Exp", ["x"], ["e"])]
    output_infos = [("places", "int64", [2, None]), ("e", "float", [2, 3])]
    model = onnx_writer.model(onnx_writer.graph(nodes, [("x", "float", [2, 3])], output_infos))
    x = np.array([[0, 1, 2], [0, 0, 3]], np.float32)
    expected = np.array(np.nonzero(x))
    with fourfold.Session(model, device if target == "device" else "cpu", cache=None) as session:
        np.testing.assert_array_equal(session.run(x, outputs="places")["places"], expected)
        out = np.zeros((2, 3), np.int64)
        assert session.run(x, out={"places": out})["places"] is out
        np.testing.assert_array_equal(out, expected)
        with pytest.raises(InputError, match=r"has shape \(2, 6\), not \(2, 3\)"):
            session.run(x, out={"places": np.zeros((2, 6), np.int64)})
