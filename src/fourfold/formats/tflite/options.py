"""The options of TFLite's operators, as in the schema.

The order of the fields is the order of the table's slots, the annotation is the type in the file,
and the value is the schema's default, so that one function reads them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TypeVar

from fourfold.formats.tflite.flatbuffer import Table
from fourfold.support.forks import ForkSafeLock

Byte = int
Int = int
Bool = bool
Float = float
Ints = tuple[int, ...]
Text = str
T = TypeVar("T")

_FORMS = {"Byte": "b", "Int": "i", "Bool": "?", "Float": "f"}
TABLES: dict[int, type] = {}
_LOCK = ForkSafeLock()  # files may be read from several threads
SECOND = 1000  # offset of numbers in the schema's second union of options


def _table(*codes: int) -> Callable[[type[T]], type[T]]:
    """Register a table under its numbers in the union of options.

    It becomes a dataclass on first use: creating all of them at import would take twenty
    milliseconds.
    """

    def register(options: type[T]) -> type[T]:
        TABLES.update(dict.fromkeys(codes, options))
        return options

    return register


@dataclass(frozen=True)
class UnknownOptions:
    """Options that no converter needs, by their number in the union."""

    code: int


def read_options(code: int, table: Table | None) -> object | None:
    """Return the options for a number in the union; None if the operator has none."""
    if code == 0 or table is None:
        return None
    if code not in TABLES:
        return UnknownOptions(code)
    kind = dataclass_of(code)
    make: Callable[..., object] = kind
    return make(*(_field(table, slot, f.type, f.default) for slot, f in enumerate(fields(kind))))


def dataclass_of(code: int) -> type:
    """Return the dataclass for a number in the union."""
    kind = TABLES[code]
    with _LOCK:
        return kind if is_dataclass(kind) else dataclass(frozen=True)(kind)


def _field(table: Table, slot: int, form: object, default: object) -> object:
    if form == "Ints":
        return table.integers(slot)
    if form == "Text":
        return table.text(slot)
    return table.scalar(slot, _FORMS[str(form)], default)  # type: ignore[arg-type]


@_table(1)
class Conv2DOptions:
    padding: Byte = 0
    stride_w: Int = 0
    stride_h: Int = 0
    activation: Byte = 0
    dilation_w: Int = 1
    dilation_h: Int = 1
    quantized_bias_type: Byte = 0


@_table(2)
class DepthwiseConv2DOptions:
    padding: Byte = 0
    stride_w: Int = 0
    stride_h: Int = 0
    multiplier: Int = 0
    activation: Byte = 0
    dilation_w: Int = 1
    dilation_h: Int = 1


@_table(5)
class Pool2DOptions:
    padding: Byte = 0
    stride_w: Int = 0
    stride_h: Int = 0
    filter_w: Int = 0
    filter_h: Int = 0
    activation: Byte = 0


@_table(8)
class FullyConnectedOptions:
    activation: Byte = 0
    weights_format: Byte = 0
    keep_num_dims: Bool = False
    asymmetric_quantize_inputs: Bool = False
    quantized_bias_type: Byte = 0


@_table(9)
class SoftmaxOptions:
    beta: Float = 0.0


@_table(10)
class ConcatenationOptions:
    axis: Int = 0
    activation: Byte = 0


@_table(11, 28)  # AddOptions, SubOptions
class AddOptions:
    activation: Byte = 0
    pot_scale_int16: Bool = True


@_table(21, 29)  # MulOptions, DivOptions
class MulOptions:
    activation: Byte = 0


@_table(14)
class LSTMOptions:
    activation: Byte = 0
    cell_clip: Float = 0.0
    proj_clip: Float = 0.0
    kernel_type: Byte = 0
    asymmetric_quantize_inputs: Bool = False


@_table(15)
class ResizeBilinearOptions:
    new_height: Int = 0
    new_width: Int = 0
    align_corners: Bool = False
    half_pixel_centers: Bool = False


@_table(17)
class ReshapeOptions:
    new_shape: Ints = ()


@_table(19, 94)  # SpaceToDepthOptions, DepthToSpaceOptions
class BlockOptions:
    block_size: Int = 0


@_table(23)
class GatherOptions:
    axis: Int = 0
    batch_dims: Int = 0


@_table(27)
class ReducerOptions:
    keep_dims: Bool = False


@_table(30)
class SqueezeOptions:
    squeeze_dims: Ints = ()


@_table(32)
class StridedSliceOptions:
    begin_mask: Int = 0
    end_mask: Int = 0
    ellipsis_mask: Int = 0
    new_axis_mask: Int = 0
    shrink_axis_mask: Int = 0
    offset: Bool = False


@_table(35, 79)  # SplitOptions, SplitVOptions
class SplitOptions:
    num_splits: Int = 0


@_table(37)
class CastOptions:
    in_data_type: Byte = 0
    out_data_type: Byte = 0


@_table(40)
class ArgMaxOptions:
    output_type: Byte = 0


@_table(49)
class TransposeConvOptions:
    padding: Byte = 0
    stride_w: Int = 0
    stride_h: Int = 0
    activation: Byte = 0
    quantized_bias_type: Byte = 0


@_table(55)
class ShapeOptions:
    out_type: Byte = 0


@_table(59)
class PackOptions:
    values_count: Int = 0
    axis: Int = 0


@_table(64)
class UnpackOptions:
    num: Int = 0
    axis: Int = 0


@_table(74)
class ResizeNearestNeighborOptions:
    align_corners: Bool = False
    half_pixel_centers: Bool = False


@_table(75)
class LeakyReluOptions:
    alpha: Float = 0.0


@_table(77)
class MirrorPadOptions:
    mode: Byte = 0


@_table(116)
class GeluOptions:
    approximate: Bool = False


@_table(6)
class SVDFOptions:
    rank: Int = 0
    activation: Byte = 0
    asymmetric_quantize_inputs: Bool = False


@_table(12)
class L2NormOptions:
    activation: Byte = 0


@_table(13)
class LocalResponseNormalizationOptions:
    radius: Int = 0
    bias: Float = 0.0
    alpha: Float = 0.0
    beta: Float = 0.0


@_table(57)
class ArgMinOptions:
    output_type: Byte = 0


@_table(61)
class OneHotOptions:
    axis: Int = 0


@_table(71)
class UnidirectionalSequenceLSTMOptions:
    activation: Byte = 0
    cell_clip: Float = 0.0
    proj_clip: Float = 0.0
    time_major: Bool = False
    asymmetric_quantize_inputs: Bool = False
    diagonal_recurrent_tensors: Bool = False


@_table(87)
class ReverseSequenceOptions:
    seq_dim: Int = 0
    batch_dim: Int = 0


@_table(92)
class IfOptions:
    then_subgraph: Int = 0
    else_subgraph: Int = 0


@_table(93, SECOND + 15)
class WhileOptions:
    condition_subgraph: Int = 0
    body_subgraph: Int = 0


@_table(101)
class BatchMatMulOptions:
    adj_x: Bool = False
    adj_y: Bool = False
    asymmetric_quantize_inputs: Bool = False


@_table(102)
class CumsumOptions:
    exclusive: Bool = False
    reverse: Bool = False


@_table(103)
class CallOnceOptions:
    init_subgraph: Int = 0


@_table(106)
class Conv3DOptions:
    padding: Byte = 0
    stride_d: Int = 0
    stride_w: Int = 0
    stride_h: Int = 0
    activation: Byte = 0
    dilation_d: Int = 1
    dilation_w: Int = 1
    dilation_h: Int = 1


@_table(111)
class VarHandleOptions:
    container: Text = ""
    shared_name: Text = ""


@_table(SECOND + 21)
class CompositeOptions:
    name: Text = ""
    decomposition: Int = 0
