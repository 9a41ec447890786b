"""Which values a model's own numbers may take beyond what halves hold.

A mask is -1e9 or -3.4e38 where nothing is to be looked at. As a half that is minus infinity, and
the softmax of a row of such is no number, where floats have one. What such numbers go into is kept
in full precision, up to an op whose results are small again. Infinities of the model stay what they
are in any precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Flag
from functools import reduce
from operator import or_

import numpy as np

from fourfold.graph import Graph, Node
from fourfold.kernels.joined import Joined
from fourfold.op.registry import registry
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.formula import Formula
from fourfold.ops.pad import Pad
from fourfold.types import LARGEST_HALF


class Beyond(Flag):
    """On which side numbers may lie beyond the largest half."""

    NOWHERE = 0
    BELOW = 1
    ABOVE = 2
    BOTH = 3


Rule = Callable[[Sequence[Beyond]], Beyond]


def values_beyond_half(graph: Graph) -> frozenset[str]:
    """The float values that may be beyond it because of constants, inputs being within."""
    known = _Known(graph.constants)
    for node in graph.nodes:
        found = _of_node(node, known)
        for name in node.outputs:
            if graph.types[name].dtype.is_float:
                known[name] = found
    return frozenset(n for n, found in known.items() if found and n not in graph.constants)


class _Known(dict[str, Beyond]):
    """What is known of values by name; constants are looked at when they are first asked for."""

    def __init__(self, constants: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self._constants = constants

    def __missing__(self, name: str) -> Beyond:
        array = self._constants.get(name)
        self[name] = Beyond.NOWHERE if array is None else _of_numbers(array)
        return self[name]


def _of_numbers(array: np.ndarray) -> Beyond:
    if array.dtype.kind != "f" or not array.size:
        return Beyond.NOWHERE
    low, high = float(array.min()), float(array.max())
    if not np.isfinite([low, high]).all():
        finite = array[np.isfinite(array)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    below = Beyond.BELOW if low < -LARGEST_HALF else Beyond.NOWHERE
    return below | (Beyond.ABOVE if high > LARGEST_HALF else Beyond.NOWHERE)


def _of_node(node: Node, known: _Known) -> Beyond:
    operands = [Beyond.NOWHERE if name is None else known[name] for name in node.inputs]
    if isinstance(node.attributes, Joined):
        found = _of_parts(node.attributes, operands)
    else:
        found = _of_op(node.op, node.attributes, operands)
    for step in node.tail:
        operands = [found if name is None else known[name] for name in step.inputs]
        found = _of_op(step.op, step.attributes, operands)
    return found


def _of_parts(attributes: Joined, inputs: Iterable[Beyond]) -> Beyond:
    known = _Known({})
    known.update({str(number): found for number, found in enumerate(inputs)})
    for part in attributes.parts:
        known[part.outputs[0]] = _of_node(part, known)
    return known[attributes.parts[-1].outputs[0]]


def _of_op(op: str, attributes: object, operands: Sequence[Beyond]) -> Beyond:
    """What an op makes of operands; anything of them may become anything, if no rule says more."""
    if isinstance(attributes, Formula):
        known = list(operands)
        for term in attributes.terms:
            known.append(_of_op(term.op, term.attributes, [known[n] for n in term.operands]))
        return known[-1]
    if isinstance(attributes, FakeQuantize):
        steps = max(abs(attributes.low), abs(attributes.high))
        if steps * attributes.distance <= LARGEST_HALF:
            return Beyond.NOWHERE
    if isinstance(attributes, Pad):
        return _all(operands) | _of_numbers(np.array(attributes.value))
    if registry()[op].bounds is not None:
        return Beyond.NOWHERE
    return _RULES.get(op, _mixed)(operands)


def _all(operands: Sequence[Beyond]) -> Beyond:
    return reduce(or_, operands, Beyond.NOWHERE)


def _mixed(operands: Sequence[Beyond]) -> Beyond:
    return Beyond.BOTH if any(operands) else Beyond.NOWHERE


def _nowhere(operands: Sequence[Beyond]) -> Beyond:
    return Beyond.NOWHERE


def _above(operands: Sequence[Beyond]) -> Beyond:
    return _all(operands) & Beyond.ABOVE


def _negated(found: Beyond) -> Beyond:
    below = Beyond.BELOW if found & Beyond.ABOVE else Beyond.NOWHERE
    return below | (Beyond.ABOVE if found & Beyond.BELOW else Beyond.NOWHERE)


def _difference(operands: Sequence[Beyond]) -> Beyond:
    left, right = operands
    return left | _negated(right)


def _larger(operands: Sequence[Beyond]) -> Beyond:
    """As far down as the operand that reaches down least."""
    return _above(operands) | (operands[0] & operands[1] & Beyond.BELOW)


def _smaller(operands: Sequence[Beyond]) -> Beyond:
    return (_all(operands) & Beyond.BELOW) | (operands[0] & operands[1] & Beyond.ABOVE)


def _product(operands: Sequence[Beyond]) -> Beyond:
    """Of values and what is added to the sums: weights by themselves say nothing of their size."""
    return _mixed([*operands[:1], *operands[2:]])


_COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
_MOVES = ("concat", "gather", "gather_nd", "identity", "reshape", "slice", "tile", "transpose")
_PRODUCTS = ("conv2d", "conv3d", "depthwise_conv2d", "fully_connected", "transpose_conv2d")
_SMALL = ("atan2", "cos", "l2_normalize", "log", "logistic", "sign", "sin", "softmax", "tanh")
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*_COMPARISONS, *_SMALL), _nowhere),
    **dict.fromkeys((*_MOVES, "add", "mean", "reduce_max", "reduce_min", "sum"), _all),
    **dict.fromkeys(_PRODUCTS, _product),
    **dict.fromkeys(("exp", "relu"), _above),
    # Every window has numbers of the image, whatever it is padded with.
    "max_pool2d": _above,
    **dict.fromkeys(("div", "exact_div"), lambda operands: _mixed(operands[:1])),
    "maximum": _larger,
    "minimum": _smaller,
    "negate": lambda operands: _negated(operands[0]),
    "select": lambda operands: _all(operands[1:]),
    "sub": _difference,
}
