"""Maps operators of Paddle 3 to the older form: types, parameters and attributes.

In the newer form inputs are positional, and some former attributes are inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PirOperator:
    """The older type ('' if unchanged), its parameters in order, and renamed attributes."""

    type: str = ""
    inputs: tuple[str, ...] = ("X",)
    output: str = "Out"
    attributes: Mapping[str, str] = field(default_factory=dict)


_POINTWISE = {
    **dict.fromkeys(("relu", "relu6", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt"), ""),
    **dict.fromkeys(("abs", "floor", "ceil", "round", "square", "sin", "cos", "silu", "swish"), ""),
    **dict.fromkeys(("mish", "softplus", "gelu", "elu", "erf", "reciprocal", "softsign"), ""),
    **dict.fromkeys(("logical_not", "assign", "share_data", "log_softmax", "softmax", "flip"), ""),
    "hardswish": "hard_swish",
    "hardsigmoid": "hard_sigmoid",
    "share_data_": "assign",
    "relu_": "relu",
    "flatten": "flatten_contiguous_range",
    "pixel_shuffle": "",
}
_BINARY = {
    "add": "elementwise_add",
    "add_": "elementwise_add",
    "subtract": "elementwise_sub",
    "multiply": "elementwise_mul",
    "multiply_": "elementwise_mul",
    "divide": "elementwise_div",
    "maximum": "elementwise_max",
    "minimum": "elementwise_min",
    "elementwise_pow": "elementwise_pow",
    "remainder": "elementwise_mod",
    "floor_divide": "elementwise_floordiv",
    **dict.fromkeys(("equal", "not_equal", "less_than", "less_equal", "greater_than"), ""),
    **dict.fromkeys(("greater_equal", "logical_and", "logical_or"), ""),
}
_REDUCE = {
    "mean": "reduce_mean",
    "sum": "reduce_sum",
    "max": "reduce_max",
    "min": "reduce_min",
    "prod": "reduce_prod",
    "any": "reduce_any",
    "all": "reduce_all",
}
_KEEP = {"keepdim": "keep_dim"}
_NORM = ("X", "Scale", "Bias")
_RESIZE = ("X", "OutSize", "SizeTensor", "Scale")
_WINDOW = ("Input", "Filter")
OPERATORS: Mapping[str, PirOperator] = {
    **{name: PirOperator(older) for name, older in _POINTWISE.items()},
    **{name: PirOperator(older, ("X", "Y")) for name, older in _BINARY.items()},
    **{
        name: PirOperator(older, ("X", "AxisTensor"), attributes={**_KEEP, "axis": "dim"})
        for name, older in _REDUCE.items()
    },
    "argmax": PirOperator("arg_max", ("X", "AxisTensor"), attributes={"keepdims": "keepdims"}),
    "bmm": PirOperator("", ("X", "Y")),
    "hardtanh": PirOperator("hard_tanh"),
    "index_select": PirOperator("", ("X", "Index"), attributes={"axis": "dim"}),
    "sync_batch_norm_": PirOperator(
        "sync_batch_norm", ("X", "Mean", "Variance", "Scale", "Bias"), "Y"
    ),
    "argmin": PirOperator("arg_min", ("X", "AxisTensor")),
    "batch_norm": PirOperator("", ("X", "Mean", "Variance", "Scale", "Bias"), "Y"),
    "batch_norm_": PirOperator("batch_norm", ("X", "Mean", "Variance", "Scale", "Bias"), "Y"),
    "bilinear_interp": PirOperator("bilinear_interp_v2", _RESIZE),
    "nearest_interp": PirOperator("nearest_interp_v2", _RESIZE),
    "cast": PirOperator(attributes={"dtype": "out_dtype"}),
    "clip": PirOperator("", ("X", "Min", "Max")),
    "concat": PirOperator("", ("X", "AxisTensor")),
    "conv2d": PirOperator("", _WINDOW, "Output"),
    "depthwise_conv2d": PirOperator("", _WINDOW, "Output"),
    "conv2d_transpose": PirOperator("", (*_WINDOW, "OutputSizeTensor"), "Output"),
    "depthwise_conv2d_transpose": PirOperator("", (*_WINDOW, "OutputSizeTensor"), "Output"),
    "dropout": PirOperator(
        "", ("X", "SeedTensor", "Probability"), attributes={"mode": "dropout_implementation"}
    ),
    "embedding": PirOperator("lookup_table_v2", ("Ids", "W")),
    "expand": PirOperator("expand_v2", ("X", "Shape")),
    "full": PirOperator("fill_constant", ()),
    "full_int_array": PirOperator("assign_value", (), attributes={"value": "values"}),
    "full_like": PirOperator("fill_any_like", ("X", "ValueTensor")),
    "gather": PirOperator("", ("X", "Index", "Axis")),
    "gather_nd": PirOperator("", ("X", "Index")),
    "group_norm": PirOperator("", _NORM, "Y"),
    "instance_norm": PirOperator("", _NORM, "Y"),
    "layer_norm": PirOperator("", _NORM, "Y"),
    "leaky_relu": PirOperator(attributes={"negative_slope": "alpha"}),
    "matmul": PirOperator(
        "matmul_v2", ("X", "Y"), attributes={"transpose_x": "trans_x", "transpose_y": "trans_y"}
    ),
    "multiclass_nms3": PirOperator("", ("BBoxes", "Scores", "RoisNum")),
    "pad": PirOperator("pad"),
    "pad3d": PirOperator("", ("X", "Paddings"), attributes={"pad_value": "value"}),
    "pool2d": PirOperator("", ("X", "KSize")),
    "pow": PirOperator(attributes={"y": "factor"}),
    "prelu": PirOperator("", ("X", "Alpha")),
    "reshape": PirOperator("reshape2", ("X", "ShapeTensor")),
    "reshape_": PirOperator("reshape2", ("X", "ShapeTensor")),
    "scale": PirOperator("", ("X", "ScaleTensor")),
    "scale_": PirOperator("scale", ("X", "ScaleTensor")),
    "shape": PirOperator("", ("Input",)),
    "shape64": PirOperator("", ("Input",)),
    "slice": PirOperator("", ("Input", "StartsTensor", "EndsTensor")),
    "split": PirOperator("", ("X", "SectionsTensor", "AxisTensor")),
    "split_with_num": PirOperator("split", ("X", "AxisTensor")),
    "squeeze": PirOperator("squeeze2", ("X", "AxesTensor")),
    "squeeze_": PirOperator("squeeze2", ("X", "AxesTensor")),
    "stack": PirOperator("", output="Y"),
    "add_n": PirOperator("sum"),
    "strided_slice": PirOperator("", ("Input", "StartsTensor", "EndsTensor", "StridesTensor")),
    "tile": PirOperator("", ("X", "RepeatTimes")),
    "topk": PirOperator("top_k_v2", ("X", "K")),
    "transpose": PirOperator("transpose2", attributes={"perm": "axis"}),
    "unsqueeze": PirOperator("unsqueeze2", ("X", "AxesTensor")),
    "unsqueeze_": PirOperator("unsqueeze2", ("X", "AxesTensor")),
    "where": PirOperator("", ("Condition", "X", "Y")),
    "yolo_box": PirOperator("", ("X", "ImgSize"), "Boxes"),
}
