"""Checks operators of a TFLite file before LiteRT reads them.

LiteRT trusts a file. It aborts the process, or accesses memory outside of its buffers, if an
operator has too few inputs, the options of another operator, other element types, or scales that
its kernels cannot represent. The reader has already checked all offsets, and that all numbers of
tensors and buffers exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite

from fourfold.formats.tflite.foreign import CALLING, called_graphs
from fourfold.formats.tflite.options import SplitOptions, UnpackOptions
from fourfold.formats.tflite.records import (
    FileRecord,
    OperatorRecord,
    SubgraphRecord,
    TensorRecord,
)
from fourfold.types import DType

# Numbers of inputs and outputs: '2', '2-3' or '1+'. Operators that are not listed have any number.
_ARITIES = """
    1 1: ABS AVERAGE_POOL_2D BITCAST BUCKETIZE CAST CEIL COMPLEX_ABS COS DENSIFY DEPTH_TO_SPACE
         DEQUANTIZE ELU EXP FAKE_QUANT FLOOR GELU HARD_SWISH HASHTABLE_SIZE IMAG L2_NORMALIZATION
         L2_POOL_2D LEAKY_RELU LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_NOT LOGISTIC LOG_SOFTMAX
         MATRIX_DIAG MAX_POOL_2D NEG QUANTIZE RANDOM_STANDARD_NORMAL RANDOM_UNIFORM RANK
         READ_VARIABLE REAL RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SHAPE SIGN SIN SKIP_GRAM
         SOFTMAX SPACE_TO_DEPTH SQRT SQUARE SQUEEZE TANH WHERE ZEROS_LIKE
    2 1: ADD ARG_MAX ARG_MIN ATAN2 BATCH_MATMUL BITWISE_XOR BROADCAST_ARGS BROADCAST_TO CUMSUM DIV
         EMBEDDING_LOOKUP EQUAL EXPAND_DIMS FILL FLOOR_DIV FLOOR_MOD GATHER GATHER_ND GREATER
         GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR MATRIX_SET_DIAG MAXIMUM MEAN MINIMUM
         MIRROR_PAD MUL MULTINOMIAL NOT_EQUAL PAD POW PRELU REDUCE_ALL REDUCE_ANY REDUCE_MAX
         REDUCE_MIN REDUCE_PROD RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_SEQUENCE REVERSE_V2
         RFFT2D RIGHT_SHIFT SEGMENT_SUM SQUARED_DIFFERENCE SUB SUM TILE TRANSPOSE
    3 1: BATCH_TO_SPACE_ND DILATE DYNAMIC_UPDATE_SLICE HASHTABLE_FIND PADV2 RANGE SCATTER_ND SELECT
         SELECT_V2 SLICE SPACE_TO_BATCH_ND UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN
         UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM
    4 1: ONE_HOT SPARSE_TO_DENSE STRIDED_SLICE
    5 1: EMBEDDING_LOOKUP_SPARSE REDUCE_WINDOW RNN UNIDIRECTIONAL_SEQUENCE_RNN
    0 0: CALL_ONCE
    0 1: HASHTABLE VAR_HANDLE
    1 1+: UNPACK
    1 2: UNIQUE
    1+ 1: ADD_N CONCATENATION PACK
    1-2 1: RESHAPE
    2 0: ASSIGN_VARIABLE
    2 1+: SPLIT
    2 2: TOPK_V2
    2-3 1: CONV_2D CONV_3D DEPTHWISE_CONV_2D LSH_PROJECTION
    2-4 1-2: FULLY_CONNECTED
    3 0: HASHTABLE_IMPORT
    3 1+: SPLIT_V
    3 2: HASHTABLE_LOOKUP
    3-4 1: CONV_3D_TRANSPOSE TRANSPOSE_CONV
    4-5 1-2: SVDF
    5 2: NON_MAX_SUPPRESSION_V4
    6 3: NON_MAX_SUPPRESSION_V5
    5-24 1-4: LSTM
    12 1-2: BIDIRECTIONAL_SEQUENCE_RNN
    20-24 1: UNIDIRECTIONAL_SEQUENCE_LSTM
    48 1-2: BIDIRECTIONAL_SEQUENCE_LSTM
"""
# Numbers of the only options that LiteRT accepts for an operator, in the schema's union.
_OPTIONS = """
    CONV_2D:1 DEPTHWISE_CONV_2D:2 LSH_PROJECTION:4 AVERAGE_POOL_2D:5 L2_POOL_2D:5 MAX_POOL_2D:5
    SVDF:6 RNN:7 FULLY_CONNECTED:8 SOFTMAX:9 CONCATENATION:10 ADD:11 L2_NORMALIZATION:12
    LOCAL_RESPONSE_NORMALIZATION:13 LSTM:14 RESIZE_BILINEAR:15 CALL:16 RESHAPE:17 SKIP_GRAM:18
    SPACE_TO_DEPTH:19 EMBEDDING_LOOKUP_SPARSE:20 MUL:21 GATHER:23 MEAN:27 REDUCE_ALL:27
    REDUCE_ANY:27 REDUCE_MAX:27 REDUCE_MIN:27 REDUCE_PROD:27 SUM:27 SUB:28 DIV:29 SQUEEZE:30
    UNIDIRECTIONAL_SEQUENCE_RNN:31 STRIDED_SLICE:32 SPLIT:35 CAST:37 ARG_MAX:40 TRANSPOSE_CONV:49
    SPARSE_TO_DENSE:50 SHAPE:55 ARG_MIN:57 FAKE_QUANT:58 PACK:59 ONE_HOT:61 UNPACK:64
    BIDIRECTIONAL_SEQUENCE_LSTM:69 BIDIRECTIONAL_SEQUENCE_RNN:70 UNIDIRECTIONAL_SEQUENCE_LSTM:71
    RESIZE_NEAREST_NEIGHBOR:74 LEAKY_RELU:75 MIRROR_PAD:77 SPLIT_V:79 UNIQUE:80 REVERSE_SEQUENCE:87
    IF:92 WHILE:93 DEPTH_TO_SPACE:94 BATCH_MATMUL:101 CUMSUM:102 CALL_ONCE:103 CONV_3D:106
    CONV_3D_TRANSPOSE:106 HASHTABLE:107 VAR_HANDLE:111 BUCKETIZE:115 GELU:116
"""
# The first input that may be omitted.
_FIRST_OPTIONAL = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": 1,
    "BIDIRECTIONAL_SEQUENCE_RNN": 1,
    "CONV_2D": 2,
    "CONV_3D": 2,
    "CONV_3D_TRANSPOSE": 3,
    "CUSTOM": 0,
    "DEPTHWISE_CONV_2D": 2,
    "FULLY_CONNECTED": 2,
    "LSTM": 1,
    "STABLEHLO_COMPOSITE": 0,
    "SVDF": 3,
    "TRANSPOSE_CONV": 3,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 1,
}
# Operators whose quantized inputs are scaled to a common grid, with multipliers between 0 and 1.
_COMPARED = {"EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"}
_RESCALED = {"ADD", "SUB", "SQUARED_DIFFERENCE"}
# Operators that copy or combine elements, with the first of the inputs that have the output's type.
_SAME_TYPE_NAMES = """
    ABS ADD ADD_N AVERAGE_POOL_2D BATCH_TO_SPACE_ND BROADCAST_TO CEIL CONCATENATION COS CUMSUM
    DEPTH_TO_SPACE DIV DYNAMIC_UPDATE_SLICE ELU EXP EXPAND_DIMS FLOOR FLOOR_DIV FLOOR_MOD GATHER
    GATHER_ND GELU HARD_SWISH L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LOCAL_RESPONSE_NORMALIZATION
    LOG LOGISTIC LOG_SOFTMAX MATRIX_DIAG MATRIX_SET_DIAG MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD
    MUL NEG PACK PAD PADV2 POW PRELU RANGE REDUCE_MAX REDUCE_MIN REDUCE_PROD RELU RELU6 RELU_0_TO_1
    RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_SEQUENCE REVERSE_V2 ROUND
    RSQRT SEGMENT_SUM SIN SLICE SPACE_TO_BATCH_ND SPACE_TO_DEPTH SQRT SQUARE SQUARED_DIFFERENCE
    SQUEEZE STRIDED_SLICE SUB SUM TANH TILE TRANSPOSE UNPACK UNSORTED_SEGMENT_MAX
    UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM ZEROS_LIKE
"""
_SAME_TYPE = dict.fromkeys(_SAME_TYPE_NAMES.split(), 0)
_SAME_TYPE |= {"FILL": 1, "SELECT": 1, "SELECT_V2": 1, "SPLIT": 1, "SPLIT_V": 0}
_SAME_TYPE |= {"ONE_HOT": 2, "SCATTER_ND": 1, "SPARSE_TO_DENSE": 2}
_SMALL = (DType.I8, DType.U8, DType.I16)
_SHIFTS = {DType.I16: 15}  # bits that inputs are shifted by before they are added; others: 20
_DEFAULT_SHIFT = 20
_MAX_FLOAT32 = 2.0**128  # LiteRT computes with the scales as float32
_Range = tuple[int, float]


def _range(text: str) -> _Range:
    if text.endswith("+"):
        return int(text[:-1]), inf
    least, _, most = text.partition("-")
    return int(least), int(most or least)


def _arities() -> Iterator[tuple[str, tuple[_Range, _Range]]]:
    numbers: tuple[_Range, _Range] | None = None
    words = iter(_ARITIES.split())
    for word in words:
        if word[0].isdigit():
            numbers = _range(word), _range(next(words).removesuffix(":"))
        else:
            assert numbers is not None, "numbers come before the names of operators"
            yield word, numbers


ARITIES = dict(_arities())
OPTIONS = {name: int(code) for name, _, code in (i.partition(":") for i in _OPTIONS.split())}


def refuse_operator(file: FileRecord, graph: SubgraphRecord, record: OperatorRecord) -> str:
    """Return why LiteRT must not read an operator, nor the graphs that it calls; '' if it may."""
    reason = _refuse_own(file, graph, record)
    return reason or (_refuse_called(file, record, ()) if record.op in CALLING else "")


def refuse_graph(file: FileRecord, graph: SubgraphRecord) -> str:
    """Return why LiteRT must not read the tensors of a graph; '' if it may."""
    unnamed = next((one.name for one in graph.tensors if not one.has_text_name), None)
    if unnamed is not None:
        return f"the name of tensor '{unnamed}' is not UTF-8"
    stored = next((i for i in graph.inputs if _is_stored(file, graph.tensors[i])), None)
    return "" if stored is None else f"input '{graph.tensors[stored].name}' is a constant"


def refuse_file(file: FileRecord) -> str:
    """Return why LiteRT must not read the first graph of a file; '' if it may."""
    graph = file.subgraphs[0]
    reasons = ((one.title, refuse_operator(file, graph, one)) for one in graph.operators)
    first = next((f"{title}: {reason}" for title, reason in reasons if reason), "")
    return refuse_graph(file, graph) or first


def _refuse_called(file: FileRecord, record: OperatorRecord, callers: tuple[int, ...]) -> str:
    for number in called_graphs(record):
        if not 0 <= number < len(file.subgraphs):
            return f"it calls graph {number}, but there are only {len(file.subgraphs)}"
        if number in callers:
            return f"graph {number} calls itself"
        graph = file.subgraphs[number]
        reasons = (
            _refuse_own(file, graph, one) or _refuse_called(file, one, (*callers, number))
            for one in graph.operators
        )
        reason = refuse_graph(file, graph) or next(filter(None, reasons), "")
        if reason:
            return f"in graph {number}: {reason}"
    return ""


def _refuse_own(file: FileRecord, graph: SubgraphRecord, record: OperatorRecord) -> str:
    return (
        _refuse_numbers(record)
        or _refuse_options(record)
        or _refuse_outputs(file, graph, record)
        or _refuse_types(graph, record)
        or _refuse_scales(graph, record)
    )


def _refuse_numbers(record: OperatorRecord) -> str:
    if record.op in ARITIES:
        for what, (least, most), numbers in zip(
            ("inputs", "outputs"), ARITIES[record.op], (record.inputs, record.outputs), strict=True
        ):
            if not least <= len(numbers) <= most:
                return f"it has {len(numbers)} {what}, which {record.op} cannot have"
    if record.op in CALLING:
        return ""
    needed = record.inputs[: _FIRST_OPTIONAL.get(record.op, len(record.inputs))]
    return f"it omits input {needed.index(-1)}, which {record.op} needs" if -1 in needed else ""


def _refuse_options(record: OperatorRecord) -> str:
    if record.options_code not in (0, OPTIONS.get(record.op, record.options_code)):
        return f"it has options number {record.options_code}, which are of another operator"
    count = len(record.outputs)
    if record.op in ("SPLIT", "SPLIT_V"):
        options = record.options
        parts = options.num_splits if isinstance(options, SplitOptions) else 0
        return "" if parts == count else f"it has {count} outputs but splits into {parts}"
    if record.op == "UNPACK":
        parts = record.options.num if isinstance(record.options, UnpackOptions) else 0
        return "" if parts == count else f"it has {count} outputs but unpacks {parts}"
    return ""


def _refuse_outputs(file: FileRecord, graph: SubgraphRecord, record: OperatorRecord) -> str:
    written = (graph.tensors[i] for i in record.outputs)
    name = next((one.name for one in written if _is_stored(file, one)), None)
    return "" if name is None else f"it writes '{name}', which is a constant"


def _refuse_types(graph: SubgraphRecord, record: OperatorRecord) -> str:
    if record.op == "SOFTMAX":  # a quantized one may have wider results
        types = [graph.tensors[i].dtype for i in (*record.inputs, *record.outputs)]
        is_mixed = types[0] != types[1] and DType.F32 in types
        return "it has a float and a quantized type" if is_mixed else ""
    if record.op not in _SAME_TYPE:
        return ""
    source = graph.tensors[record.inputs[_SAME_TYPE[record.op]]].type_code
    results = (graph.tensors[i] for i in record.outputs)
    name = next((one.name for one in results if one.type_code != source), None)
    return "" if name is None else f"it writes '{name}', which has another element type"


def _refuse_scales(graph: SubgraphRecord, record: OperatorRecord) -> str:
    """Return why LiteRT's quantized kernel has no multipliers for its inputs and its output."""
    if record.op not in _RESCALED | _COMPARED:
        return ""
    tensors = [graph.tensors[i] for i in (*record.inputs, *record.outputs)]
    if tensors[0].dtype not in _SMALL:
        return ""
    pair = [_scale(one) for one in tensors[:2]]
    if record.op in _COMPARED and pair == [0.0, 0.0]:
        return ""  # plain integers
    reason = f"{record.op} of these quantized types has no multiplier for its scales"
    if not all(isfinite(one) and one > 0 for one in pair):
        return reason
    if record.op in _COMPARED:
        return ""
    common, scale = 2 * max(pair), _scale(tensors[-1])
    shifted = scale * 2 ** _SHIFTS.get(tensors[-1].dtype or DType.I8, _DEFAULT_SHIFT)
    return "" if 0 < common < shifted < _MAX_FLOAT32 else reason


def _scale(tensor: TensorRecord) -> float:
    """Return the scale of a tensor as LiteRT reads it: 0 if it has none, or one for each slice."""
    scales = () if tensor.quantization is None else tensor.quantization.scale
    return scales[0] if len(scales) == 1 else 0.0


def _is_stored(file: FileRecord, tensor: TensorRecord) -> bool:
    return file.buffers[tensor.buffer].size > 0
