"""Graphs as bytes, for parts that run with the NumPy definitions.

The format is a JSON record followed by the constants. Attributes are read by the types of their
dataclass fields. Attributes that are not data, such as code of the caller, cannot be written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from fourfold.errors import MALFORMED, ModelError
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.types import Quantization, TensorType

_HEADER = 8  # bytes for the length of the record
_PLAIN = (bool, int, float, str, NoneType)


def write_graph(graph: Graph) -> bytes | None:
    """Return the graph as bytes; None if something in it is not data."""
    arrays = {**graph.constants, **{f"{name}/start": one for name, one in graph.starts.items()}}
    try:
        text = json.dumps(_record(graph, arrays), separators=(",", ":")).encode()
        data = [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
        content = b"".join([len(text).to_bytes(_HEADER, "little"), text, *data])
        same = read_graph(content).nodes == graph.nodes
    except (*MALFORMED, NameError, ModelError):
        return None
    return content if same else None


def read_graph(content: bytes) -> Graph:
    """Read a graph from bytes. Raises ModelError if they are malformed."""
    try:
        end = _HEADER + int.from_bytes(content[:_HEADER], "little")
        record = json.loads(content[_HEADER:end])
        arrays = _read_arrays(record["arrays"], memoryview(content)[end:])
        starts = {str(name): arrays.pop(f"{name}/start") for name in record["starts"]}
        types = {str(name): TensorType.parse(text) for name, text in record["types"].items()}
        grids = record["quantization"].items()
        return Graph(
            nodes=tuple(_read_node(item, types) for item in record["nodes"]),
            inputs=_read(tuple[str, ...], record["inputs"]),
            outputs=_read(tuple[str, ...], record["outputs"]),
            types=types,
            constants=arrays,
            quantization={str(name): _read(Quantization, grid) for name, grid in grids},
            name=str(record["name"]),
            states={str(name): str(after) for name, after in record["states"].items()},
            starts=starts,
        )
    except (*MALFORMED, NameError) as error:
        why, fix = f"its graph record is malformed: {error!r}", "prepare the model again"
        raise ModelError("a part of the model is damaged", why, fix) from error


def _record(graph: Graph, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {
        "name": graph.name,
        "nodes": [_node_record(node) for node in graph.nodes],
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "states": dict(graph.states),
        "types": {name: str(type_) for name, type_ in graph.types.items()},
        "quantization": {name: _plain(grid) for name, grid in graph.quantization.items()},
        "arrays": [(name, str(TensorType.of(array))) for name, array in arrays.items()],
        "starts": list(graph.starts),
    }


def _node_record(node: Node) -> list[Any]:
    if node.tail:
        raise TypeError("graphs are written before any operator is fused")
    return [node.op, node.inputs, node.outputs, _plain(node.attributes), node.name]


def _read_node(item: list[Any], types: Mapping[str, TensorType]) -> Node:
    op, inputs, outputs, attributes, name = item
    definition = registry()[op]
    node = Node(
        op,
        _read(tuple[str | None, ...], inputs),
        _read(tuple[str, ...], outputs),
        _read(definition.attributes, attributes),
        name=_read(str, name),
    )
    if not types.keys() >= {*node.reads, *node.outputs}:
        raise ValueError(f"{node} has a value without a type")
    return node


def _read_arrays(items: list[Any], data: memoryview) -> dict[str, np.ndarray]:
    arrays, start = {}, 0
    for name, text in items:
        type_ = TensorType.parse(text)
        part = data[start : start + type_.bytes]
        arrays[str(name)] = np.frombuffer(part, type_.dtype.numpy).reshape(type_.shape)
        start += type_.bytes
    return arrays


def _plain(value: object) -> Any:
    """Return a value as JSON data."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    raise TypeError(f"{value!r} is not data")


def _read(kind: Any, value: Any) -> Any:
    """Read a value of a type. Raises TypeError or ValueError if it does not match."""
    if get_origin(kind) in (Union, UnionType):
        return _read_one_of(get_args(kind), value)
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        kinds = (kinds[0],) * len(value) if kinds[-1] is Ellipsis else kinds
        return tuple(_read(one, item) for one, item in zip(kinds, value, strict=True))
    if kind in _PLAIN and (type(value) is kind or (kind is float and type(value) is int)):
        return value
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _read(hints[name], item) for name, item in value.items()})
    if isinstance(kind, type) and issubclass(kind, tuple):
        hints = get_type_hints(kind)
        pairs = zip(hints.values(), value, strict=True)
        return kind(*(_read(one, item) for one, item in pairs))
    raise TypeError(f"{value!r} is not a {kind}")


def _read_one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds:
        try:
            return _read(kind, value)
        except (TypeError, ValueError, AttributeError):
            continue
    raise TypeError(f"{value!r} is none of {kinds}")
