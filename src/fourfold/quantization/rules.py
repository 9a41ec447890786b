"""What each op asks of the integers that it reads and writes, as TFLite's specification has it."""

from __future__ import annotations

from fourfold.graph import Graph, Node
from fourfold.ops.pad import Pad
from fourfold.types import DType, Quantization

# Weighted sums, each with the axis of its weights along which the output channels lie.
CHANNEL_AXIS = {"conv2d": 0, "depthwise_conv2d": 3, "fully_connected": 0, "transpose_conv2d": 0}
# They give back numbers that they were given, or means of them: all on one grid.
MOVES = frozenset(
    {
        *("average_pool2d", "batch_to_space", "concat", "depth_to_space", "gather", "identity"),
        *("max_pool2d", "maximum", "minimum", "mirror_pad", "pad", "reduce_max", "reduce_min"),
        *("reshape", "resize_bilinear", "resize_nearest", "slice", "space_to_batch"),
        *("space_to_depth", "tile", "transpose"),
    }
)
# Of those, what computes new numbers on the way, which are rounded.
AVERAGES = frozenset({"average_pool2d", "resize_bilinear"})
# Of those, what lets a limit that is beyond the grid be the last number of the grid.
LIMITS = frozenset({"maximum", "minimum"})
CLAMPS = frozenset({"relu", "relu6", "relu_0_to_1", "relu_n1_to_1"})
# Those that can be a setting of the operator before them, and the operators that have it.
FUSED_CLAMPS = CLAMPS - {"relu_0_to_1"}
CLAMPING = frozenset({"add", "conv2d", "depthwise_conv2d", "fully_connected", "mul", "sub"})
# Every input and every result has a grid of its own.
OWN_GRID = frozenset(
    {
        *("absolute", "add", "batch_matmul", "elu", "gelu", "hard_swish", "leaky_relu", "mean"),
        *("mul", "prelu", "squared_difference", "sub", "sum"),
    }
)
_BYTES = {
    "softmax": Quantization((1 / 256,), (-128,)),
    "logistic": Quantization((1 / 256,), (-128,)),
    "tanh": Quantization((1 / 128,), (0,)),
    "l2_normalize": Quantization((1 / 128,), (0,)),
    "log_softmax": Quantization((16 / 256,), (127,)),
}
_WIDE = {op: Quantization((1 / 32768,), (0,)) for op in ("softmax", "logistic", "tanh")}
# Results that lie in a known range have the grid of that range.
FIXED_GRID = {DType.I8: _BYTES, DType.I16: _WIDE}
# Ops that no runtime has for values of 16 bits.
_ONLY_BYTES = frozenset(
    {
        *("absolute", "batch_matmul", "batch_to_space", "depth_to_space", "elu", "gelu"),
        *("hard_swish", "mirror_pad", "prelu", "space_to_batch", "space_to_depth"),
        *("squared_difference", "tile"),
    }
)


def is_layer(graph: Graph, node: Node, values: DType) -> bool:
    """Whether a node computes new numbers and can do so on integers of this type."""
    fixed = FIXED_GRID[values]
    known = node.op in CHANNEL_AXIS or node.op in OWN_GRID or node.op in CLAMPS or node.op in fixed
    if not known or not _fits(graph, node, values):
        return False
    return node.op not in CHANNEL_AXIS or has_constant_weights(graph, node)


def is_move(graph: Graph, node: Node, values: DType) -> bool:
    """Whether a node moves numbers, and can do so whether they are real or integers."""
    zeros = not isinstance(node.attributes, Pad) or node.attributes.value == 0
    first = node.inputs[0] if node.inputs else None
    alive = first is not None and (node.op != "gather" or first not in graph.constants)
    return node.op in MOVES and zeros and alive and _fits(graph, node, values)


def has_constant_weights(graph: Graph, node: Node) -> bool:
    """Whether a weighted sum has weights, and a bias if any, that are known now."""
    constants = [name for name in node.inputs[1:] if name is not None]
    finite = all(graph.is_constant(name) for name in constants) and bool(constants)
    return finite and not graph.is_constant(node.inputs[0])


def real_places(graph: Graph, node: Node) -> list[int]:
    """The places of inputs that hold real numbers: not those of indices and conditions."""
    pairs = enumerate(node.inputs)
    return [at for at, name in pairs if name is not None and graph.types[name].dtype is DType.F32]


def _fits(graph: Graph, node: Node, values: DType) -> bool:
    if values is DType.I16 and node.op in _ONLY_BYTES:
        return False
    single = len(node.outputs) == 1 and not node.tail
    return single and graph.types[node.outputs[0]].dtype is DType.F32
