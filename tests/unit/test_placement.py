"""Models that run only partly on the GPU: placement of operators, and its report."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tflite_writer as writer
from runtimes import needs_litert

import fourfold
from fourfold.backends.cpu import litert
from fourfold.custom import CUSTOM_OPS
from fourfold.formats import ReadOptions, read_model
from fourfold.formats.tflite import walk
from fourfold.formats.tflite.convert import rules
from fourfold.plan.targets import GPU, NUMPY

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def chain(middle: writer.Operator) -> bytes:
    """Return a model of y = relu(middle(x * 2)) + x."""
    names = ("x", "a", "b", "c", "y")
    two = writer.Tensor("two", (1,), data=np.array([2], np.float32))
    return writer.write(
        [*(writer.Tensor(name, (3, 4)) for name in names), two],
        [
            writer.Operator("MUL", ["x", "two"], ["a"], "MulOptions"),
            middle,
            writer.Operator("RELU", ["b"], ["c"]),
            writer.Operator("ADD", ["c", "x"], ["y"], "AddOptions"),
        ],
        ["x"],
        ["y"],
    )


TANH = chain(writer.Operator("TANH", ["a"], ["b"]))
CUSTOM = chain(writer.Operator("CUSTOM", ["a"], ["b"], custom_code="Halve"))


@pytest.fixture
def without_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    supported = {name: rule for name, rule in rules().items() if name != "TANH"}
    monkeypatch.setattr(walk, "rules", lambda: supported)


@pytest.fixture
def halve() -> Iterator[None]:
    @fourfold.register_op("Halve")
    def halve(options: bytes, x: np.ndarray) -> np.ndarray:
        return x / 2

    yield
    CUSTOM_OPS.clear()


def run(model: bytes, **options: object) -> tuple[np.ndarray, fourfold.Session]:
    with fourfold.Session(model, cache=None, **options) as session:
        return session.run(X)["y"], session


def part_targets(session: fourfold.Session) -> list[str]:
    return [part.target for part in session.placement.parts]


@pytest.mark.usefixtures("without_tanh")
def test_unsupported_op_becomes_a_placeholder_node() -> None:
    graph = read_model(TANH, ReadOptions(keep_unsupported=True)).main
    (foreign,) = [node for node in graph.nodes if node.op == "foreign"]
    assert foreign.attributes.title == "TANH"
    assert foreign.attributes.operators == (1,)
    assert foreign.attributes.reason == "this operator is not supported"
    assert foreign.inputs == ("a",)
    with pytest.raises(fourfold.UnsupportedError, match="TANH 'b': this operator is not supported"):
        read_model(TANH)


@pytest.mark.needs_device
@needs_litert
@pytest.mark.usefixtures("without_tanh")
def test_unsupported_op_runs_in_litert() -> None:
    result, session = run(TANH, placement="gpu")
    assert part_targets(session) == [GPU, "litert", GPU]
    np.testing.assert_allclose(result, np.maximum(np.tanh(X * 2), 0) + X, atol=1e-6)


@pytest.mark.needs_device
@needs_litert
@pytest.mark.usefixtures("without_tanh")
def test_small_model_with_an_unsupported_op_runs_on_the_cpu() -> None:
    result, session = run(TANH)
    assert part_targets(session) == ["litert"]
    assert "would not pay" in str(session.placement) or "faster" in str(session.placement)
    np.testing.assert_allclose(result, np.maximum(np.tanh(X * 2), 0) + X, atol=1e-6)


@pytest.mark.needs_device
@needs_litert
@pytest.mark.usefixtures("without_tanh")
def test_strict_rejects_fallbacks_and_callback_gets_them() -> None:
    with pytest.raises(fourfold.UnsupportedError, match="TANH 'b'"):
        fourfold.Session(TANH, cache=None, strict=True)
    fallbacks = []
    run(TANH, placement="gpu", on_fallback=fallbacks.append)
    assert [(row.op, row.name, row.reason) for row in fallbacks] == [
        ("TANH", "b", "this operator is not supported")
    ]


@needs_litert
def test_cpu_device_and_placement_run_all_in_litert() -> None:
    for options in ({"device": "cpu"}, {"placement": "cpu"}, {"device": "cpu", "threads": 2}):
        result, session = run(TANH, **options)
        assert part_targets(session) == ["litert"]
        assert session.device.name == "CPU"
        np.testing.assert_allclose(result, np.maximum(np.tanh(X * 2), 0) + X, atol=1e-6)


def test_cpu_device_runs_numpy_references_without_litert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert.interpreter, "runtime", lambda: None)
    result, session = run(TANH, device="cpu")
    assert part_targets(session) == [NUMPY]
    np.testing.assert_allclose(result, np.maximum(np.tanh(X * 2), 0) + X, atol=1e-6)


def test_later_runs_do_not_overwrite_results() -> None:
    with fourfold.Session(TANH, device="cpu", cache=None) as session:
        first = session.run(X)["y"]
        copy = first.copy()
        session.run(X * 0)
        np.testing.assert_array_equal(first, copy)


@pytest.mark.needs_device
def test_error_for_an_unknown_custom_op_shows_how_to_register_it() -> None:
    with pytest.raises(fourfold.UnsupportedError) as caught:
        fourfold.Session(CUSTOM, cache=None)
    text = str(caught.value)
    assert "CUSTOM Halve 'b'" in text
    assert '@fourfold.register_op("Halve")' in text
    assert "def halve(options: bytes, x0):" in text
    assert "x0: f32[3,4] -> f32[3,4]" in text


@pytest.mark.needs_device
@pytest.mark.usefixtures("halve")
def test_registered_op_runs_its_numpy_function() -> None:
    result, session = run(CUSTOM, placement="gpu")
    assert part_targets(session) == [GPU, NUMPY, GPU]
    np.testing.assert_allclose(result, np.maximum(X, 0) + X, atol=1e-6)


@pytest.mark.needs_device
def test_registered_pointwise_expression_runs_on_the_gpu() -> None:
    fourfold.register_op("Halve", pointwise=lambda options, x: x * 0.5)(lambda options, x: x / 2)
    try:
        result, session = run(CUSTOM, strict=True)
        assert session.placement.whole
        np.testing.assert_allclose(result, np.maximum(X, 0) + X, atol=1e-6)
    finally:
        CUSTOM_OPS.clear()


def test_rejects_invalid_options() -> None:
    with pytest.raises(fourfold.InputError, match="did you mean 'auto'"):
        fourfold.Session(TANH, cache=None, placement="autos")
    with pytest.raises(fourfold.InputError, match="max_partitions is -1"):
        fourfold.Session(TANH, cache=None, max_partitions=-1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'placment'"):
        fourfold.Session(TANH, cache=None, placment="auto")


@pytest.mark.needs_device
def test_placement_of_a_model_that_runs_entirely_on_the_gpu() -> None:
    _, session = run(TANH)
    assert session.placement.whole
    assert session.placement.summary == f"all 4 operators run on {session.device.name}"


def conditional_model() -> bytes:
    """Return a model of y = x + (x * x if c else x + x) with an IF operator."""
    pair = [writer.Tensor("a", (3, 4)), writer.Tensor("b", (3, 4))]
    square = [writer.Operator("MUL", ["a", "a"], ["b"], "MulOptions")]
    double = [writer.Operator("ADD", ["a", "a"], ["b"], "AddOptions")]
    choose = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2}
    main = writer.Subgraph(
        [
            writer.Tensor("c", (), "bool"),
            writer.Tensor("x", (3, 4)),
            writer.Tensor("t", (3, 4)),
            writer.Tensor("y", (3, 4)),
        ],
        [
            writer.Operator("IF", ["c", "x"], ["t"], "IfOptions", choose),
            writer.Operator("ADD", ["t", "x"], ["y"], "AddOptions"),
        ],
        ["c", "x"],
        ["y"],
    )
    return writer.write_model(
        [
            main,
            writer.Subgraph(pair, square, ["a"], ["b"], "then"),
            writer.Subgraph(pair, double, ["a"], ["b"], "else"),
        ]
    )


@pytest.mark.needs_device
@needs_litert
@pytest.mark.parametrize("choice", [True, False])
def test_control_flow_runs_in_litert_with_its_subgraphs(choice: bool) -> None:
    with fourfold.Session(conditional_model(), cache=None, placement="gpu") as session:
        assert part_targets(session) == ["litert", GPU]
        result = session.run({"c": np.array(choice), "x": X})["y"]
    np.testing.assert_allclose(result, X + (X * X if choice else X + X), rtol=1e-6)
