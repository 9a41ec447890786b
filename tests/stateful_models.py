"""Small files with stateful operators, and LiteRT for comparison.

Sizes are prime, numbers are random with a fixed seed, and there are two rows of everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tflite_writer import Operator, Subgraph, Tensor, constant, write, write_model

GATES = ["input", "forget", "cell", "output"]
SEQUENCES = ["plain", "coupled", "peephole", "projected", "normed", "normed coupled peephole"]
CELLS = ["plain", "coupled peephole", "projected"]
ROWS, FEATURES, HIDDEN, STEPS = 2, 5, 7, 3


def _weights(name: str, *shape: int) -> Tensor:
    seed = [*name.encode(), *shape]
    return constant(name, np.random.default_rng(seed).uniform(-1, 1, shape), "float32")


def svdf(activation: int = 0, memory: int = 5) -> bytes:
    tensors = [
        Tensor("x", (ROWS, 7)),
        _weights("f", 6, 7),
        _weights("t", 6, memory),
        _weights("b", 3),
        Tensor("s", (ROWS, 6 * memory), variable=True),
        Tensor("y", (ROWS, 3)),
    ]
    fields = {"Rank": 2, "FusedActivationFunction": activation}
    return write(tensors, [Operator("SVDF", list("xftbs"), ["y"], "SVDFOptions", fields)], "x", "y")


def _cell(kind: str, shown: int) -> list[Tensor | None]:
    """Return all 24 inputs of an LSTM but the first; None where a cell of this kind has none."""
    first = [None if "coupled" in kind and gate == "input" else gate for gate in GATES]

    def each(title: str, *shape: int) -> list[Tensor | None]:
        return [None if gate is None else _weights(f"{title}_{gate}", *shape) for gate in first]

    peepholes = [each("seen", HIDDEN)[n] if "peephole" in kind else None for n in (0, 1, 3)]
    projected = "projected" in kind
    return [
        *each("w", HIDDEN, FEATURES),
        *each("r", HIDDEN, shown),
        *peepholes,
        *each("bias", HIDDEN),
        _weights("projection", shown, HIDDEN) if projected else None,
        _weights("projection_bias", shown) if projected else None,
        Tensor("shown", (ROWS, shown), variable=True),
        Tensor("kept", (ROWS, HIDDEN), variable=True),
        *(each("norm", HIDDEN) if "normed" in kind else [None] * 4),
    ]


def sequence_lstm(kind: str = "plain", time_major: bool = False, steps: int = STEPS) -> bytes:
    shown = 6 if "projected" in kind else HIDDEN
    lead = (steps, ROWS) if time_major else (ROWS, steps)
    fields: dict[str, Any] = {
        "FusedActivationFunction": 4,
        "TimeMajor": time_major,
        "CellClip": 0.7,
        "ProjClip": 0.4 if "projected" in kind else 0.0,
    }
    op = ("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions")
    return _lstm(op, fields, _cell(kind, shown), ((*lead, FEATURES), (*lead, shown)))


def full_lstm(kind: str = "plain") -> bytes:
    shown = 6 if "projected" in kind else HIDDEN
    fields = {"FusedActivationFunction": 4, "CellClip": 0.7}
    cell = _cell(kind, shown)[:19]
    return _lstm(("LSTM", "LSTMOptions"), fields, cell, ((ROWS, FEATURES), (ROWS, shown)))


def lstm_before_a_diagonal() -> bytes:
    """Return an LSTM followed by an operator that only LiteRT supports."""
    y = (ROWS, STEPS, HIDDEN)
    diagonal = Operator("MATRIX_DIAG", ["y"], ["z"], "MatrixDiagOptions")
    op = ("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions")
    fields = {"FusedActivationFunction": 4}
    cell, behind = _cell("plain", HIDDEN), (Tensor("z", (*y, HIDDEN)), diagonal)
    return _lstm(op, fields, cell, ((ROWS, STEPS, FEATURES), y), behind)


def _lstm(
    op: tuple[str, str],
    fields: dict[str, Any],
    cell: list[Tensor | None],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    behind: tuple[Tensor, Operator] | None = None,
) -> bytes:
    names = ["x", *(None if tensor is None else tensor.name for tensor in cell)]
    present = [tensor for tensor in cell if tensor is not None]
    tensors = [Tensor("x", shapes[0]), *present, Tensor("y", shapes[1])]
    operators = [Operator(op[0], names, ["y"], op[1], fields)]
    if behind is None:
        return write(tensors, operators, ["x"], ["y"])
    return write([*tensors, behind[0]], [*operators, behind[1]], ["x"], ["z"])


def basic_lstm() -> bytes:
    """Return a cell of five inputs, whose two states are also outputs."""
    outputs = {"h1": HIDDEN, "c1": HIDDEN, "joined": FEATURES + HIDDEN, "sums": 4 * HIDDEN}
    tensors = [
        Tensor("x", (ROWS, FEATURES)),
        Tensor("h", (ROWS, HIDDEN), variable=True),
        _weights("w", 4 * HIDDEN, FEATURES + HIDDEN),
        _weights("b", 4 * HIDDEN),
        Tensor("c", (ROWS, HIDDEN), variable=True),
        *(Tensor(name, (ROWS, size)) for name, size in outputs.items()),
    ]
    operator = Operator("LSTM", list("xhwbc"), list(outputs), "LSTMOptions", {"KernelType": 1})
    return write(tensors, [operator], ["x"], ["h1", "c1"])


def stream(start: float = 0.0, quantized: bool = False) -> bytes:
    """Return a sliding window over a stream: the stored frames and the new ones, of which the last
    are stored.
    """
    dtype = "int8" if quantized else "float32"
    grid: dict[str, Any] = {"scale": [0.03], "zero_point": [-5]} if quantized else {}

    def frames(name: str, count: int) -> Tensor:
        return Tensor(name, (1, count, 5), dtype, **grid)

    first = np.round(start / 0.03 - 5) if quantized else start
    begin = Tensor("start", (1, 3, 5), dtype, np.full((1, 3, 5), first, dtype), **grid)
    name = {"Container": "", "SharedName": "window"}
    numbers = {"first": [0, 2, 0], "last": [1, 5, 5], "one": [1, 1, 1]}
    inside = Subgraph(
        [
            Tensor("kept", (), "resource"), frames("old", 3), frames("x", 2), frames("y", 5),
            frames("new", 3), *(constant(key, data) for key, data in numbers.items()),
        ],
        [
            Operator("CALL_ONCE", [], [], "CallOnceOptions", {"InitSubgraphIndex": 1}),
            Operator("VAR_HANDLE", [], ["kept"], "VarHandleOptions", name),
            Operator("READ_VARIABLE", ["kept"], ["old"], "ReadVariableOptions"),
            Operator("CONCATENATION", ["old", "x"], ["y"], "ConcatenationOptions", {"Axis": 1}),
            Operator("STRIDED_SLICE", ["y", *numbers], ["new"], "StridedSliceOptions"),
            Operator("ASSIGN_VARIABLE", ["kept", "new"], [], "AssignVariableOptions"),
        ],
        ["x"],
        ["y"],
    )  # fmt: skip
    before = Subgraph(
        [Tensor("kept", (), "resource"), begin],
        [
            Operator("VAR_HANDLE", [], ["kept"], "VarHandleOptions", name),
            Operator("ASSIGN_VARIABLE", ["kept", "start"], [], "AssignVariableOptions"),
        ],
        [],
        [],
        "before",
    )
    return write_model([inside, before])


STREAMS: dict[str, Callable[[], bytes]] = {
    "zeros": stream,
    "a number": lambda: stream(0.75),
    "quantised zeros": lambda: stream(0.0, quantized=True),
    "a quantised number": lambda: stream(0.75, quantized=True),
}
Make = Callable[[], bytes]
MODELS: dict[str, Make] = {
    **{f"sequence {kind}": (lambda kind=kind: sequence_lstm(kind)) for kind in SEQUENCES},
    "sequence by time": lambda: sequence_lstm(time_major=True),
    "sequence of one": lambda: sequence_lstm(steps=1),
    **{f"cell {kind}": (lambda kind=kind: full_lstm(kind)) for kind in CELLS},
    "basic cell": basic_lstm,
    "svdf": svdf,
    "svdf relu": lambda: svdf(1),
    "svdf without memory": lambda: svdf(memory=1),
}


class InStep:
    """LiteRT's own kernels without a delegate, run after run."""

    def __init__(self, interpreters: Any, model: bytes, shape: tuple[int, ...] | None = None):
        resolver = interpreters.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._interpreter = interpreters.Interpreter(
            model_content=model, experimental_op_resolver_type=resolver
        )
        (detail,) = self._interpreter.get_input_details()
        self.input, self.shape = detail["index"], tuple(detail["shape"])
        self._dtype = np.dtype(detail["dtype"])
        if shape is not None:
            self._interpreter.resize_tensor_input(self.input, shape)
            self.shape = shape
        self._interpreter.allocate_tensors()

    def run(self, x: np.ndarray) -> list[np.ndarray]:
        self._interpreter.set_tensor(self.input, x)
        self._interpreter.invoke()
        details = self._interpreter.get_output_details()
        return [self._interpreter.get_tensor(item["index"]) for item in details]

    def reset(self) -> None:
        self._interpreter.reset_all_variables()

    def draw(self, seed: int) -> np.ndarray:
        numbers = np.random.default_rng([3, seed]).uniform(-2, 2, self.shape)
        return (numbers * (50 if self._dtype.kind == "i" else 1)).astype(self._dtype)
