"""The protobuf messages of Caffe networks: fields by name, each with its number and kind.

Only fields that are read are listed; others, such as those for training, are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Kind(Enum):
    """The kind of a scalar field; other fields have an `Enumeration` or a nested schema."""

    INTEGER = "an integer"
    NUMBER = "a number"
    FLOATS = "a list of numbers"
    DOUBLES = "a list of 64-bit numbers"
    FLAG = "true or false"
    TEXT = "a string"
    BYTES = "bytes"


class Enumeration(tuple[str, ...]):
    """The names of an enumeration; the n-th has the number n."""


Field = tuple[int, "Kind | Enumeration | Schema"]
Schema = Mapping[str, Field]

INTEGER, NUMBER, FLAG, TEXT = Kind.INTEGER, Kind.NUMBER, Kind.FLAG, Kind.TEXT
PHASE = Enumeration(("TRAIN", "TEST"))
POOL = Enumeration(("MAX", "AVE", "STOCHASTIC"))

SHAPE: Schema = {"dim": (1, INTEGER)}
BLOB: Schema = {
    "num": (1, INTEGER),
    "channels": (2, INTEGER),
    "height": (3, INTEGER),
    "width": (4, INTEGER),
    "data": (5, Kind.FLOATS),
    "shape": (7, SHAPE),
    "double_data": (8, Kind.DOUBLES),
    "raw_data_type": (10, Enumeration(("DOUBLE", "FLOAT", "FLOAT16", "INT", "UINT"))),
    "raw_data": (12, Kind.BYTES),
}
STATE: Schema = {"phase": (1, PHASE), "level": (2, INTEGER), "stage": (3, TEXT)}
RULE: Schema = {
    "phase": (1, PHASE),
    "min_level": (2, INTEGER),
    "max_level": (3, INTEGER),
    "stage": (4, TEXT),
    "not_stage": (5, TEXT),
}
WINDOW: Schema = {
    "num_output": (1, INTEGER),
    "bias_term": (2, FLAG),
    "pad": (3, INTEGER),
    "kernel_size": (4, INTEGER),
    "group": (5, INTEGER),
    "stride": (6, INTEGER),
    "pad_h": (9, INTEGER),
    "pad_w": (10, INTEGER),
    "kernel_h": (11, INTEGER),
    "kernel_w": (12, INTEGER),
    "stride_h": (13, INTEGER),
    "stride_w": (14, INTEGER),
    "axis": (16, INTEGER),
    "dilation": (18, INTEGER),
}
POOLING: Schema = {
    "pool": (1, POOL),
    "kernel_size": (2, INTEGER),
    "stride": (3, INTEGER),
    "pad": (4, INTEGER),
    "kernel_h": (5, INTEGER),
    "kernel_w": (6, INTEGER),
    "stride_h": (7, INTEGER),
    "stride_w": (8, INTEGER),
    "pad_h": (9, INTEGER),
    "pad_w": (10, INTEGER),
    "global_pooling": (12, FLAG),
    "round_mode": (13, Enumeration(("CEIL", "FLOOR"))),
    "ceil_mode": (1000, FLAG),
}
PRIOR_BOX: Schema = {
    "min_size": (1, NUMBER),
    "max_size": (2, NUMBER),
    "aspect_ratio": (3, NUMBER),
    "flip": (4, FLAG),
    "clip": (5, FLAG),
    "variance": (6, NUMBER),
    "img_size": (7, INTEGER),
    "img_h": (8, INTEGER),
    "img_w": (9, INTEGER),
    "step": (10, NUMBER),
    "step_h": (11, NUMBER),
    "step_w": (12, NUMBER),
    "offset": (13, NUMBER),
}
DETECTION: Schema = {
    "num_classes": (1, INTEGER),
    "share_location": (2, FLAG),
    "background_label_id": (3, INTEGER),
    "nms_param": (4, {"nms_threshold": (1, NUMBER), "top_k": (2, INTEGER), "eta": (3, NUMBER)}),
    "code_type": (6, Enumeration(("", "CORNER", "CENTER_SIZE", "CORNER_SIZE"))),
    "keep_top_k": (7, INTEGER),
    "variance_encoded_in_target": (8, FLAG),
    "confidence_threshold": (9, NUMBER),
}
LRN: Schema = {
    "local_size": (1, INTEGER),
    "alpha": (2, NUMBER),
    "beta": (3, NUMBER),
    "norm_region": (4, Enumeration(("ACROSS_CHANNELS", "WITHIN_CHANNEL"))),
    "k": (5, NUMBER),
}
CURVE: Schema = {"base": (1, NUMBER), "scale": (2, NUMBER), "shift": (3, NUMBER)}
# Settings of each layer type: field number in LayerParameter and in V1LayerParameter (0 if absent
# there), and schema.
PARAMETERS: Mapping[str, tuple[int, int, Schema]] = {
    "argmax_param": (
        *(103, 23),
        {"out_max_val": (1, FLAG), "top_k": (2, INTEGER), "axis": (3, INTEGER)},
    ),
    "batch_norm_param": (139, 0, {"use_global_stats": (1, FLAG), "eps": (3, NUMBER)}),
    "bias_param": (141, 0, {"axis": (1, INTEGER), "num_axes": (2, INTEGER)}),
    "concat_param": (104, 9, {"concat_dim": (1, INTEGER), "axis": (2, INTEGER)}),
    "convolution_param": (106, 10, WINDOW),
    "crop_param": (144, 0, {"axis": (1, INTEGER), "offset": (2, INTEGER)}),
    "detection_output_param": (204, 0, DETECTION),
    "eltwise_param": (
        *(110, 24),
        {"operation": (1, Enumeration(("PROD", "SUM", "MAX", "MIN"))), "coeff": (2, NUMBER)},
    ),
    "elu_param": (140, 0, {"alpha": (1, NUMBER)}),
    "exp_param": (111, 41, CURVE),
    "flatten_param": (135, 0, {"axis": (1, INTEGER), "end_axis": (2, INTEGER)}),
    "inner_product_param": (
        *(117, 17),
        {
            "num_output": (1, INTEGER),
            "bias_term": (2, FLAG),
            "axis": (5, INTEGER),
            "transpose": (6, FLAG),
        },
    ),
    "input_param": (143, 0, {"shape": (1, SHAPE)}),
    "interp_param": (
        *(161, 0),
        {
            "height": (1, INTEGER),
            "width": (2, INTEGER),
            "zoom_factor": (3, INTEGER),
            "shrink_factor": (4, INTEGER),
            "pad_beg": (5, INTEGER),
            "pad_end": (6, INTEGER),
        },
    ),
    "log_param": (134, 0, CURVE),
    "lrn_param": (118, 18, LRN),
    "mvn_param": (
        *(120, 34),
        {"normalize_variance": (1, FLAG), "across_channels": (2, FLAG), "eps": (3, NUMBER)},
    ),
    "norm_param": (
        *(206, 0),
        {"across_spatial": (1, FLAG), "channel_shared": (3, FLAG), "eps": (4, NUMBER)},
    ),
    "permute_param": (202, 0, {"order": (1, INTEGER)}),
    "pooling_param": (121, 19, POOLING),
    "power_param": (
        *(122, 21),
        {"power": (1, NUMBER), "scale": (2, NUMBER), "shift": (3, NUMBER)},
    ),
    "prelu_param": (131, 0, {"channel_shared": (2, FLAG)}),
    "prior_box_param": (203, 0, PRIOR_BOX),
    "reduction_param": (
        *(136, 0),
        {
            "operation": (1, Enumeration(("", "SUM", "ASUM", "SUMSQ", "MEAN"))),
            "axis": (2, INTEGER),
            "coeff": (3, NUMBER),
        },
    ),
    "relu_param": (123, 30, {"negative_slope": (1, NUMBER)}),
    "reorg_param": (1001, 0, {"stride": (1, INTEGER)}),
    "reshape_param": (
        *(133, 0),
        {"shape": (1, SHAPE), "axis": (2, INTEGER), "num_axes": (3, INTEGER)},
    ),
    "scale_param": (
        *(142, 0),
        {"axis": (1, INTEGER), "num_axes": (2, INTEGER), "bias_term": (4, FLAG)},
    ),
    "shuffle_channel_param": (1002, 0, {"group": (1, INTEGER)}),
    "slice_param": (
        *(126, 31),
        {"slice_dim": (1, INTEGER), "slice_point": (2, INTEGER), "axis": (3, INTEGER)},
    ),
    "softmax_param": (125, 39, {"axis": (2, INTEGER)}),
    "threshold_param": (128, 25, {"threshold": (1, NUMBER)}),
    "tile_param": (138, 0, {"axis": (1, INTEGER), "tiles": (2, INTEGER)}),
    "upsample_param": (
        *(1003, 0),
        {"scale": (1, INTEGER), "upsample_h": (2, INTEGER), "upsample_w": (3, INTEGER)},
    ),
}
LAYER: Schema = {
    "name": (1, TEXT),
    "type": (2, TEXT),
    "bottom": (3, TEXT),
    "top": (4, TEXT),
    "blobs": (7, BLOB),
    "include": (8, RULE),
    "exclude": (9, RULE),
    **{name: (number, schema) for name, (number, _, schema) in PARAMETERS.items()},
}
# V1 layer types in the order of their numbers, each with its current name.
V1_TYPES = {
    "NONE": "",
    "ACCURACY": "Accuracy",
    "BNLL": "BNLL",
    "CONCAT": "Concat",
    "CONVOLUTION": "Convolution",
    "DATA": "Data",
    "DROPOUT": "Dropout",
    "EUCLIDEAN_LOSS": "EuclideanLoss",
    "FLATTEN": "Flatten",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "IM2COL": "Im2col",
    "IMAGE_DATA": "ImageData",
    "INFOGAIN_LOSS": "InfogainLoss",
    "INNER_PRODUCT": "InnerProduct",
    "LRN": "LRN",
    "MULTINOMIAL_LOGISTIC_LOSS": "MultinomialLogisticLoss",
    "POOLING": "Pooling",
    "RELU": "ReLU",
    "SIGMOID": "Sigmoid",
    "SOFTMAX": "Softmax",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "SPLIT": "Split",
    "TANH": "TanH",
    "WINDOW_DATA": "WindowData",
    "ELTWISE": "Eltwise",
    "POWER": "Power",
    "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss",
    "HINGE_LOSS": "HingeLoss",
    "MEMORY_DATA": "MemoryData",
    "ARGMAX": "ArgMax",
    "THRESHOLD": "Threshold",
    "DUMMY_DATA": "DummyData",
    "SLICE": "Slice",
    "MVN": "MVN",
    "ABSVAL": "AbsVal",
    "SILENCE": "Silence",
    "CONTRASTIVE_LOSS": "ContrastiveLoss",
    "EXP": "Exp",
    "DECONVOLUTION": "Deconvolution",
}
V0_LAYER: Schema = {
    "name": (1, TEXT),
    "type": (2, TEXT),
    "num_output": (3, INTEGER),
    "biasterm": (4, FLAG),
    "pad": (7, INTEGER),
    "kernelsize": (8, INTEGER),
    "group": (9, INTEGER),
    "stride": (10, INTEGER),
    "pool": (11, POOL),
    "local_size": (13, INTEGER),
    "alpha": (14, NUMBER),
    "beta": (15, NUMBER),
    "k": (22, NUMBER),
    "blobs": (50, BLOB),
    "new_num": (60, INTEGER),
    "new_channels": (61, INTEGER),
    "new_height": (62, INTEGER),
    "new_width": (63, INTEGER),
    "concat_dim": (65, INTEGER),
}
V1_LAYER: Schema = {
    "layer": (1, V0_LAYER),
    "bottom": (2, TEXT),
    "top": (3, TEXT),
    "name": (4, TEXT),
    "type": (5, Enumeration(V1_TYPES)),
    "blobs": (6, BLOB),
    "include": (32, RULE),
    "exclude": (33, RULE),
    **{name: (number, schema) for name, (_, number, schema) in PARAMETERS.items() if number},
}
NET: Schema = {
    "name": (1, TEXT),
    "layers": (2, V1_LAYER),
    "input": (3, TEXT),
    "input_dim": (4, INTEGER),
    "state": (6, STATE),
    "input_shape": (8, SHAPE),
    "layer": (100, LAYER),
}
