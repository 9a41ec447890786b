"""Finds values that may exceed the fp16 range because of a model's constants.

Masks use -1e9 or -3.4e38 for positions to ignore. In fp16 that is minus infinity, and the softmax
of a row of such values is NaN, whereas in fp32 it is a number. Values computed from such constants
are kept in fp32, up to an operator whose results are small again. Infinities of the model itself
stay infinities in any precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Flag
from functools import reduce
from operator import or_

import numpy as np

from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.formula import Formula
from fourfold.ops.kernels.joined import Joined
from fourfold.ops.pad import Pad
from fourfold.types import MAX_FLOAT16


class Beyond(Flag):
    """The sides on which numbers may exceed the largest fp16 number."""

    NOWHERE = 0
    BELOW = 1
    ABOVE = 2
    BOTH = 3


Rule = Callable[[Sequence[Beyond]], Beyond]


def values_beyond_half(graph: Graph) -> frozenset[str]:
    """Return the float values that may exceed the fp16 range, if inputs do not."""
    ranges = _Ranges(graph.constants)
    for node in graph.nodes:
        beyond = _range_of_node(node, ranges)
        for name in node.outputs:
            if graph.types[name].dtype.is_float:
                ranges[name] = beyond
    return frozenset(n for n, beyond in ranges.items() if beyond and n not in graph.constants)


class _Ranges(dict[str, Beyond]):
    """Ranges of values by name; constants are examined when they are first needed."""

    def __init__(self, constants: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self._constants = constants

    def __missing__(self, name: str) -> Beyond:
        array = self._constants.get(name)
        self[name] = Beyond.NOWHERE if array is None else _range_of_array(array)
        return self[name]


def _range_of_array(array: np.ndarray) -> Beyond:
    if array.dtype.kind != "f" or not array.size:
        return Beyond.NOWHERE
    low, high = float(array.min()), float(array.max())
    if not np.isfinite([low, high]).all():
        finite = array[np.isfinite(array)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    below = Beyond.BELOW if low < -MAX_FLOAT16 else Beyond.NOWHERE
    return below | (Beyond.ABOVE if high > MAX_FLOAT16 else Beyond.NOWHERE)


def _range_of_node(node: Node, ranges: _Ranges) -> Beyond:
    operands = [Beyond.NOWHERE if name is None else ranges[name] for name in node.inputs]
    if isinstance(node.attributes, Joined):
        beyond = _range_of_parts(node.attributes, operands)
    else:
        beyond = _range_of_op(node.op, node.attributes, operands)
    for step in node.tail:
        operands = [beyond if name is None else ranges[name] for name in step.inputs]
        beyond = _range_of_op(step.op, step.attributes, operands)
    return beyond


def _range_of_parts(attributes: Joined, inputs: Iterable[Beyond]) -> Beyond:
    ranges = _Ranges({})
    ranges.update({str(number): beyond for number, beyond in enumerate(inputs)})
    for part in attributes.parts:
        ranges[part.outputs[0]] = _range_of_node(part, ranges)
    return ranges[attributes.parts[-1].outputs[0]]


def _range_of_op(op: str, attributes: object, operands: Sequence[Beyond]) -> Beyond:
    """Return the range of an op's result; without a rule, any large operand may make it large."""
    if isinstance(attributes, Formula):
        ranges = list(operands)
        for term in attributes.terms:
            ranges.append(
                _range_of_op(term.op, term.attributes, [ranges[n] for n in term.operands])
            )
        return ranges[-1]
    if isinstance(attributes, FakeQuantize):
        steps = max(abs(attributes.low), abs(attributes.high))
        if steps * attributes.distance <= MAX_FLOAT16:
            return Beyond.NOWHERE
    if isinstance(attributes, Pad):
        return _all(operands) | _range_of_array(np.array(attributes.value))
    if registry()[op].bounds is not None:
        return Beyond.NOWHERE
    return _RULES.get(op, _mixed)(operands)


def _all(operands: Sequence[Beyond]) -> Beyond:
    return reduce(or_, operands, Beyond.NOWHERE)


def _mixed(operands: Sequence[Beyond]) -> Beyond:
    return Beyond.BOTH if any(operands) else Beyond.NOWHERE


def _within(operands: Sequence[Beyond]) -> Beyond:
    return Beyond.NOWHERE


def _above(operands: Sequence[Beyond]) -> Beyond:
    return _all(operands) & Beyond.ABOVE


def _negated(beyond: Beyond) -> Beyond:
    below = Beyond.BELOW if beyond & Beyond.ABOVE else Beyond.NOWHERE
    return below | (Beyond.ABOVE if beyond & Beyond.BELOW else Beyond.NOWHERE)


def _difference(operands: Sequence[Beyond]) -> Beyond:
    left, right = operands
    return left | _negated(right)


def _larger(operands: Sequence[Beyond]) -> Beyond:
    """Return the range of a maximum: it is low only if both operands may be."""
    return _above(operands) | (operands[0] & operands[1] & Beyond.BELOW)


def _smaller(operands: Sequence[Beyond]) -> Beyond:
    return (_all(operands) & Beyond.BELOW) | (operands[0] & operands[1] & Beyond.ABOVE)


def _product(operands: Sequence[Beyond]) -> Beyond:
    """Return the range of products, from inputs and biases; weights do not determine it."""
    return _mixed([*operands[:1], *operands[2:]])


_COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
_MOVES = ("concat", "gather", "gather_nd", "identity", "reshape", "slice", "tile", "transpose")
_PRODUCTS = ("conv2d", "conv3d", "depthwise_conv2d", "fully_connected", "transpose_conv2d")
_BOUNDED = ("atan2", "cos", "l2_normalize", "log", "logistic", "sign", "sin", "softmax", "tanh")
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*_COMPARISONS, *_BOUNDED), _within),
    **dict.fromkeys((*_MOVES, "add", "mean", "reduce_max", "reduce_min", "sum"), _all),
    **dict.fromkeys(_PRODUCTS, _product),
    **dict.fromkeys(("exp", "relu"), _above),
    # Every window contains pixels of the image, whatever the padding is.
    "max_pool2d": _above,
    **dict.fromkeys(("div", "exact_div"), lambda operands: _mixed(operands[:1])),
    "maximum": _larger,
    "minimum": _smaller,
    "negate": lambda operands: _negated(operands[0]),
    "select": lambda operands: _all(operands[1:]),
    "sub": _difference,
}
