"""Chooses integer or float kernels for a node, and the form in which it reads each value.

LiteRT has integer kernels for some operators. They are used if all inputs and outputs of the node
are quantized with types and grids that the kernel supports; otherwise quantized values are
dequantized before the node, and its results are quantized after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.tflite.write_graph.node_writer import Grids, WriteRule
from fourfold.formats.tflite.write_graph.values import Values
from fourfold.formats.writable import StoredAs
from fourfold.graph import Node
from fourfold.types import DType, Quantization

# Output quantization that kernels require, by op and element type.
_FIXED: dict[str, dict[DType, tuple[float, int]]] = {
    "logistic": {
        DType.I8: (1 / 256, -128),
        DType.U8: (1 / 256, 0),
        DType.I16: (1 / 32768, 0),
    },
    "softmax": {
        DType.I8: (1 / 256, -128),
        DType.U8: (1 / 256, 0),
        DType.I16: (1 / 32768, 0),
    },
    "tanh": {DType.I8: (1 / 128, 0), DType.U8: (1 / 128, 128), DType.I16: (1 / 32768, 0)},
    "log_softmax": {DType.I8: (16 / 256, 127), DType.U8: (16 / 256, 255)},
    "l2_normalize": {DType.I8: (1 / 128, 0), DType.U8: (1 / 128, 128)},
}
# Supported weight types by type of the values.
_WEIGHTS = {
    DType.I8: (DType.I8, DType.I4),
    DType.U8: (DType.U8,),
    DType.I16: (DType.I8, DType.I4),
}
# Kernels that rescale each input to the output's quantization; others only copy.
_RESCALING = {("concat", DType.U8)}
# Hybrid kernels that always read a scale per channel.
_BY_CHANNEL = {"depthwise_conv2d": 3}


@dataclass(frozen=True)
class Forms:
    """For each input and output its quantization, or None for the type in the graph.

    `products` is the quantization of the input with index `bias`.
    """

    inputs: tuple[StoredAs | None, ...]
    outputs: tuple[StoredAs | None, ...]
    products: StoredAs | None = None
    bias: int | None = None


def forms_of(node: Node, rule: WriteRule, values: Values) -> Forms:
    """Return the forms for the integer kernel if it can be used, else for the float kernel."""
    return _integer_forms(node, rule, values) or real_forms(node, rule, values)


def real_forms(node: Node, rule: WriteRule, values: Values) -> Forms:
    """Return the forms for the float kernel."""
    inputs: list[StoredAs | None] = [None] * len(node.inputs)
    if rule.weights is not None:
        inputs[rule.weights] = _hybrid_weights(node, rule, rule.weights, values)
    return Forms(tuple(inputs), (None,) * len(node.outputs))


def _hybrid_weights(node: Node, rule: WriteRule, index: int, values: Values) -> StoredAs | None:
    """Return the form of integer weights for float values, which LiteRT quantizes at run time."""
    name = node.inputs[index]
    form = None if name is None else values.form(name)
    is_constant = name is not None and name in values.graph.constants
    if name is None or not is_constant or form is None or form.quantization is None:
        return None
    symmetric = not any(form.quantization.zero_point)
    if form.dtype not in rule.hybrid or not symmetric:
        return None
    axis = _BY_CHANNEL.get(node.op)
    if axis is None or form.quantization.axis is not None:
        return form
    count = values.graph.constants[name].shape[axis]
    spread = Quantization(form.quantization.scale * count, (0,) * count, axis)
    return StoredAs(form.dtype, spread)


def _integer_forms(node: Node, rule: WriteRule, values: Values) -> Forms | None:
    graph = values.graph
    if rule.grids is Grids.NONE:
        return None
    real = [
        index
        for index, name in enumerate(node.inputs)
        if name is not None and graph.types[name].dtype is DType.F32
    ]
    live = [index for index in real if node.inputs[index] not in graph.constants] or real
    forms = {index: values.form(node.inputs[index] or "") for index in real}
    kinds = {one.dtype for index in live if (one := forms[index]) is not None}
    if not live or any(forms[index] is None for index in live) or len(kinds) != 1:
        return None
    (dtype,) = kinds
    if dtype not in rule.integers:
        return None
    results = [
        values.form(name) if graph.types[name].dtype is DType.F32 else None for name in node.outputs
    ]
    inputs = tuple(forms.get(index) for index in range(len(node.inputs)))
    grids = Grids.ANY if (node.op, dtype) in _RESCALING else rule.grids
    choose = {Grids.SAME: _same, Grids.FIXED: _fixed, Grids.ANY: _any}[grids]
    return choose(_Choice(node, rule, values, dtype, inputs, tuple(results)))


@dataclass(frozen=True)
class _Choice:
    """A node whose run-time values are all quantized with one type."""

    node: Node
    rule: WriteRule
    values: Values
    dtype: DType
    inputs: tuple[StoredAs | None, ...]
    results: tuple[StoredAs | None, ...]

    def is_real(self, output: int) -> bool:
        return self.values.graph.types[self.node.outputs[output]].dtype is DType.F32


def _same(choice: _Choice) -> Forms | None:
    """Use one quantization for all: that of the only input, or of the output if there are several.

    A single input may have values outside the output's range that still count, as in a mean. A
    float result has the steps of each input, so these must be equal then.
    """
    outputs_of_type = [
        one for one in choice.results if one is not None and one.dtype is choice.dtype
    ]
    quantized_inputs = [one for one in choice.inputs if one is not None]
    grid = (
        quantized_inputs if len(quantized_inputs) == 1 else outputs_of_type or quantized_inputs
    )[0]
    if not outputs_of_type and any(one != grid for one in quantized_inputs):
        return None
    if grid.quantization is None or grid.quantization.axis is not None:
        return None
    graph, node = choice.values.graph, choice.node
    inputs = tuple(
        grid if name is not None and graph.types[name].dtype is DType.F32 else None
        for name in node.inputs
    )
    outputs = tuple(grid if choice.is_real(i) else None for i in range(len(node.outputs)))
    return Forms(inputs, outputs)


def _fixed(choice: _Choice) -> Forms | None:
    grids = _FIXED[choice.node.op]
    if choice.dtype not in grids:
        return None
    scale, zero_point = grids[choice.dtype]
    fixed = StoredAs(choice.dtype, Quantization((scale,), (zero_point,)))
    requested = choice.results[0]
    return (
        Forms(choice.inputs, (fixed,))
        if requested is None or _is_adequate(fixed, requested)
        else None
    )


def _is_adequate(fixed: StoredAs, requested: StoredAs) -> bool:
    """Return True if a required grid has about the resolution and range of the requested one."""
    (step, low, high), (fine, minimum, maximum) = _span(fixed), _span(requested)
    return step <= 2 * fine and low - 2 * step <= minimum and maximum <= high + 2 * step


def _span(form: StoredAs) -> tuple[float, float, float]:
    """Return the step, and the first and last number of a grid."""
    assert form.quantization is not None
    (scale,), (zero,) = form.quantization.scale, form.quantization.zero_point
    limits = np.iinfo(form.dtype.numpy)
    return scale, (int(limits.min) - zero) * scale, (int(limits.max) - zero) * scale


def _any(choice: _Choice) -> Forms | None:
    """Use a separate quantization for each value; weights need a type that fits the values."""
    node, rule, graph = choice.node, choice.rule, choice.values.graph
    for index, form in enumerate(choice.results):
        if choice.is_real(index) and (form is None or form.dtype is not choice.dtype):
            return None
    for index, name in enumerate(node.inputs):
        real = name is not None and graph.types[name].dtype is DType.F32
        if not real or index == rule.bias:
            continue
        form = choice.inputs[index]
        weights = index == rule.weights and rule.bias is not None
        allowed = _WEIGHTS[choice.dtype] if weights else (choice.dtype,)
        if form is None or form.quantization is None or form.dtype not in allowed:
            return None
        if not weights and form.quantization.axis is not None:
            return None
    if rule.bias is None:
        return Forms(choice.inputs, choice.results)
    return _weighted(choice)


def _weighted(choice: _Choice) -> Forms | None:
    """Return the forms of a sum of products, whose bias has the scale of the products."""
    node, rule = choice.node, choice.rule
    assert rule.weights is not None
    bias = rule.bias
    name = node.inputs[bias] if bias is not None and bias < len(node.inputs) else None
    constants = choice.values.graph.constants
    if node.inputs[rule.weights] not in constants or (name is not None and name not in constants):
        return None
    values, weights = (choice.inputs[index] for index in (0, rule.weights))
    assert values is not None
    assert weights is not None
    assert values.quantization is not None
    assert weights.quantization is not None
    scales = tuple(values.quantization.scale[0] * one for one in weights.quantization.scale)
    axis = None if weights.quantization.axis is None else 0
    dtype = DType.I64 if choice.dtype is DType.I16 else DType.I32
    bias_form = None if name is None else choice.values.form(name)
    if bias_form is not None and bias_form.dtype in (DType.I32, DType.I64) and dtype is DType.I64:
        dtype = bias_form.dtype
    products = StoredAs(dtype, Quantization(scales, (0,) * len(scales), axis))
    inputs = tuple(None if index == bias else one for index, one in enumerate(choice.inputs))
    return Forms(inputs, choice.results, products, bias)
