"""Reproducible input arrays for the cases of an op, and a graph of all its cases."""

from __future__ import annotations

import math

import numpy as np

from fourfold.graph import Graph, Node
from fourfold.ops.base import Case, Op
from fourfold.types import DType, TensorType


def make_inputs(case: Case, seed: int = 0) -> list[np.ndarray | None]:
    """Return one array per input of the case, constants included, between its low and high."""
    generator = np.random.default_rng(seed)
    types = [None if text is None else TensorType.parse(text) for text in case.inputs]
    return [None if type is None else _array(generator, type, case) for type in types]


def _array(generator: np.random.Generator, type: TensorType, case: Case) -> np.ndarray:
    if type.dtype is DType.BOOL:
        return generator.integers(0, 2, type.shape).astype(np.bool_)
    if type.dtype.is_integer:
        low, high = math.ceil(case.low), math.floor(case.high)
        return np.asarray(
            generator.integers(low, high, type.shape, endpoint=True), type.dtype.numpy
        )
    return np.asarray(generator.uniform(case.low, case.high, type.shape), type.dtype.numpy)


def case_graph(op: Op, cases: tuple[Case, ...]) -> tuple[Graph, list[list[np.ndarray | None]]]:
    """Return one graph with a node per case, and the arrays of each case.

    Arrays that are not constants are the graph's inputs, in order.
    """
    nodes, every = [], []
    inputs: list[str] = []
    types: dict[str, TensorType] = {}
    constants: dict[str, np.ndarray] = {}
    for number, case in enumerate(cases):
        arrays = make_inputs(case, seed=7 + number)
        names = [None if a is None else f"in{number}_{i}" for i, a in enumerate(arrays)]
        for index, (name, array) in enumerate(zip(names, arrays, strict=True)):
            if name is not None and array is not None:
                types[name] = TensorType.of(array)
                if index in case.constants:
                    constants[name] = array
                else:
                    inputs.append(name)
        results = op.infer(case.attributes, *(None if n is None else types[n] for n in names))
        outputs = tuple(f"out{number}_{index}" for index in range(len(results)))
        types |= dict(zip(outputs, results, strict=True))
        nodes.append(Node(op.name, tuple(names), outputs, case.attributes))
        every.append(arrays)
    result = tuple(name for node in nodes for name in node.outputs)
    return Graph(tuple(nodes), tuple(inputs), result, types, constants), every
