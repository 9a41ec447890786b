"""y = pad(x); z = conv2d(y)  ->  z = conv2d(x; more padding), when all readers of y can do so.

A max_pool2d ignores padding, so only padding that cannot win is merged: the lowest number, or zeros
around values that are never negative. (Every window touches the image: a rule of the op.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fourfold.errors import ModelError
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.pad import Pad

_NEVER_NEGATIVE = frozenset(
    {
        "absolute",
        "exp",
        "logistic",
        "relu",
        "relu6",
        "softmax",
        "sqrt",
        "square",
        "squared_difference",
    }
)
_LOWEST = float(np.finfo(np.float32).min)
_IMAGE_RANK, _IMAGE_AXES = 4, (1, 2)


def merge_pads(graph: Graph) -> Graph:
    merged: dict[str, Node] = {}
    gone = set()
    for node in graph.nodes:
        pad = merged.get(node.outputs[0], node)
        readers = _merge(graph, pad, merged)
        if readers:
            gone.add(pad.outputs[0])
            merged.update((reader.outputs[0], reader) for reader in readers)
    nodes = (node for node in graph.nodes if node.outputs[0] not in gone)
    return graph.with_nodes(tuple(merged.get(node.outputs[0], node) for node in nodes))


def _merge(graph: Graph, pad: Node, merged: Mapping[str, Node]) -> list[Node]:
    """Return all readers of a pad with its padding merged into theirs; empty unless all can."""
    output = pad.outputs[0]
    if not _is_around_images(pad) or graph.is_output(output):
        return []
    readers = []
    for reader in graph.readers.get(output, ()):
        reader = merged.get(reader.outputs[0], reader)
        attributes = _with_padding(graph, reader, pad)
        if attributes is None or reader.inputs[0] != output or len(_uses_of(reader, output)) > 1:
            return []
        readers.append(
            replace(reader, inputs=(pad.inputs[0], *reader.inputs[1:]), attributes=attributes)
        )
    return readers


def _is_around_images(pad: Node) -> bool:
    attributes = pad.attributes
    if not isinstance(attributes, Pad) or pad.tail or len(attributes.before) != _IMAGE_RANK:
        return False
    pairs = enumerate(zip(attributes.before, attributes.after, strict=True))
    return not any(any(pair) for axis, pair in pairs if axis not in _IMAGE_AXES)


def _uses_of(node: Node, name: str) -> list[str]:
    """Return every occurrence of a value among a node's inputs."""
    mentions = [*node.inputs, *(other for step in node.tail for other in step.inputs)]
    return [other for other in mentions if other == name]


def _with_padding(graph: Graph, reader: Node, pad: Node) -> object | None:
    """Return the reader's attributes with the padding of `pad`, if that is equivalent."""
    assert isinstance(pad.attributes, Pad)
    before, after, value = pad.attributes.before, pad.attributes.after, pad.attributes.value
    if isinstance(reader.attributes, Pad) and reader.attributes.value == value:
        return _sum_of_pads(pad.attributes, reader.attributes)
    if not _ignores(graph, reader, pad, value):
        return None
    attributes: Any = reader.attributes
    padding = replace(
        attributes.padding,
        top=attributes.padding.top + before[1],
        bottom=attributes.padding.bottom + after[1],
        left=attributes.padding.left + before[2],
        right=attributes.padding.right + after[2],
    )
    wider: object = replace(attributes, padding=padding)
    return wider if _is_legal(graph, reader, pad, wider) else None


def _sum_of_pads(first: Pad, second: Pad) -> Pad:
    before = tuple(map(sum, zip(first.before, second.before, strict=True)))
    after = tuple(map(sum, zip(first.after, second.after, strict=True)))
    return Pad(before, after, first.value)


def _ignores(graph: Graph, reader: Node, pad: Node, value: float) -> bool:
    """Return whether the reader's own padding has the effect of `value`."""
    if reader.op in {"conv2d", "depthwise_conv2d"}:
        return value == 0.0
    if reader.op != "max_pool2d":
        return False
    return value <= _LOWEST or (value == 0.0 and _is_never_negative(graph, str(pad.inputs[0])))


def _is_never_negative(graph: Graph, name: str) -> bool:
    producer = graph.producers.get(name)
    if producer is None:
        return False
    return (producer.tail[-1].op if producer.tail else producer.op) in _NEVER_NEGATIVE


def _is_legal(graph: Graph, reader: Node, pad: Node, attributes: object) -> bool:
    types = (graph.types[str(pad.inputs[0])], *graph.input_types(reader)[1:])
    try:
        registry()[reader.op].infer(attributes, *types)
    except ModelError:
        return False
    return True
