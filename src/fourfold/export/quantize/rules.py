"""Quantization rules of operators, as TFLite's specification defines them."""

from __future__ import annotations

from fourfold.graph import Graph, Node
from fourfold.ops.pad import Pad
from fourfold.types import DType, Quantization

# Weighted sums, with the axis of their weights that holds the output channels.
CHANNEL_AXIS = {"conv2d": 0, "depthwise_conv2d": 3, "fully_connected": 0, "transpose_conv2d": 0}
# Operators that return their input's numbers, or means of them: inputs and outputs share a grid.
MOVES = frozenset(
    {
        *("average_pool2d", "batch_to_space", "concat", "depth_to_space", "gather", "identity"),
        *("max_pool2d", "maximum", "minimum", "mirror_pad", "pad", "reduce_max", "reduce_min"),
        *("reshape", "resize_bilinear", "resize_nearest", "slice", "space_to_batch"),
        *("space_to_depth", "tile", "transpose"),
    }
)
# The moves that compute new numbers, which are rounded.
AVERAGES = frozenset({"average_pool2d", "resize_bilinear"})
# The moves whose constant limits are clamped to the grid.
LIMITS = frozenset({"maximum", "minimum"})
CLAMPS = frozenset({"relu", "relu6", "relu_0_to_1", "relu_n1_to_1"})
# Clamps that can be fused into the operator before them, and the operators that can fuse them.
FUSED_CLAMPS = CLAMPS - {"relu_0_to_1"}
CLAMPING = frozenset({"add", "conv2d", "depthwise_conv2d", "fully_connected", "mul", "sub"})
# Operators whose inputs and results each have their own grid.
OWN_GRID = frozenset(
    {
        *("absolute", "add", "batch_matmul", "elu", "gelu", "hard_swish", "leaky_relu", "mean"),
        *("mul", "prelu", "squared_difference", "sub", "sum"),
    }
)
_INT8_GRIDS = {
    "softmax": Quantization((1 / 256,), (-128,)),
    "logistic": Quantization((1 / 256,), (-128,)),
    "tanh": Quantization((1 / 128,), (0,)),
    "l2_normalize": Quantization((1 / 128,), (0,)),
    "log_softmax": Quantization((16 / 256,), (127,)),
}
_INT16_GRIDS = {op: Quantization((1 / 32768,), (0,)) for op in ("softmax", "logistic", "tanh")}
# Results in a known range have a fixed grid.
FIXED_GRID = {DType.I8: _INT8_GRIDS, DType.I16: _INT16_GRIDS}
# Operators that no runtime supports with int16 values.
_ONLY_INT8 = frozenset(
    {
        *("absolute", "batch_matmul", "batch_to_space", "depth_to_space", "elu", "gelu"),
        *("hard_swish", "mirror_pad", "prelu", "space_to_batch", "space_to_depth"),
        *("squared_difference", "tile"),
    }
)


def is_layer(graph: Graph, node: Node, values: DType) -> bool:
    """Return True if a node computes new numbers and supports integers of this type."""
    fixed = FIXED_GRID[values]
    supported = (
        node.op in CHANNEL_AXIS or node.op in OWN_GRID or node.op in CLAMPS or node.op in fixed
    )
    if not supported or not _fits(graph, node, values):
        return False
    return node.op not in CHANNEL_AXIS or has_constant_weights(graph, node)


def is_move(graph: Graph, node: Node, values: DType) -> bool:
    """Return True if a node only moves numbers and supports integers of this type."""
    zeros = not isinstance(node.attributes, Pad) or node.attributes.value == 0
    first = node.inputs[0] if node.inputs else None
    alive = first is not None and (node.op != "gather" or first not in graph.constants)
    return node.op in MOVES and zeros and alive and _fits(graph, node, values)


def has_constant_weights(graph: Graph, node: Node) -> bool:
    """Return True if the weights of a weighted sum, and its bias if any, are constants."""
    constants = [name for name in node.inputs[1:] if name is not None]
    constant = all(graph.is_constant(name) for name in constants) and bool(constants)
    return constant and not graph.is_constant(node.inputs[0])


def float_inputs(graph: Graph, node: Node) -> list[int]:
    """Return the indices of inputs that hold real numbers, not indices or conditions."""
    pairs = enumerate(node.inputs)
    return [at for at, name in pairs if name is not None and graph.types[name].dtype is DType.F32]


def _fits(graph: Graph, node: Node, values: DType) -> bool:
    if values is DType.I16 and node.op in _ONLY_INT8:
        return False
    single = len(node.outputs) == 1 and not node.tail
    return single and graph.types[node.outputs[0]].dtype is DType.F32
