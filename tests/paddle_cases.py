"""Small Paddle programs, at least one for each operator type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from paddle_writer import Double, Element, IntArray, Longs, Operator, PirWriter, Place, Program
from stored_answers import numbers

IMAGE = (2, 6, 11, 13)


@dataclass(frozen=True)
class PaddleCase:
    """One operator from 'x' to 'y', with parameters or a second input 'z'."""

    type: str
    attributes: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = IMAGE
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    second: tuple[int, ...] | None = None
    reads: str = "X"  # the operator's parameter for 'x'
    gives: str = "Out"
    outputs: int = 1
    others: tuple[str, ...] = ()  # parameters for unused results

    @property
    def program(self) -> Program:
        inputs = {self.reads: ["x"], **{name: [f"p_{name}"] for name in self.parameters}}
        fed = {"x": self.shape}
        if self.second is not None:
            inputs |= {"Y": ["z"]} if self.type != "concat" else {"X": ["x", "z"]}
            fed["z"] = self.second
        names = [f"y{index}" for index in range(self.outputs)]
        results = {self.gives: names}
        for name in self.others:  # batch_norm writes some of the variables that it reads
            source = name.removesuffix("Out")
            results[name] = [f"p_{source}" if source in self.parameters else f"o_{name}"]
        weights = {f"p_{name}": array for name, array in self.parameters.items()}
        operator = Operator(self.type, inputs, results, self.attributes)
        return Program(fed, weights, [operator], names)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {
            name: numbers(tuple(sizes), i)
            for i, (name, sizes) in enumerate(self.program.inputs.items())
        }


def _case(type_: str, shape: tuple[int, ...] = IMAGE, **attributes: Any) -> PaddleCase:
    return PaddleCase(type_, attributes, shape)


def _conv(weights: tuple[int, ...], type_: str = "conv2d", **attributes: Any) -> PaddleCase:
    standard = {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1], "groups": 1}
    form = {"padding_algorithm": "EXPLICIT", "data_format": "NCHW"}
    held = {"Filter": numbers(weights, 5)}
    settings = {**standard, **form, **attributes}
    return PaddleCase(type_, settings, parameters=held, reads="Input", gives="Output")


def _pool(kind: str, **attributes: Any) -> PaddleCase:
    standard = {"ksize": [3, 3], "strides": [2, 2], "paddings": [0, 0], "pooling_type": kind}
    flags = {"global_pooling": False, "adaptive": False, "ceil_mode": False, "exclusive": True}
    form = {"padding_algorithm": "EXPLICIT", "data_format": "NCHW"}
    return PaddleCase("pool2d", {**standard, **flags, **form, **attributes})


def _two(type_: str, second: tuple[int, ...] = IMAGE, **attributes: Any) -> PaddleCase:
    return PaddleCase(type_, {"axis": -1, **attributes}, second=second)


def _resize(kind: str, **attributes: Any) -> PaddleCase:
    sizes = {"out_d": -1, "out_h": -1, "out_w": -1, "interp_method": kind, "data_layout": "NCHW"}
    return PaddleCase(
        f"{kind}_interp_v2", {**sizes, "align_mode": 1, "align_corners": False, **attributes}
    )


def _norm(type_: str, shape: tuple[int, ...], size: int, **attributes: Any) -> PaddleCase:
    held = {"Scale": numbers((size,), 3), "Bias": numbers((size,), 4)}
    names = {"instance_norm": ("SavedMean", "SavedVariance")}
    others = names.get(type_, ("Mean", "Variance"))
    return PaddleCase(type_, {"epsilon": 1e-3, **attributes}, shape, held, gives="Y", others=others)


BATCH_NORM = PaddleCase(
    "batch_norm",
    {"epsilon": 1e-3, "is_test": True, "data_layout": "NCHW", "momentum": 0.9},
    parameters={
        "Scale": numbers((6,), 1),
        "Bias": numbers((6,), 2),
        "Mean": numbers((6,), 3),
        "Variance": np.abs(numbers((6,), 4)) + np.float32(0.5),
    },
    gives="Y",
    others=("MeanOut", "VarianceOut", "SavedMean", "SavedVariance"),
)
ACTIVATIONS = {
    **{name: _case(name) for name in ("relu", "sigmoid", "tanh", "exp", "abs", "floor", "ceil")},
    **{name: _case(name) for name in ("square", "sin", "cos", "softsign", "mish", "silu", "round")},
    "relu6": _case("relu6", threshold=6.0),
    "hard_swish": _case("hard_swish", threshold=6.0, scale=6.0, offset=3.0),
    "hard_sigmoid": _case("hard_sigmoid", slope=0.2, offset=0.5),
    "swish": _case("swish", beta=1.0),
    "softplus": _case("softplus", beta=1.0, threshold=20.0),
    "leaky_relu": _case("leaky_relu", alpha=0.1),
    "elu": _case("elu", alpha=0.5),
    "gelu": _case("gelu", approximate=False),
    "pow": _case("pow", factor=3.0),
    "scale": _case("scale", scale=2.0, bias=0.5, bias_after_scale=True),
    "scale_before": _case("scale", scale=2.0, bias=0.5, bias_after_scale=False),
    "logsigmoid": _case("logsigmoid"),
    "brelu": _case("brelu", t_min=-0.25, t_max=0.5),
    "clip": _case("clip", min=-0.25, max=0.5),
    "cast": _case("cast", in_dtype=5, out_dtype=2),
    "dropout": PaddleCase(
        "dropout",
        {"dropout_prob": 0.25, "is_test": True, "dropout_implementation": "downgrade_in_infer"},
        others=("Mask",),
    ),
    "prelu": PaddleCase(
        "prelu", {"mode": "channel", "data_format": "NCHW"}, parameters={"Alpha": numbers((6,), 2)}
    ),
}
CASES: dict[str, PaddleCase] = {
    **ACTIVATIONS,
    "conv": _conv((5, 6, 3, 3), strides=[2, 2], paddings=[1, 1]),
    "conv_sides": _conv((5, 6, 3, 3), paddings=[1, 0, 2, 1]),
    "conv_same": _conv((5, 6, 3, 3), strides=[2, 2], padding_algorithm="SAME"),
    "conv_valid": _conv((5, 6, 3, 3), paddings=[1, 1], padding_algorithm="VALID"),
    "conv_dilated": _conv((5, 6, 3, 3), dilations=[2, 2], paddings=[2, 2]),
    "conv_groups": _conv((9, 2, 3, 3), groups=3),
    "depthwise": _conv((6, 1, 3, 3), "depthwise_conv2d", groups=6, paddings=[1, 1]),
    "transposed": _conv((6, 4, 2, 2), "conv2d_transpose", strides=[2, 2]),
    "transposed_more": _conv(
        (6, 4, 3, 3), "conv2d_transpose", strides=[2, 2], paddings=[1, 1], output_padding=[1, 1]
    ),
    "transposed_groups": _conv((6, 2, 3, 3), "conv2d_transpose", groups=3),
    "pool_max": _pool("max"),
    "pool_max_ceil": _pool("max", ceil_mode=True, paddings=[1, 1]),
    "pool_average": _pool("avg", paddings=[1, 1]),
    "pool_average_all": _pool("avg", paddings=[1, 1], exclusive=False),
    "pool_average_ceil": _pool("avg", ksize=[2, 2], ceil_mode=True),
    "pool_average_ceil_all": _pool("avg", ceil_mode=True, paddings=[1, 1], exclusive=False),
    "pool_same": _pool("max", padding_algorithm="SAME"),
    "pool_global": _pool("avg", global_pooling=True),
    "pool_global_max": _pool("max", global_pooling=True),
    "pool_adaptive_one": _pool("avg", adaptive=True, ksize=[1, 1]),
    "pool_adaptive": _pool("avg", adaptive=True, ksize=[4, 5]),
    "pool_adaptive_max": PaddleCase(
        "max_pool2d_with_index",
        {"ksize": [4, 5], "strides": [1, 1], "paddings": [0, 0], "adaptive": True},
        others=("Mask",),
    ),
    "pool_index": PaddleCase(
        "max_pool2d_with_index",
        {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1], "adaptive": False},
        others=("Mask",),
    ),
    "nearest": _resize("nearest", scale=[2.0, 2.0]),
    "nearest_size": _resize("nearest", out_h=7, out_w=20),
    "nearest_corners": _resize("nearest", out_h=21, out_w=25, align_corners=True),
    "bilinear": _resize("bilinear", scale=[2.0, 2.0]),
    "bilinear_centres": _resize("bilinear", out_h=7, out_w=20, align_mode=0),
    "bilinear_corners": _resize("bilinear", out_h=21, out_w=25, align_corners=True),
    "pixel_shuffle": _case("pixel_shuffle", (1, 12, 3, 5), upscale_factor=2, data_format="NCHW"),
    "batch_norm": BATCH_NORM,
    "layer_norm": _norm("layer_norm", (3, 5, 7), 35, begin_norm_axis=1),
    "instance_norm": _norm("instance_norm", IMAGE, 6),
    "group_norm": _norm("group_norm", IMAGE, 6, groups=3, data_layout="NCHW"),
    "add": _two("elementwise_add"),
    "add_axis": _two("elementwise_add", (6,), axis=1),
    "sub": _two("elementwise_sub", (13,)),
    "mul": _two("elementwise_mul", (2, 6, 1, 1)),
    "div": _two("elementwise_div"),
    "max": _two("elementwise_max", (11, 13), axis=2),
    "min": _two("elementwise_min"),
    "matmul": PaddleCase(
        "matmul_v2", {"trans_x": False, "trans_y": True}, (3, 5, 7), second=(3, 4, 7)
    ),
    "matmul_weights": PaddleCase(
        "matmul_v2", {"trans_x": False, "trans_y": False}, (3, 5, 7), {"Y": numbers((7, 4), 2)}
    ),
    "bmm": PaddleCase("bmm", {}, (3, 5, 7), second=(3, 7, 4)),
    "mul_flat": PaddleCase(
        "mul", {"x_num_col_dims": 1, "y_num_col_dims": 1}, (3, 5, 7), {"Y": numbers((35, 4), 2)}
    ),
    "softmax": _case("softmax", (3, 5, 7), axis=1),
    "log_softmax": _case("log_softmax", (3, 5, 7), axis=-1),
    "mean": _case("mean", (3, 5)),
    "reduce_mean": _case("reduce_mean", dim=[2, 3], keep_dim=True, reduce_all=False),
    "reduce_sum": _case("reduce_sum", dim=[1], keep_dim=False, reduce_all=False),
    "reduce_max": _case("reduce_max", dim=[-1], keep_dim=False, reduce_all=False),
    "reduce_min": _case("reduce_min", dim=[0], keep_dim=False, reduce_all=True),
    "arg_max": _case("arg_max", axis=1, keepdims=False, flatten=False, dtype=3),
    "cumsum": _case("cumsum", (3, 5), axis=1, flatten=False, exclusive=False, reverse=False),
    "reshape": PaddleCase("reshape2", {"shape": [0, 3, -1]}, others=("XShape",)),
    "transpose": PaddleCase("transpose2", {"axis": [0, 2, 3, 1]}, others=("XShape",)),
    "flatten": PaddleCase(
        "flatten_contiguous_range", {"start_axis": 1, "stop_axis": 2}, others=("XShape",)
    ),
    "squeeze": PaddleCase("squeeze2", {"axes": [1]}, (2, 1, 5, 1), others=("XShape",)),
    "unsqueeze": PaddleCase("unsqueeze2", {"axes": [0, 2]}, (3, 5), others=("XShape",)),
    "concat": PaddleCase("concat", {"axis": 1}, second=(2, 3, 11, 13)),
    "stack": PaddleCase("stack", {"axis": 1}, (3, 5), gives="Y"),
    "split": PaddleCase("split", {"axis": 1, "sections": [1, 2, 3], "num": 0}, outputs=3),
    "split_even": PaddleCase("split", {"axis": 1, "num": 3}, outputs=3),
    "slice": PaddleCase(
        "slice",
        {"axes": [1, 2], "starts": [1, -5], "ends": [2, 100], "decrease_axis": [1]},
        reads="Input",
    ),
    "strided_slice": PaddleCase(
        "strided_slice",
        {
            "axes": [2, 3],
            "starts": [1, 10],
            "ends": [9, 2],
            "strides": [3, -2],
            "infer_flags": [1, 1],
            "decrease_axis": [],
        },
        reads="Input",
    ),
    "expand": PaddleCase("expand_v2", {"shape": [2, 3, 5]}, (1, 5)),
    "tile": _case("tile", (3, 5), repeat_times=[2, 1, 3]),
    "gather": PaddleCase("gather", {"axis": 0}, (7, 5), {"Index": np.array([3, 0, 6], np.int64)}),
    "index_select": PaddleCase(
        "index_select", {"dim": 1}, (3, 5), {"Index": np.array([4, 0, 4], np.int64)}
    ),
    "flip": _case("flip", (3, 5, 7), axis=[0, 2]),
    "fill_batch": PaddleCase(
        "fill_constant_batch_size_like",
        {"shape": [-1, 3], "dtype": 5, "value": 1.5, "input_dim_idx": 0, "output_dim_idx": 0},
        reads="Input",
    ),
    "shape": PaddleCase("shape", reads="Input"),
    "pad3d": PaddleCase(
        "pad3d",
        {"paddings": [1, 2, 0, 1, 2, 0], "mode": "constant", "value": 0.5, "data_format": "NCDHW"},
        (1, 2, 3, 5, 4),
    ),
    "fill_like": _case("fill_any_like", value=1.5, dtype=5),
}


def pir_model() -> PirWriter:
    """Return a network of several operator types, as Paddle 3 writes it."""
    writer = PirWriter()
    weights = writer.parameter("conv.w", numbers((4, 3, 3, 3), 1))
    bias = writer.parameter("conv.b", numbers((4,), 2))
    x = writer.data("x", (-1, 3, 9, 11))
    image = (-1, 4, 9, 11)
    window = {"strides": [1, 1], "paddings": [1, 1], "dilations": [1, 1]}
    form = {"padding_algorithm": "EXPLICIT", "data_format": "NCHW"}
    y = writer.add("1.conv2d", [x, weights], image, **window, groups=1, **form)
    wide = writer.add("1.reshape", [bias, writer.numbers(1, -1, 1, 1)], (1, 4, 1, 1))
    y = writer.add("1.hardswish", [writer.add("1.add", [y, wide], image)], image)
    flags = {"ceil_mode": True, "exclusive": True, "global_pooling": False, "adaptive": False}
    pool = {
        "strides": Longs([2, 2]),
        "paddings": Longs([0, 0]),
        "pooling_type": "max",
        **flags,
        **form,
    }
    y = writer.add("1.pool2d", [y, writer.numbers(2, 2)], (-1, 4, 5, 6), **pool)
    both = writer.combine(y, y, sizes=(-1, 4, 5, 6))
    expected = {
        "shape": IntArray([1]),
        "value": Double(1),
        "dtype": Element("int32"),
        "place": Place(),
    }
    one = writer.add("1.full", [], [1], "int32", **expected)
    y = writer.add("1.concat", [both, one], (-1, 8, 5, 6))
    y = writer.add("1.mean", [y, writer.numbers(2, 3)], (-1, 8), keepdim=False)
    writer.fetch(writer.add("1.softmax", [y], (-1, 8), axis=-1), (-1, 8))
    return writer
