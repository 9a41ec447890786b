"""The cases of an op as one graph, with the results of its NumPy reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from op_inputs import case_graph
from op_kernels import WITH_KERNELS

from fourfold.graph import Graph
from fourfold.ops.base import Case, Op

TOLERANCE = {"fp32": 2e-5, "mixed": 4e-3, "fp16": 2e-2}
# For these ops, fp16 rounding may move a result to the next integer.
JUMPING = ("cast", "floor_div", "floor_mod", "grid_sample", "max_pool2d_index", "remainder")
IN_HALVES = [name for name in WITH_KERNELS if name not in JUMPING]


@dataclass(frozen=True)
class Trial:
    """A graph with a node per case, its inputs and the expected outputs."""

    cases: tuple[Case, ...]
    graph: Graph
    inputs: list[np.ndarray]
    expected: dict[str, np.ndarray]

    def check(self, results: Iterable[np.ndarray], tolerance: float) -> None:
        """Check that the graph's outputs are close to the expected ones."""
        wrong = []
        for result, (output, expected) in zip(results, self.expected.items(), strict=True):
            case = self.cases[int(output[3:].split("_")[0])]
            actual = complaint(result, expected, tolerance * case.tolerance)
            if actual:
                wrong.append(f"{case.inputs} {case.attributes}: {actual}")
        assert not wrong, "\n".join(wrong)


def trial(op: Op, cases: tuple[Case, ...] = ()) -> Trial:
    """Return the trial of these cases of an op, or of all its cases."""
    cases = cases or op.cases
    graph, every = case_graph(op, cases)
    expected: dict[str, np.ndarray] = {}
    inputs: list[np.ndarray] = []
    for node, case, arrays in zip(graph.nodes, cases, every, strict=True):
        values = op.reference(case.attributes, *arrays)
        values = values if isinstance(values, tuple) else (values,)
        expected |= dict(zip(node.outputs, values, strict=True))
        pairs = zip(node.inputs, arrays, strict=True)
        inputs += [a for name, a in pairs if a is not None and name in graph.inputs]
    assert graph.outputs == tuple(expected)
    return Trial(cases, graph, inputs, expected)


def complaint(result: np.ndarray, wanted: np.ndarray, tolerance: float) -> str | None:
    """Return what is wrong with a result, or None."""
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        return f"{result.dtype}{result.shape} instead of {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind != "f":
        return None if np.array_equal(result, wanted) else f"{result} instead of {wanted}"
    if np.isnan(result).any():
        return "NaN"
    error = np.abs(result - wanted).max(initial=0)
    limit = tolerance * max(1.0, float(np.abs(wanted).max(initial=0)))
    return None if error <= limit else f"off by {error:.3g}, allowed {limit:.3g}"
