"""Reads the JSON form of a program, which Paddle 3 writes (inference.json).

Its values have numbers instead of names, and lists of values are values, too. Here values get names
after the operator that writes them, and operators get the parameter names of the older form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fourfold.formats.paddle.records import Attribute, OperatorRecord, Program, Variable
from fourfold.formats.paddle.schema import SHORT_ELEMENTS
from fourfold.formats.source import Content
from fourfold.types import DType, Shape


@dataclass(frozen=True)
class PirOperator:
    """The older type ('' if unchanged), its parameters in order, and renamed attributes.

    In the newer form inputs are positional, and some former attributes are inputs.
    """

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


MAX_BYTES = 64 << 20  # programs are some megabytes; weights are stored elsewhere
NOTHING = 0  # the number of an omitted value
_BUILTIN, _OPERATOR = "0.", "1."
_OUTPUTS = {f"{_OPERATOR}fetch", f"{_BUILTIN}shadow_output"}


def read_json(content: Content) -> Program:
    """Return the operators of the only block.

    Raises ValueError or a similar error for a damaged program.
    """
    if len(content) > MAX_BYTES:
        raise ValueError(f"a program of {len(content)} bytes is larger than {MAX_BYTES}")
    try:
        program = json.loads(bytes(content))["program"]
    except RecursionError as error:
        raise ValueError("its parts are nested too deeply") from error
    (region,) = program["regions"]
    (block,) = region["blocks"]
    reader = _Reader()
    for operator in block["ops"]:
        reader.add(operator)
    return Program(
        operators=tuple(reader.operators),
        variables=reader.variables,
        feeds=tuple(reader.feeds),
        fetches=reader.fetches,
        parameters=tuple(sorted(reader.parameters)),
    )


@dataclass
class _Reader:
    """Collects the program while it is read; `names` maps a value number to one or more names."""

    names: dict[int, tuple[str, ...]] = field(default_factory=lambda: {NOTHING: ()})
    variables: dict[str, Variable] = field(default_factory=dict)
    operators: list[OperatorRecord] = field(default_factory=list)
    feeds: list[str] = field(default_factory=list)
    fetches: dict[str, str] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)

    def add(self, operator: Mapping[str, Any]) -> None:
        kind = _text(operator["#"])
        if kind == "p":
            self._add_parameter(operator)
            return
        inputs = [self._get(one) for one in operator.get("I", ())]
        attributes = dict(_attributes(operator.get("A", ())))
        if kind in _OUTPUTS:
            (value,) = inputs[0]
            name = attributes.get("output_name", attributes.get("name", value))
            self.fetches[_text(name)] = value
        elif kind == f"{_OPERATOR}data":
            name = _text(attributes["name"])
            self.feeds.append(name)
            self._name(operator["O"][0], [name])
        elif kind.startswith(_BUILTIN):
            self._add_builtin(kind, operator, inputs, attributes)
        else:
            self._add_operator(kind, operator, inputs, attributes)

    def _get(self, value: Mapping[str, Any]) -> tuple[str, ...]:
        number = value["%"]
        if number not in self.names:
            raise ValueError(f"value {number} is read before it is written")
        return self.names[number]

    def _name(self, value: Mapping[str, Any], names: Sequence[str]) -> None:
        types = list(_types(value.get("TT")))
        for name, (dtype, sizes) in zip(names, types, strict=False):
            self.variables[name] = Variable(dtype, sizes)
        self.names[value["%"]] = tuple(names)

    def _add_parameter(self, operator: Mapping[str, Any]) -> None:
        name = _text(operator["A"][-1])
        self._name(operator["O"], [name])
        self.parameters.append(name)

    def _add_builtin(
        self,
        kind: str,
        operator: Mapping[str, Any],
        inputs: Sequence[tuple[str, ...]],
        attributes: Mapping[str, Attribute],
    ) -> None:
        """Combine and split lists, which only renames values."""
        outputs = operator["O"]
        if kind == f"{_BUILTIN}combine":
            self._name(outputs[0], [name for names in inputs for name in names])
        elif kind == f"{_BUILTIN}split":
            for value, name in zip(outputs, inputs[0], strict=True):
                self._name(value, [name])
        elif kind == f"{_BUILTIN}slice":
            index = attributes.get("index")
            assert isinstance(index, int)
            self._name(outputs[0], [inputs[0][index]])
        else:
            self._add_operator(kind, operator, inputs, attributes)

    def _add_operator(
        self,
        kind: str,
        operator: Mapping[str, Any],
        inputs: Sequence[tuple[str, ...]],
        attributes: Mapping[str, Attribute],
    ) -> None:
        title = kind.partition(".")[2]
        older = OPERATORS.get(title, PirOperator(title))
        results: list[tuple[str, ...]] = []
        for value in operator["O"]:
            count = len(list(_types(value.get("TT"))))
            number = value["%"]
            names = [f"{title}_{number}" + (f".{i}" if count > 1 else "") for i in range(count)]
            self._name(value, names)
            results.append(tuple(names))
        parameters = [*older.inputs, *(f"#{i}" for i in range(len(older.inputs), len(inputs)))]
        read = {name: values for name, values in zip(parameters, inputs, strict=False) if values}
        written = {older.output: results[0]} if results else {}
        written |= {f"#{i}": names for i, names in enumerate(results) if i}
        renamed = {older.attributes.get(name, name): one for name, one in attributes.items()}
        self.operators.append(OperatorRecord(older.type or title, read, written, renamed))


def _types(form: Any) -> Iterator[tuple[DType | None, Shape]]:
    """Yield the types of a value; a list has several."""
    if not isinstance(form, dict):
        yield None, ()
    elif form["#"] == "0.t_vec":
        for one in form["D"]:
            yield from _types(one)
    elif form["#"] == "0.t_dtensor":
        element, sizes, *_ = form["D"]
        if not all(isinstance(size, int) for size in sizes):
            raise ValueError(f"{sizes} are not integer sizes")
        short = _text(element["#"]).removeprefix("0.t_")
        yield SHORT_ELEMENTS.get(short), tuple(sizes)
    else:
        yield None, ()


def _attributes(forms: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Attribute]]:
    for form in forms:
        value = _value(form["AT"].get("D"))
        if value is not None:
            yield _text(form["N"]), value


def _value(data: Any) -> Attribute | None:
    """Return a number, a string or a list of these; each may be wrapped with its kind."""
    if isinstance(data, dict):
        data = data.get("D")
    if isinstance(data, list):
        items: list[Any] = [item.get("D") if isinstance(item, dict) else item for item in data]
        are_scalars = all(isinstance(item, bool | int | float | str) for item in items)
        return tuple(items) if are_scalars else None
    return data if isinstance(data, bool | int | float | str) else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a string")
    return value
