"""Hostile input values for ops that read or write elements which their inputs select."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from op_trials import Trial, trial

from fourfold.ops.base import Case, Op, registry

# Every op that takes indices, and ops whose kernels derive positions or loop counts from numbers.
BY_NUMBERS = ("grid_sample", "max_unpool2d", "non_max_suppression", "suppress_boxes", "top_indices")
ADDRESSED = [name for name, op in registry().items() if op.indices or name in BY_NUMBERS]
INT32 = np.iinfo(np.int32)
REALS = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 2.0**31, -(2.0**31), 1e9, -1e9, 0.5])


def hostile_cases(op: Op) -> tuple[Case, ...]:
    """Return the cases of an op without constants, so that all values are inputs."""
    return tuple(replace(case, constants=()) for case in op.cases)


def hostile_trial(op: Op, seed: int, only_indices: bool = False) -> Trial:
    """Return the cases of an op with hostile inputs and what the reference makes of them.

    With `only_indices`, all other inputs have valid numbers, so that results can be compared.
    """
    item = trial(op, hostile_cases(op))
    generator = np.random.default_rng(seed)
    arrays = dict(zip(item.graph.inputs, item.inputs, strict=True))
    expected: dict[str, np.ndarray] = {}
    for node, case in zip(item.graph.nodes, item.cases, strict=True):
        types, chosen = item.graph.input_types(node), None
        if only_indices:
            assert op.indices is not None
            chosen = op.indices(case.attributes, *types).input
        for number, name in enumerate(node.inputs):
            if name is not None and chosen in (None, number):
                arrays[name] = _hostile(generator, arrays[name])
        values = [None if name is None else arrays[name] for name in node.inputs]
        with np.errstate(all="ignore"):
            results = op.reference(case.attributes, *values)
        results = results if isinstance(results, tuple) else (results,)
        expected |= dict(zip(node.outputs, results, strict=True))
    return replace(item, inputs=list(arrays.values()), expected=expected)


def _hostile(generator: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Return the array with some of its numbers replaced by extreme ones."""
    if array.dtype.kind == "f":
        extremes = generator.choice(REALS, array.shape).astype(array.dtype)
    else:
        near = generator.integers(-40, 40, array.shape)
        far = generator.integers(INT32.min, INT32.max, array.shape, endpoint=True)
        ends = generator.choice([INT32.min, INT32.min + 1, INT32.max], array.shape)
        extremes = np.choose(generator.integers(0, 3, array.shape), [near, far, ends])
    return np.where(generator.random(array.shape) < 0.7, extremes, array).astype(array.dtype)
