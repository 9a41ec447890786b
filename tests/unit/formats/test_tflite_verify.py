"""Operators that would make LiteRT crash are found before LiteRT reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tflite
from runtimes import needs_litert
from tflite_writer import Operator, Subgraph, Tensor, constant, write, write_model

from fourfold.backends.cpu.registry import find_engine
from fourfold.errors import ModelError, UnsupportedError
from fourfold.formats.tflite.reader import read_file
from fourfold.formats.tflite.schema import OPERATORS
from fourfold.formats.tflite.verify import ARITIES, OPTIONS, refuse_file
from fourfold.session import Session

X, Y = Tensor("x", (2, 4)), Tensor("y", (2, 4))
AXIS = constant("axis", 1)


def quantized(name: str, scale: float, dtype: str = "int8") -> Tensor:
    return Tensor(name, (1, 4), dtype, scale=(scale,) if scale else (), zero_point=(0,))


def one_operator(
    op: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], options: str = "", **fields
) -> bytes:
    """Return a file with one operator; tensors without data are inputs of the model."""
    read = [*{one.name: one for one in inputs if one is not None}.values()]
    names = [None if one is None else one.name for one in inputs]
    operator = Operator(op, names, [one.name for one in outputs], options, fields)
    free = [one.name for one in read if one.data is None]
    return write([*read, *outputs], [operator], free, [one.name for one in outputs])


ADD, HALVES = "AddOptions", (Tensor("y", (2, 2)), Tensor("z", (2, 2)))
DAMAGED = {
    "inputs": (one_operator("ADD", [X], [Y], ADD), "1 inputs"),
    "outputs": (one_operator("TOPK_V2", [X, constant("k", 4)], [Y]), "1 outputs"),
    "omitted": (one_operator("SLICE", [None, AXIS, AXIS], [Y]), "omits input 0"),
    "options": (
        one_operator("SPLIT", [AXIS, X], HALVES, "SplitVOptions", NumSplits=2),
        "options number 79",
    ),
    "splits": (one_operator("SPLIT", [AXIS, X], HALVES, "SplitOptions", NumSplits=3), "into 3"),
    "no splits": (one_operator("SPLIT", [AXIS, X], HALVES), "into 0"),
    "unpacked": (one_operator("UNPACK", [X], HALVES, "UnpackOptions", Num=4), "unpacks 4"),
    "constant": (
        one_operator("ADD", [X, X], [constant("y", np.ones((2, 4)), "float32")], ADD),
        "which is a constant",
    ),
    "type": (one_operator("RESHAPE", [X], [Tensor("y", (2, 4), "int8")]), "another element type"),
    "softmax": (one_operator("SOFTMAX", [X], [Tensor("y", (2, 4), "uint8")]), "float and"),
    "no scale": (
        one_operator("ADD", [quantized("x", 0.5), quantized("b", 0)], [quantized("y", 1)], ADD),
        "no multiplier",
    ),
    "large scale": (
        one_operator("ADD", [quantized("x", 3e38), quantized("b", 1)], [quantized("y", 1)], ADD),
        "no multiplier",
    ),
    "large output": (
        one_operator("SUB", [quantized("x", 1), quantized("b", 1)], [quantized("y", 3e38)]),
        "no multiplier",
    ),
    "compared": (
        one_operator("LESS", [quantized("x", 1), quantized("b", -1)], [Tensor("y", (4,), "bool")]),
        "no multiplier",
    ),
}  # fmt: skip


def refusal(content: bytes) -> str:
    return refuse_file(read_file(content, "a test"))


@pytest.mark.parametrize("name", DAMAGED)
def test_refuses_damaged_operators(name: str) -> None:
    content, reason = DAMAGED[name]
    assert reason in refusal(content)


def test_accepts_valid_operators() -> None:
    assert refusal(one_operator("SPLIT", [AXIS, X], HALVES, "SplitOptions", NumSplits=2)) == ""
    assert refusal(one_operator("ADD", [X, X], [Y], ADD)) == ""
    assert refusal(one_operator("RELU", [X], [Y])) == ""
    scaled = [quantized("x", 0.5), quantized("b", 0.25)]
    assert refusal(one_operator("ADD", scaled, [quantized("y", 0.1)], ADD)) == ""
    integers = [Tensor("x", (1, 4), "int8"), Tensor("b", (1, 4), "int8")]
    assert refusal(one_operator("EQUAL", integers, [Tensor("y", (1, 4), "bool")])) == ""


def test_refuses_constant_inputs_and_names_that_are_not_text() -> None:
    relu = Operator("RELU", ["x"], ["y"])
    x = constant("x", np.ones((2, 4)), "float32")
    assert refusal(write([x, Y], [relu], ["x"], ["y"])) == "input 'x' is a constant"
    content = write([Tensor("name", (2, 4)), Y], [Operator("RELU", ["name"], ["y"])], [0], [1])
    damaged = content.replace(b"name", b"n\xe8me")
    assert refusal(damaged) == "the name of tensor 'n\\xe8me' is not UTF-8"


def test_refuses_damaged_graphs_that_are_called() -> None:
    once = Operator("CALL_ONCE", [], [], "CallOnceOptions", {"InitSubgraphIndex": 1})
    main = Subgraph([X, Y], [once, Operator("RELU", ["x"], ["y"])], ["x"], ["y"])
    called = Subgraph([X, Y], [Operator("ADD", ["x"], ["y"], ADD)], ["x"], ["y"])
    assert refusal(write_model([main, called])) == (
        "CALL_ONCE: in graph 1: it has 1 inputs, which ADD cannot have"
    )
    assert "only 1" in refusal(write_model([main]))
    assert "graph 1 calls itself" in refusal(write_model([main, main]))


def test_tables_name_operators_and_options_of_the_schema() -> None:
    assert {*ARITIES, *OPTIONS} <= {*OPERATORS}
    known = {value: name for name, value in vars(tflite.BuiltinOptions).items()}
    own = {op: known[code].removesuffix("Options").lower() for op, code in OPTIONS.items()}
    named = {op for op, name in own.items() if name == op.replace("_", "").lower()}
    shared = {"pool2d", "reducer", "sequencernn", "conv3d", "l2norm"}
    assert {own[op] for op in OPTIONS.keys() - named} <= shared


@needs_litert
@pytest.mark.parametrize("name", DAMAGED)
def test_litert_never_reads_damaged_operators(name: str) -> None:
    """Operators with a definition in NumPy run there; the others are refused."""
    content, _ = DAMAGED[name]
    try:
        with Session(content, device="cpu", cache=None) as session:
            assert "numpy" in {part.target for part in session.compiled.parts}
            assert "litert" not in {part.target for part in session.compiled.parts}
    except (ModelError, UnsupportedError):
        pass


@needs_litert
def test_comparisons_refuse_damaged_files() -> None:
    content, reason = DAMAGED["splits"]
    with pytest.raises(ModelError, match=reason):
        find_engine("litert").open_model(content, {"x": np.ones((2, 4), np.float32)}, 1)


@needs_litert
def test_numpy_runs_a_model_with_an_unread_input() -> None:
    content = write([X, Tensor("b", (2, 4)), Y], [Operator("RELU", ["x", "x"], ["y"])],
                    ["x", "b"], ["y"])  # fmt: skip
    array = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    with Session(content, device="cpu", cache=None) as session:
        result = session.run({"x": array, "b": array})["y"]
    assert np.array_equal(result, np.maximum(array, 0))
