"""Graphs for tests: parsed from text, generated at random, and compared by their results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import TypeVar

import numpy as np

from fourfold.backends.cpu.reference import evaluate
from fourfold.compiler.rewrite import Pass, check
from fourfold.errors import ModelError
from fourfold.graph import NONE, Graph, Node, Step
from fourfold.ops.base import registry
from fourfold.ops.base.rules import Reduce, Resize
from fourfold.ops.base.window import Padding, Pool2d
from fourfold.ops.cast import Cast
from fourfold.ops.concat import Concat
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.ops.pad import Pad
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.ops.softmax import Softmax
from fourfold.ops.tile import Tile
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, Shape, TensorType

_CALL = re.compile(r"(\w+)(?:\((.*)\))?")
_WORDS = {"Padding": Padding, "DType": DType}


@dataclass
class Draft:
    """A graph that grows; types follow from the ops' rules."""

    nodes: list[Node] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def constant(self, name: str, array: np.ndarray) -> str:
        self.types[name] = TensorType.of(array)
        self.constants[name] = array
        return name

    def node(self, node: Node) -> None:
        types = [None if name is None else self.types[name] for name in node.inputs]
        (type_,) = registry()[node.op].infer(node.attributes, *types)
        for step in node.tail:
            types = [type_ if name is None else self.types[name] for name in step.inputs]
            (type_,) = registry()[step.op].infer(step.attributes, *types)
        self.types[node.outputs[0]] = type_
        self.nodes.append(node)

    def graph(self) -> Graph:
        return Graph(
            tuple(self.nodes), tuple(self.inputs), tuple(self.outputs), self.types, self.constants
        )


def build(text: str) -> Graph:
    """Parse a graph in the form that graphs print, with default attributes omitted.

    `const c: f32[3]` is a constant of random numbers, `const c: f32[3] = 1` is filled with ones.
    """
    draft = Draft()
    generator = np.random.default_rng(0)
    for line in filter(None, map(str.strip, text.splitlines())):
        kind, _, rest = line.partition(" ")
        if kind == "output":
            draft.outputs += rest.replace(",", " ").split()
        elif kind == "input":
            name, _, type_ = rest.partition(":")
            draft.inputs.append(name)
            draft.types[name] = TensorType.parse(type_)
        elif kind == "const":
            name, _, rest = rest.partition(":")
            type_, _, number = rest.partition("=")
            draft.constant(name, _array(generator, TensorType.parse(type_), number))
        else:
            draft.node(_node(line))
    return draft.graph()


def _array(generator: np.random.Generator, type_: TensorType, number: str = "") -> np.ndarray:
    if number:
        return np.full(type_.shape, float(number), type_.dtype.numpy)
    return np.asarray(generator.uniform(-1, 1, type_.shape), type_.dtype.numpy)


def _node(line: str) -> Node:
    output, _, right = line.partition(" = ")
    first, *steps = right.split(" |> ")
    op, inputs, attributes = _call(first)
    tail = [_call(step) for step in steps]
    return Node(
        op,
        inputs,
        (output,),
        attributes,
        tuple(Step(name, settings, (None, *others)) for name, others, settings in tail),
        name=output,
    )


def _call(text: str) -> tuple[str, tuple[str | None, ...], object]:
    match = _CALL.fullmatch(text)
    assert match is not None, text
    values, _, settings = (match[2] or "").partition(";")
    if "=" in values:
        values, settings = "", values
    names = [name.strip() for name in values.split(",") if name.strip()]
    attributes = registry()[match[1]].attributes(**eval(f"dict({settings})", dict(_WORDS)))
    return match[1], tuple(None if name == "-" else name for name in names), attributes


def brief(graph: Graph) -> list[str]:
    """Return the nodes as text, without default attributes."""
    return [_brief(node) for node in graph.nodes]


def _brief(node: Node) -> str:
    inputs = ", ".join("-" if name is None else name for name in node.inputs)
    settings = _settings(node.attributes)
    text = f"{', '.join(node.outputs)} = {node.op}({inputs}{'; ' if settings else ''}{settings})"
    return " |> ".join([text, *map(_brief_step, node.tail)])


def _brief_step(step: Step) -> str:
    inputs = ", ".join(name for name in step.inputs if name is not None)
    inside = "; ".join(filter(None, (inputs, _settings(step.attributes))))
    return f"{step.op}({inside})" if inside else step.op


def _settings(attributes: object) -> str:
    shown = []
    for one in fields(attributes):  # type: ignore[arg-type]
        value = getattr(attributes, one.name)
        if one.default is MISSING or value != one.default:
            shown.append(f"{one.name}={value}")
    return ", ".join(shown)


def assert_equal(before: Graph, after: Graph, tolerance: float = 1e-4) -> None:
    """Check that both graphs compute the same, within float tolerance."""
    generator = np.random.default_rng(7)
    inputs = {name: _array(generator, before.types[name]) * 3 for name in before.inputs}
    inputs = {name: array.astype(before.types[name].dtype.numpy) for name, array in inputs.items()}
    expected, result = evaluate(before, inputs), evaluate(after, inputs)
    assert list(expected) == list(result)
    for name, array in expected.items():
        scale = max(1.0, float(np.abs(array.astype(np.float64)).max(initial=0)))
        if not np.isfinite(scale):
            continue  # repeated squares overflow, where rounding decides the result
        np.testing.assert_allclose(
            result[name] / scale, array / scale, atol=tolerance, err_msg=name
        )


def assert_rewrites(pass_: Pass, before: str, *after: str) -> Graph:
    """Check that the pass rewrites the text to these nodes, keeps results, and reaches a fixed
    point.
    """
    graph = build(before)
    check(graph)
    result = pass_(graph)
    check(result)
    assert brief(result) == list(after)
    assert_equal(graph, result)
    assert brief(pass_(result)) == brief(result)
    return result


Item = TypeVar("Item")


class Random:
    """Generates graphs; the same seed gives the same graph."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.draft = Draft()
        self.count = 0

    def graph(self, size: int) -> Graph:
        draft = self.draft
        for shape in ((1, 6, 5, 4), (1, 6, 5, 4), (1, 4)):
            name = self.fresh("x")
            draft.inputs.append(name)
            draft.types[name] = TensorType(DType.F32, shape)
        while len(draft.nodes) < size:
            self.grow()
        read = {name for node in draft.nodes for name in node.reads}
        results = [node.outputs[0] for node in draft.nodes]
        draft.outputs = [name for name in results if name not in read or self.chance(0.1)]
        return draft.graph()

    def grow(self) -> None:
        """Add one node, if the chosen op accepts the chosen value."""
        maker = self.choose(MAKERS)
        node = maker(self, self.value())
        try:
            self.draft.node(node)
        except ModelError:
            return
        if self.draft.types[node.outputs[0]].elements > 5000:
            self.draft.nodes.pop()

    def value(self) -> str:
        """Return mostly a recent value, sometimes an old one or a constant."""
        draft = self.draft
        names = [*draft.inputs, *(node.outputs[0] for node in draft.nodes)]
        if self.chance(0.05):
            return self.constant((1, 6, 5, 4))
        return self.choose(names[-4:] if self.chance(0.7) else names)

    def constant(self, shape: Shape) -> str:
        number = self.choose(["", "", "0", "1", "3", "0.5"])
        array = _array(self.generator, TensorType(DType.F32, shape), number)
        return self.draft.constant(self.fresh("c"), array)

    def node(self, op: str, *inputs: str | None, attributes: object = NONE) -> Node:
        name = self.fresh(op)
        return Node(op, inputs, (name,), attributes, name=name)

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def shape(self, name: str) -> Shape:
        return self.draft.types[name].shape

    def channels(self, name: str) -> int:
        return self.draft.types[name].channels

    def choose(self, items: Sequence[Item]) -> Item:
        return items[int(self.generator.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        return bool(self.generator.random() < probability)

    def small(self, count: int, most: int = 2) -> tuple[int, ...]:
        return tuple(int(number) for number in self.generator.integers(0, most, count))


UNARY = ("relu", "relu6", "negate", "logistic", "tanh", "square", "absolute", "identity")
BINARY = ("add", "add", "mul", "mul", "sub", "maximum", "minimum", "squared_difference")


def _unary(random: Random, x: str) -> Node:
    return random.node(random.choose(UNARY), x)


def _binary(random: Random, x: str) -> Node:
    """Return a binary op with itself, a neighbor, a number, a number per channel, or a tensor."""
    shape = random.shape(x)
    choices = (shape, shape[-1:], (), (1,) * len(shape))
    other = random.value() if random.chance(0.5) else random.constant(random.choose(choices))
    pair = (x, other) if random.chance(0.7) else (other, x)
    return random.node(random.choose(BINARY), *pair)


def _divide(random: Random, x: str) -> Node:
    number = random.draft.constant(random.fresh("c"), np.float32(random.choose((1.0, 2.0, 6.0))))
    return random.node("div", x, number)


def _prelu(random: Random, x: str) -> Node:
    return random.node("prelu", x, random.constant(random.shape(x)[-1:]))


def _leaky_relu(random: Random, x: str) -> Node:
    return random.node("leaky_relu", x, attributes=LeakyRelu(0.1))


def _cast(random: Random, x: str) -> Node:
    return random.node("cast", x, attributes=Cast(DType.F32))


def _conv2d(random: Random, x: str) -> Node:
    out, filter = random.choose((1, 4, 5)), random.choose((1, 3))
    weights = random.constant((out, filter, filter, random.channels(x)))
    bias = random.constant((out,)) if random.chance(0.7) else None
    stride = random.choose(((1, 1), (1, 1), (2, 1)))
    attributes = Conv2d(stride, padding=Padding(*random.small(4)))
    return random.node("conv2d", x, weights, bias, attributes=attributes)


def _depthwise_conv2d(random: Random, x: str) -> Node:
    channels = random.channels(x)
    weights, bias = random.constant((1, 3, 3, channels)), random.constant((channels,))
    attributes = DepthwiseConv2d(padding=Padding(1, 1, 1, 1))
    return random.node("depthwise_conv2d", x, weights, bias, attributes=attributes)


def _fully_connected(random: Random, x: str) -> Node:
    weights = random.constant((random.choose((3, 4)), random.channels(x)))
    return random.node("fully_connected", x, weights)


def _pool(random: Random, x: str) -> Node:
    attributes = Pool2d((3, 3), random.choose(((1, 1), (2, 2))), Padding(*random.small(4)))
    return random.node(random.choose(("max_pool2d", "average_pool2d")), x, attributes=attributes)


def _pad(random: Random, x: str) -> Node:
    rank = len(random.shape(x))
    before, after = list(random.small(rank)), list(random.small(rank))
    if rank and random.chance(0.8):
        before[0] = after[0] = before[-1] = after[-1] = 0
    value = random.choose((0.0, 0.0, 0.0, 1.5))
    return random.node("pad", x, attributes=Pad(tuple(before), tuple(after), value))


def _reshape(random: Random, x: str) -> Node:
    shape = list(random.shape(x))
    if random.chance(0.5) or len(shape) < 2:
        shape = [1, *shape] if len(shape) < 4 else [size for size in shape if size != 1]
    elif random.chance(0.5):
        shape[:2] = [shape[0] * shape[1]]
    return random.node("reshape", x, attributes=Reshape(tuple(shape)))


def _transpose(random: Random, x: str) -> Node:
    rank = len(random.shape(x))
    order = (0, 3, 1, 2) if random.chance(0.4) else (0, 2, 3, 1)
    if rank != len(order):
        order = tuple(int(axis) for axis in random.generator.permutation(rank))
    return random.node("transpose", x, attributes=Transpose(order))


def _concat(random: Random, x: str) -> Node:
    others = [random.value() for _ in range(random.choose((0, 1, 1, 2)))]
    axis = random.choose(range(max(len(random.shape(x)), 1)))
    return random.node("concat", x, *others, attributes=Concat(axis))


def _slice(random: Random, x: str) -> Node:
    shape = random.shape(x)
    begin = random.small(len(shape), random.choose((1, 2)))
    stride = random.choose((1, 1, 1, -1))
    size = tuple(size - first for size, first in zip(shape, begin, strict=True))
    if stride < 0:
        begin = tuple(size - 1 for size in shape)
    return random.node("slice", x, attributes=Slice(begin, size, (stride,) * len(shape)))


def _reduce(random: Random, x: str) -> Node:
    rank = len(random.shape(x))
    axes = tuple(axis for axis in range(rank) if random.chance(0.4))
    op = random.choose(("mean", "sum", "reduce_max", "reduce_min"))
    return random.node(op, x, attributes=Reduce(axes, random.chance(0.6)))


def _softmax(random: Random, x: str) -> Node:
    return random.node("softmax", x, attributes=Softmax())


def _tile(random: Random, x: str) -> Node:
    multiples = tuple(number + 1 for number in random.small(len(random.shape(x)), 2))
    return random.node("tile", x, attributes=Tile(multiples))


def _resize(random: Random, x: str) -> Node:
    size = random.choose(((6, 5), (7, 9)))
    op = random.choose(("resize_bilinear", "resize_nearest"))
    return random.node(op, x, attributes=Resize(size, half_pixel_centers=random.chance(0.5)))


def _hard_swish(random: Random, x: str) -> Node:
    """Return x * relu6(x + 3) / 6, as exporters write it."""
    draft = random.draft
    three = draft.constant(random.fresh("c"), np.float32(3))
    sixth = draft.constant(random.fresh("c"), np.float32(1 / 6))
    shifted = random.node("add", x, three)
    gate = random.node("relu6", *shifted.outputs)
    product = random.node("mul", *gate.outputs, x)
    for node in (shifted, gate, product):
        draft.node(node)
    return random.node("mul", sixth, *product.outputs)


def _prelu_in_parts(random: Random, x: str) -> Node:
    """Return relu(x) - c * relu(-x), as exporters write it."""
    draft = random.draft
    slope = random.constant(random.shape(x)[-1:])
    positive, minus = random.node("relu", x), random.node("negate", x)
    negative = random.node("relu", *minus.outputs)
    scaled = random.node("mul", *negative.outputs, slope)
    for node in (positive, minus, negative, scaled):
        draft.node(node)
    return random.node("sub", *positive.outputs, *scaled.outputs)


MAKERS: tuple[Callable[[Random, str], Node], ...] = (
    *(_unary,) * 3,
    *(_binary,) * 4,
    *(_conv2d,) * 3,
    *(_pad, _reshape, _transpose) * 2,
    _cast,
    _concat,
    _depthwise_conv2d,
    _divide,
    _fully_connected,
    _hard_swish,
    _leaky_relu,
    _pool,
    _prelu,
    _prelu_in_parts,
    _reduce,
    _resize,
    _slice,
    _softmax,
    _tile,
)
