"""Maps TFLite operators to their options table, by its number in the schema's union.

Operators without options have an empty table there, which files may omit.
"""

from __future__ import annotations

from fourfold.formats.tflite.options import dataclass_of

OPTION_TABLES = {
    "ADD": 11,
    "ARG_MAX": 40,
    "ARG_MIN": 57,
    "AVERAGE_POOL_2D": 5,
    "BATCH_MATMUL": 101,
    "CALL_ONCE": 103,
    "CAST": 37,
    "CONCATENATION": 10,
    "CONV_2D": 1,
    "CONV_3D": 106,
    "CUMSUM": 102,
    "DEPTH_TO_SPACE": 94,
    "DEPTHWISE_CONV_2D": 2,
    "DIV": 29,
    "FULLY_CONNECTED": 8,
    "GATHER": 23,
    "GELU": 116,
    "L2_NORMALIZATION": 12,
    "LEAKY_RELU": 75,
    "LOCAL_RESPONSE_NORMALIZATION": 13,
    "MAX_POOL_2D": 5,
    "MEAN": 27,
    "MIRROR_PAD": 77,
    "MUL": 21,
    "PACK": 59,
    "REDUCE_ALL": 27,
    "REDUCE_ANY": 27,
    "REDUCE_MAX": 27,
    "REDUCE_MIN": 27,
    "REDUCE_PROD": 27,
    "RESHAPE": 17,
    "RESIZE_BILINEAR": 15,
    "RESIZE_NEAREST_NEIGHBOR": 74,
    "REVERSE_SEQUENCE": 87,
    "SOFTMAX": 9,
    "SPACE_TO_DEPTH": 19,
    "STRIDED_SLICE": 32,
    "SUB": 28,
    "SUM": 27,
    "TRANSPOSE_CONV": 49,
    "VAR_HANDLE": 111,
}


def options_of(op: str, fields: dict[str, object]) -> object | None:
    """Return the options of an operator with these fields; None if it has none."""
    if op not in OPTION_TABLES:
        assert not fields, f"{op} has no options {sorted(fields)}"
        return None
    options: object = dataclass_of(OPTION_TABLES[op])(**fields)
    return options
