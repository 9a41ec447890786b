"""Small Caffe networks, at least one for each layer type."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from caffe_writer import input_text, layer_text
from stored_answers import numbers

IMAGE = (2, 6, 11, 13)


@dataclass(frozen=True)
class CaffeCase:
    """Layers from 'x' to 'y', with the shapes of their parameters and inputs."""

    layers: str
    shapes: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    inputs: dict[str, tuple[int, ...]] = field(default_factory=lambda: {"x": IMAGE})
    judged: bool = True  # whether OpenCV computes the same

    @property
    def text(self) -> str:
        return "".join(input_text(*shape, name=name) for name, shape in self.inputs.items()) + (
            self.layers
        )

    @property
    def blobs(self) -> dict[str, list[np.ndarray]]:
        return {
            name: [self._blob(name, index, shape) for index, shape in enumerate(shapes)]
            for name, shapes in self.shapes.items()
        }

    @staticmethod
    def _blob(name: str, index: int, shape: tuple[int, ...]) -> np.ndarray:
        values = numbers(shape, index + len(name))
        # Variances and weights of means are positive.
        return np.abs(values) + np.float32(0.5) if name.startswith("bn") and index else values

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {
            name: numbers(shape, seed) for seed, (name, shape) in enumerate(self.inputs.items())
        }


def _conv(settings: str, weights: tuple[int, ...], type_: str = "Convolution") -> CaffeCase:
    outputs = weights[0]
    if type_ == "Deconvolution":
        groups = int(settings.split("group: ")[1].split()[0]) if "group" in settings else 1
        outputs = weights[1] * groups
    text = layer_text(type_, f"convolution_param {{ num_output: {outputs} {settings} }}")
    return CaffeCase(text, {"y": [weights, (outputs,)]})


def _one(type_: str, settings: str = "", **changes: object) -> CaffeCase:
    return CaffeCase(layer_text(type_, settings), **changes)  # type: ignore[arg-type]


def _pool(settings: str) -> CaffeCase:
    return _one("Pooling", f"pooling_param {{ {settings} }}")


TWO = {"x": IMAGE, "z": IMAGE}
BATCH_NORM = layer_text("BatchNorm", "batch_norm_param { eps: 0.001 }", tops="bn") + layer_text(
    "Scale", "scale_param { bias_term: true }", bottoms="bn", tops="bn", name="scale"
)
PRIOR = (
    "prior_box_param { min_size: 4 max_size: 8 aspect_ratio: 2 aspect_ratio: 3 flip: true "
    "clip: false variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 offset: 0.5 }"
)
DETECTOR = (
    layer_text("PriorBox", PRIOR, bottoms="f x", tops="prior")
    + layer_text("Flatten", bottoms="conf", tops="flat")
    + layer_text(
        "DetectionOutput",
        "detection_output_param { num_classes: 3 share_location: true background_label_id: 0 "
        "nms_param { nms_threshold: 0.45 top_k: 100 } code_type: CENTER_SIZE keep_top_k: 20 "
        "confidence_threshold: 0.3 }",
        bottoms="loc flat prior",
    )
)
CASES = {
    "conv": _conv("kernel_size: 3 stride: 2 pad: 1", (5, 6, 3, 3)),
    "conv_hw": _conv(
        "kernel_h: 3 kernel_w: 1 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0", (5, 6, 3, 1)
    ),
    "conv_dilated": _conv("kernel_size: 3 dilation: 2 pad: 2", (5, 6, 3, 3)),
    "conv_groups": _conv("kernel_size: 3 group: 3", (9, 2, 3, 3)),
    "conv_depthwise": _conv("kernel_size: 3 pad: 1 group: 6", (6, 1, 3, 3)),
    "conv_multiplied": _conv("kernel_size: 3 pad: 1 group: 6", (12, 1, 3, 3)),
    "deconv": _conv("kernel_size: 4 stride: 2 pad: 1", (6, 5, 4, 4), "Deconvolution"),
    "deconv_groups": _conv(
        "kernel_size: 4 stride: 2 pad: 1 group: 6", (6, 1, 4, 4), "Deconvolution"
    ),
    "inner": CaffeCase(
        layer_text("InnerProduct", "inner_product_param { num_output: 7 }"),
        {"y": [(7, 6 * 11 * 13), (7,)]},
    ),
    "pool_max": _pool("pool: MAX kernel_size: 3 stride: 2"),
    "pool_max_pad": _pool("pool: MAX kernel_size: 3 stride: 2 pad: 1"),
    "pool_average": _pool("pool: AVE kernel_size: 3 stride: 2"),
    "pool_average_pad": _pool("pool: AVE kernel_size: 3 stride: 2 pad: 1"),
    "pool_average_wide": _pool("pool: AVE kernel_h: 2 kernel_w: 4 stride_h: 3 stride_w: 3"),
    "pool_floor": _pool("pool: MAX kernel_size: 2 stride: 2 ceil_mode: false"),
    "pool_global": _pool("pool: AVE global_pooling: true"),
    "pool_global_max": _pool("pool: MAX global_pooling: true"),
    "lrn": _one("LRN", "lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 }"),
    "lrn_within": _one(
        "LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 norm_region: WITHIN_CHANNEL }"
    ),
    "batch_norm": CaffeCase(BATCH_NORM, {"bn": [(6,), (6,), (1,)], "scale": [(6,), (6,)]}),
    "scale": CaffeCase(layer_text("Scale", "scale_param { bias_term: true }"), {"y": [(6,), (6,)]}),
    "bias": CaffeCase(layer_text("Bias"), {"y": [(6,)]}, judged=False),
    "relu": _one("ReLU"),
    "relu_slope": _one("ReLU", "relu_param { negative_slope: 0.2 }"),
    "prelu": CaffeCase(layer_text("PReLU"), {"y": [(6,)]}),
    "elu": _one("ELU"),
    "elu_alpha": _one("ELU", "elu_param { alpha: 0.5 }"),
    "sigmoid": _one("Sigmoid"),
    "tanh": _one("TanH"),
    "bnll": _one("BNLL"),
    "abs": _one("AbsVal"),
    "power": _one("Power", "power_param { power: 3 scale: 0.5 shift: 2 }"),
    "power_line": _one("Power", "power_param { scale: 0.5 shift: 2 }"),
    "exp": _one("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }"),
    "log": _one("Log", "log_param { base: 10 scale: 1 shift: 3 }", judged=False),
    "threshold": _one("Threshold", "threshold_param { threshold: 0.25 }", judged=False),
    "softmax": _one("Softmax"),
    "softmax_last": _one("Softmax", "softmax_param { axis: -1 }"),
    "argmax": _one("ArgMax", "argmax_param { axis: 1 }", judged=False),
    "mvn": _one("MVN"),
    "flatten": _one("Flatten"),
    "flatten_axes": _one("Flatten", "flatten_param { axis: 2 end_axis: 3 }"),
    "reshape": _one("Reshape", "reshape_param { shape { dim: 0 dim: 3 dim: -1 dim: 13 } }"),
    "reshape_part": _one(
        "Reshape", "reshape_param { axis: 1 num_axes: 2 shape { dim: 2 dim: 33 } }"
    ),
    "permute": _one("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }"),
    "tile": _one("Tile", "tile_param { axis: 1 tiles: 2 }", judged=False),
    "reduction": _one("Reduction", "reduction_param { operation: SUMSQ axis: 1 }", judged=False),
    "shuffle": _one("ShuffleChannel", "shuffle_channel_param { group: 3 }"),
    "dropout": CaffeCase(
        layer_text("ReLU", tops="d")
        + layer_text("Dropout", bottoms="d", tops="d")
        + layer_text("Power", "power_param { shift: 1 }", bottoms="d"),
    ),
    "sum": CaffeCase(
        layer_text("Eltwise", "eltwise_param { coeff: 1 coeff: -0.5 }", "x z"), inputs=TWO
    ),
    "product": CaffeCase(
        layer_text("Eltwise", "eltwise_param { operation: PROD }", "x z"), inputs=TWO
    ),
    "largest": CaffeCase(
        layer_text("Eltwise", "eltwise_param { operation: MAX }", "x z"), inputs=TWO
    ),
    "concat": CaffeCase(
        layer_text("Concat", bottoms="x z"), inputs={"x": IMAGE, "z": (2, 3, 11, 13)}
    ),
    "slice": CaffeCase(
        layer_text("Slice", "slice_param { axis: 1 slice_point: 1 slice_point: 4 }", tops="a b c")
        + layer_text("Concat", bottoms="c a b"),
    ),
    "crop": CaffeCase(
        layer_text("Crop", "crop_param { axis: 2 offset: 2 offset: 1 }", "x z"),
        inputs={"x": IMAGE, "z": (2, 6, 7, 5)},
    ),
    "normalize": CaffeCase(
        layer_text("Normalize", "norm_param { across_spatial: false channel_shared: false }"),
        {"y": [(6,)]},
        judged=False,
    ),
    "interp": _one("Interp", "interp_param { height: 21 width: 25 }"),
    "interp_zoom": _one("Interp", "interp_param { zoom_factor: 2 }"),
    "prior_box": CaffeCase(
        layer_text("PriorBox", PRIOR, bottoms="x z"),
        inputs={"x": (1, 4, 3, 5), "z": (1, 3, 24, 40)},
    ),
    "detection": CaffeCase(
        DETECTOR,
        inputs={
            "x": (1, 3, 24, 40),
            "f": (1, 2, 3, 5),
            "loc": (1, 15 * 6 * 4),
            "conf": (1, 15 * 6 * 3),
        },
    ),
}
