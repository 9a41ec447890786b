"""Small ONNX models for tests, written with the onnx package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

Sizes = Sequence[int | str | None]
Value = tuple[str, str, Sizes | None]  # name, element type, sizes
OPSET = 17


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: object) -> object:
    return helper.make_node(op, inputs, outputs, **attributes)


def value(name: str, kind: str, sizes: Sizes | None) -> object:
    element = getattr(onnx.TensorProto, kind.upper())
    return helper.make_tensor_value_info(name, element, sizes)


def graph(
    nodes: Sequence[object],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    constants: Mapping[str, np.ndarray] | None = None,
) -> object:
    initializers = [numpy_helper.from_array(a, name) for name, a in (constants or {}).items()]
    ports = [value(*one) for one in inputs], [value(*one) for one in outputs]
    return helper.make_graph(nodes, "main", *ports, initializer=initializers)


def model(graph: object, opset: int = OPSET, functions: Sequence[object] = ()) -> bytes:
    sets = [helper.make_opsetid("", opset)]
    sets += [helper.make_opsetid(one.domain, 1) for one in functions]  # type: ignore[attr-defined]
    result = helper.make_model(graph, opset_imports=sets, functions=functions, ir_version=9)
    content: bytes = result.SerializeToString()
    return content


def small_model(
    op: str,
    shapes: Mapping[str, Sizes],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = OPSET,
    **attributes: object,
) -> bytes:
    """Return one operator that reads these inputs and constants, in this order, and writes 'y'."""
    names = [*shapes, *(constants or {})]
    inputs = [(name, "float", sizes) for name, sizes in shapes.items()]
    nodes = [node(op, names, ["y"], **attributes)]
    return model(graph(nodes, inputs, [("y", "float", None)], constants), opset)
