"""Outputs that are asked for are all that is computed, and results go where callers want them."""

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
from fourfold.tools.prepare import prepare_model

INTERPRETED = (devices.PLAIN,)
X, Z = np.random.default_rng(5).uniform(-1, 1, (2, 2, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(6).uniform(-1, 1, (3, 4)).astype(np.float32)
FEEDS = {"x": X, "z": Z}
RIGHT = {"scores": X @ WEIGHTS.T, "boxes": np.tanh(np.exp(X) + Z)}


def heads() -> bytes:
    """scores = x times WEIGHTS; boxes = tanh(exp(x) + z)"""
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


def agrees(found: dict[str, Any], *names: str) -> None:
    assert list(found) == list(names)
    for name in names:
        np.testing.assert_allclose(found[name], RIGHT[name], rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module", params=["whole", "cpu", "parts"])
def session(request: pytest.FixtureRequest, device: DeviceInfo) -> Iterator[fourfold.Session]:
    """The model on the device, in a CPU engine, and in parts on both."""
    if request.param != "whole" and not litert.ENGINE.installed():
        pytest.skip("LiteRT is not installed")
    where: Any = "cpu" if request.param == "cpu" else device
    placement: Any = "gpu" if request.param == "parts" else "auto"
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "parts":
            forget_tanh(patch)
        made = fourfold.Session(heads(), where, cache=None, placement=placement)
    with made:
        yield made


def forget_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that only LiteRT knows."""
    known = {name: rule for name, rule in rules().items() if name != "TANH"}
    monkeypatch.setattr(walk, "rules", lambda: known)


def test_outputs_by_name_come_in_the_order_asked_for(session: fourfold.Session) -> None:
    agrees(session.run(FEEDS, outputs=["scores"]), "scores")
    agrees(session.run(FEEDS, outputs="boxes"), "boxes")
    agrees(session.run(FEEDS, outputs=("boxes", "scores")), "boxes", "scores")
    agrees(session.run(FEEDS), "scores", "boxes")
    assert [info.name for info in session.outputs] == ["scores", "boxes"]


def test_it_is_called_as_onnx_runtime_is(session: fourfold.Session) -> None:
    for names in (None, []):
        found = session.run(names, FEEDS)
        agrees(dict(zip(RIGHT, found, strict=True)), "scores", "boxes")
    boxes, scores, again = session.run(["boxes", "scores", "boxes"], FEEDS)
    agrees({"scores": scores, "boxes": boxes}, "scores", "boxes")
    np.testing.assert_array_equal(again, boxes)
    np.testing.assert_array_equal(session.run("boxes", FEEDS)[0], boxes)
    out = np.empty((2, 3), np.float32)
    assert session.run(["scores"], FEEDS, out=[out])[0] is out


@pytest.mark.parametrize(
    ("call", "what", "fix"),
    [
        (lambda run: run(FEEDS, outputs=["score"]), "no output 'score'", "did you mean 'scores'?"),
        (lambda run: run(["score"], FEEDS), "no output 'score'", "did you mean 'scores'?"),
        (lambda run: run(FEEDS, outputs=[]), "no output is asked for", "leave it out"),
        (lambda run: run(FEEDS, outputs=3), "no output is asked for", "leave it out"),
        (lambda run: run(X, Z), "first of two arguments is a ndarray", "run([a, b])"),
        (lambda run: run([X], Z), "first of two arguments is a list", "run([a, b])"),
        (lambda run: run(None, FEEDS, outputs=["scores"]), "named twice", "outputs=names"),
    ],
)
def test_names_that_are_none_of_the_model(
    session: fourfold.Session, call: Callable[[Any], Any], what: str, fix: str
) -> None:
    with pytest.raises(InputError, match=what) as caught:
        call(session.run)
    assert caught.value.why
    assert fix in caught.value.fix


def array(name: str, **how: Any) -> np.ndarray:
    return np.full(RIGHT[name].shape, np.nan, np.float32, **how)


def strided(name: str) -> np.ndarray:
    rows, columns = RIGHT[name].shape
    return np.full((rows, 2 * columns), np.nan, np.float32)[:, ::2]


def unaligned(name: str) -> np.ndarray:
    memory = np.zeros(RIGHT[name].nbytes + 1, np.uint8)
    return memory[1:].view(np.float32).reshape(RIGHT[name].shape)


@pytest.mark.parametrize(
    "make",
    [
        array,
        strided,
        unaligned,
        lambda name: array(name, order="F"),
        lambda name: array(name)[::-1],
        lambda name: array(name).view(np.matrix),
        lambda name: ArrayInterface(array(name)),
        lambda name: Dlpack(array(name)),
        lambda name: memoryview(array(name)),
    ],
)
def test_results_are_written_to_the_callers_memory(
    session: fourfold.Session, make: Callable[[str], Any]
) -> None:
    boxes, scores = make("boxes"), make("scores")
    ways: list[tuple[Any, Any]] = [
        ({"boxes": boxes, "scores": scores}, None),
        ([scores, boxes], None),
        ([None, boxes], None),
        ({"boxes": boxes}, None),
        (boxes, "boxes"),
        ([boxes, scores], ["boxes", "scores"]),
    ]
    for out, outputs in ways:
        found = session.run(FEEDS, outputs=outputs, out=out)
        assert found["boxes"] is boxes
        agrees({name: seen(one) for name, one in found.items()}, *found)
        seen(boxes)[:] = np.nan


def seen(value: Any) -> np.ndarray:
    """What is in somebody's memory."""
    return np.asarray(getattr(value, "array", value))


def test_an_input_may_be_where_a_result_goes(session: fourfold.Session) -> None:
    z = Z.copy()
    found = session.run({"x": X, "z": z}, out={"boxes": z})
    assert found["boxes"] is z
    agrees(found, "scores", "boxes")


LOCKED = array("boxes")
LOCKED.flags.writeable = False
TWICE = np.zeros(14, np.float32)


@pytest.mark.parametrize(
    ("out", "what", "fix"),
    [
        ({"box": X}, "out has 'box'", "did you mean 'boxes'?"),
        (X, "out has 1 arrays for 2 outputs", "None for what is to be a new array"),
        ({"boxes": LOCKED}, "cannot be written to", "np.empty"),
        ({"boxes": np.zeros((2, 4))}, "is float64, not float32", "np.empty((2, 4), np.float32)"),
        ({"boxes": np.zeros((2, 4), ">f4")}, "is >f4, not float32", "np.empty"),
        ({"boxes": np.zeros((4, 2), np.float32)}, r"has shape \(4, 2\), not", "np.empty((2, 4)"),
        ({"boxes": np.zeros((2, 1, 4), np.float32)}, "has shape", "np.empty((2, 4)"),
        ({"boxes": [[0.0] * 4] * 2}, "is a list, which is no memory", "NumPy array"),
        ({"boxes": ArrayMethod(X)}, "which is no memory", "NumPy array"),
        ({"boxes": CudaArray()}, "in the memory of a GPU", "NumPy array"),
        ({"boxes": Dlpack(X, 2)}, "in the memory of a GPU", "NumPy array"),
        ({"boxes": bytes(32)}, "cannot be written to", "np.empty"),
        (
            {"scores": TWICE[:6].reshape(2, 3), "boxes": TWICE[5:13].reshape(2, 4)},
            "share memory",
            "two arrays",
        ),
    ],
)
def test_memory_that_results_cannot_go_to(
    session: fourfold.Session, out: Any, what: str, fix: str
) -> None:
    with pytest.raises(InputError, match=what) as caught:
        session.run(FEEDS, out=out)
    assert caught.value.why
    assert fix in caught.value.fix


def test_rows_of_one_array_may_be_two_results(session: fourfold.Session) -> None:
    both = np.zeros((2, 7), np.float32)
    found = session.run(FEEDS, out={"scores": both[:, :3], "boxes": both[:, 3:]})
    agrees(found, "scores", "boxes")
    np.testing.assert_array_equal(both, np.hstack([found["scores"], found["boxes"]]))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Notes for which outputs a model was made ready."""
    found: list[tuple[str, ...]] = []

    class Noted(ModelInstance):
        def __init__(self, request: Any, **more: Any) -> None:
            found.append(request.compile_options.outputs)
            super().__init__(request, **more)

    monkeypatch.setattr("fourfold.session.ModelInstance", Noted)
    return found


@pytest.mark.parametrize("place", ["list", "one", "cpu"])
def test_what_only_others_need_is_not_computed(
    device: DeviceInfo, place: str, made: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a device as a list of launches and as one, and in an engine for the CPU."""
    where: Any = "cpu" if place == "cpu" else device
    if place != "cpu":
        monkeypatch.setenv("FOURFOLD_LAUNCHES", place)
    with fourfold.Session(heads(), where, cache=None) as session:
        whole = session._instance
        monkeypatch.setattr(whole.executor, "run", None)
        for _ in range(3):
            agrees(session.run(FEEDS, outputs=["scores"]), "scores")
        cut = session._instances.cut_to(["scores"])
        assert cut is not None
        assert [info.name for info in cut.outputs] == ["scores"]
        assert [info.name for info in cut.inputs] == ["x", "z"]
        if place == "list":
            assert [launch.node.split()[0] for launch in cut.model.launches] == ["scores"]
        assert cut.model.stages == (0 if place == "cpu" else 1)
    assert made == [(), ("scores",)]


def test_what_all_is_needed_for_is_fetched_alone(
    device: DeviceInfo, made: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would be saved, so the model is not made ready once more."""
    chain = writer.write(
        [writer.Tensor(name, (2, 4)) for name in ("x", "inner", "y")],
        [writer.Operator("TANH", ["x"], ["inner"]), writer.Operator("EXP", ["inner"], ["y"])],
        ["x"],
        ["inner", "y"],
    )
    with fourfold.Session(chain, device, cache=None) as session:
        fetched = spied(session, monkeypatch)
        found = session.run(X, outputs=["y"])
        np.testing.assert_allclose(found["y"], np.exp(np.tanh(X)), rtol=1e-5)
    assert made == [()]
    assert fetched == [[False, True]]


def spied(session: fourfold.Session, monkeypatch: pytest.MonkeyPatch) -> list[list[bool]]:
    """Notes which outputs each run fetches."""
    fetched: list[list[bool]] = []
    player = session._instance.executor.player
    run = player.run

    def noted(arrays: Any, into: Any = None) -> Any:
        fetched.append([target is not None for target in into])
        return run(arrays, into)

    monkeypatch.setattr(player, "run", noted)
    return fetched


def test_a_prepared_file_is_not_cut(
    device: DeviceInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, source, file = Draft(), tmp_path / "m.tflite", tmp_path / "m.fourfold"
    source.write_bytes(heads())
    prepare_model(draft, source, device, CompileOptions(), {})
    draft.write(file)
    with fourfold.Session(file, device, cache=None) as session:
        fetched = spied(session, monkeypatch)
        agrees(session.run(FEEDS, outputs=["boxes"]), "boxes")
    assert fetched == [[False, True]]


def remembering() -> bytes:
    """svdf with a second output, beside which its state must go on."""
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


@pytest.mark.parametrize("place", ["device", "cpu", "parts"])
def test_a_state_goes_on_beside_the_outputs_that_are_asked_for(
    device: DeviceInfo, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {name: rule for name, rule in rules().items() if place != "parts" or name != "EXP"}
    monkeypatch.setattr(walk, "rules", lambda: known)
    x = np.ones((2, 7), np.float32)
    where: Any = "cpu" if place == "cpu" else device
    answers = []
    for outputs in (None, "e"):
        with fourfold.Session(remembering(), where, cache=None, placement="gpu") as session:
            session.run(x, outputs=outputs)
            answers.append(session.run(x)["y"])
    np.testing.assert_array_equal(*answers)
    assert answers[0].any()


def test_parts_that_nobody_needs_are_skipped(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_tanh(monkeypatch)
    with fourfold.Session(heads(), device, cache=None, placement="gpu") as session:
        executor: Any = session._instance.executor
        assert len(executor._runners) > 1
        ran: list[str] = []
        fetched: list[dict[str, bool]] = []
        for part, runner in zip(executor.model.parts, executor._runners, strict=True):

            def noted(given: Any, wanted: Any, run: Any = runner.run, part: Any = part) -> Any:
                ran.append(part.target)
                if part.plan is not None:
                    fetches = [target is not None for target in wanted]
                    fetched.append(dict(zip(part.outputs, fetches, strict=True)))
                return run(given, wanted)

            monkeypatch.setattr(runner, "run", noted)
        agrees(session.run(FEEDS, outputs=["scores"]), "scores")
        assert ran == ["gpu"]
        agrees(session.run(FEEDS, outputs=["boxes"]), "boxes")
        assert ran == ["gpu", "gpu", "litert"]
        assert fetched == [{"scores": True, "s": False}, {"scores": False, "s": True}]


def test_a_model_that_is_cut_is_kept_under_its_own_key(device: DeviceInfo, tmp_path: Path) -> None:
    origins = []
    for _ in range(2):
        with fourfold.Session(heads(), device, cache=tmp_path) as session:
            agrees(session.run(FEEDS, outputs=["scores"]), "scores")
            cut = session._instances.cut_to(["scores"])
            assert cut is not None
            origins.append((session.origin, cut.origin))
            agrees(session.run(FEEDS), "scores", "boxes")
    assert origins == [("model", "model"), ("store", "store")]


def test_only_the_last_ones_are_kept_ready(
    device: DeviceInfo, made: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[tuple[str, ...]] = []
    close = ModelInstance.close
    monkeypatch.setattr(
        ModelInstance,
        "close",
        lambda one: (closed.append(one.request.compile_options.outputs), close(one))[1],
    )
    with fourfold.Session(heads(), device, cache=None, kept_shapes=1) as session:
        for name in ("scores", "boxes", "scores"):
            agrees(session.run(FEEDS, outputs=[name]), name)
        agrees(session.run(FEEDS), "scores", "boxes")
        assert closed == [("scores",), ("boxes",)]
    assert made == [(), ("scores",), ("boxes",), ("scores",)]
    assert closed[2:] == [(), ("scores",)]


def test_where_there_is_no_room_for_it_the_whole_is_played(
    device: DeviceInfo, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with fourfold.Session(heads(), device, cache=None) as session:
        instances = session._instances

        def full(request: Any, **more: Any) -> ModelInstance:
            raise DeviceError("out of memory", "it is full", "close others")

        monkeypatch.setattr(instances, "_make", full)
        monkeypatch.setattr(instance_cache.log, "warn_once", caplog.records.append)
        for _ in range(2):
            agrees(session.run(FEEDS, outputs=["scores"]), "scores")
    assert len(caplog.records) == 1


def test_another_shape_is_cut_on_its_own(device: DeviceInfo) -> None:
    with fourfold.Session(heads(), device, cache=None) as session:
        session.run(FEEDS, outputs=["scores"])
        session.resize(x=(5, 4), z=(5, 4))
        x = np.ones((5, 4), np.float32)
        found = session.run([x, x], outputs=["scores"])["scores"]
        np.testing.assert_allclose(found, x @ WEIGHTS.T, rtol=1e-5)
        session.resize(x=(2, 4), z=(2, 4))
        agrees(session.run(FEEDS, outputs=["scores"]), "scores")


@pytest.mark.parametrize("place", ["device", "cpu"])
def test_a_shape_that_is_known_when_it_has_run(device: DeviceInfo, place: str) -> None:
    onnx_writer = pytest.importorskip("onnx_writer", reason="the package onnx is not installed")
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    nodes = [onnx_writer.node("NonZero", ["x"], ["places"]), onnx_writer.node("Exp", ["x"], ["e"])]
    ends = [("places", "int64", [2, None]), ("e", "float", [2, 3])]
    model = onnx_writer.model(onnx_writer.graph(nodes, [("x", "float", [2, 3])], ends))
    x = np.array([[0, 1, 2], [0, 0, 3]], np.float32)
    right = np.array(np.nonzero(x))
    with fourfold.Session(model, device if place == "device" else "cpu", cache=None) as session:
        np.testing.assert_array_equal(session.run(x, outputs="places")["places"], right)
        out = np.zeros((2, 3), np.int64)
        assert session.run(x, out={"places": out})["places"] is out
        np.testing.assert_array_equal(out, right)
        with pytest.raises(InputError, match=r"has shape \(2, 6\), not \(2, 3\)"):
            session.run(x, out={"places": np.zeros((2, 6), np.int64)})
