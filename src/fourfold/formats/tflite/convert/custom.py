"""Common custom operators: MediaPipe's, and the post-processing of detectors."""

from __future__ import annotations

import struct

from flatbuffers import flexbuffers

from fourfold.formats.tflite.operation import Operation, converts
from fourfold.ops.base.rules import Reduce
from fourfold.ops.base.window import NO_PADDING, Padding, Pair, Pool2d, same
from fourfold.ops.detection import Detection
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.ops.transpose_conv2d import TransposeConv2d

# MediaPipe writes the runtime's structs, whose padding numbers are one above the schema's.
_PADDINGS = {1: "SAME", 2: "VALID"}
_MARK = 0.1  # added to indices stored as floats, so that truncation cannot round them down
_MAX_OPTION = 2**20


def _struct(op: Operation, count: int) -> tuple[int, ...]:
    """Return the first numbers of a raw options struct."""
    raw = op.record.custom_options.tobytes()
    if len(raw) < 4 * count:
        raise ValueError(f"its options have {len(raw)} bytes, expected {4 * count}")
    numbers = struct.unpack_from(f"<{count}i", raw)
    if numbers[0] not in _PADDINGS or not all(0 < number < _MAX_OPTION for number in numbers[1:]):
        raise ValueError(f"its options {numbers} are not valid")
    return numbers


def _image(op: Operation, index: int) -> Pair:
    shape = op.input_type(index).shape
    if len(shape) != 4:
        raise ValueError(f"input {index} has rank {len(shape)}, not 4")
    return shape[1], shape[2]


def _same(sizes: Pair, filter: Pair, stride: Pair) -> Padding:
    (top, bottom), (left, right) = (same(sizes[i], filter[i], stride[i]) for i in (0, 1))
    return Padding(top, bottom, left, right)


@converts("CUSTOM Convolution2DTransposeBias", weights=True)
def transpose_bias(op: Operation) -> None:
    """transpose_conv2d with its bias."""
    padding, across, down = _struct(op, 3)
    image, weights = _image(op, 0), op.weights(1)
    filter = op.type_of(weights).shape[1:3]
    if op.type_of(weights).rank != 4:
        raise ValueError("its filter does not have rank 4")
    sizes = [
        size * step if _PADDINGS[padding] == "SAME" else (size - 1) * step + reach
        for size, step, reach in zip(image, (down, across), filter, strict=True)
    ]
    size, stride = (sizes[0], sizes[1]), (down, across)
    around = NO_PADDING
    if _PADDINGS[padding] == "SAME":
        around = _same(size, (filter[0], filter[1]), stride)
    op.give(
        "transpose_conv2d",
        op.input(0),
        weights,
        op.optional_weights(2),
        attributes=TransposeConv2d(stride, around, size),
    )


def _pool(op: Operation) -> tuple[str, Pair, Pair, int]:
    padding, across, down, wide, tall = _struct(op, 5)
    raw = op.record.custom_options.tobytes()
    activation = struct.unpack_from("<i", raw, 20)[0] if len(raw) >= 24 else 0
    return _PADDINGS[padding], (tall, wide), (down, across), activation


@converts("CUSTOM MaxPoolingWithArgmax2D")
def max_pool_index(op: Operation) -> None:
    """max_pool2d, and max_pool2d_index for the second output."""
    kind, filter, stride, activation = _pool(op)
    padding = _same(_image(op, 0), filter, stride) if kind == "SAME" else NO_PADDING
    attributes = Pool2d(filter, stride, padding)
    op.give("max_pool2d", op.input(0), attributes=attributes, activation=activation)
    index = op.add("max_pool2d_index", op.input(0), attributes=attributes, part="index")
    op.give("add", index, op.add_constant(_MARK, "mark"), output=1)


@converts("CUSTOM MaxUnpooling2D")
def max_unpool(op: Operation) -> None:
    """max_unpool2d."""
    _, filter, stride, _ = _pool(op)
    pads = [
        max((size - 1) * step + reach - size * reach, 0) // 2
        for size, step, reach in zip(_image(op, 0), stride, filter, strict=True)
    ]
    attributes = Pool2d(filter, stride, Padding(pads[0], 0, pads[1], 0))
    op.give("max_unpool2d", op.input(0), op.input(1), attributes=attributes)


@converts("CUSTOM TFLite_Detection_PostProcess", weights=True)
def detection_post_process(op: Operation) -> None:
    """detection, with its columns sliced into the four outputs."""
    if len(op.outputs) != 4:
        raise ValueError(f"it has {len(op.outputs)} outputs, not 4")
    attributes = _detection(op)
    detections = op.add(
        "detection", op.input(0), op.input(1), op.weights(2), attributes=attributes, part="found"
    )
    rows = attributes.rows
    parts = ((0, 4, (1, rows, 4)), (4, 1, (1, rows)), (5, 1, (1, rows)))
    for output, (first, count, shape) in enumerate(parts):
        box = Slice((0, first), (rows, count), (1, 1))
        part = op.add("slice", detections, attributes=box, part=f"part{output}")
        op.give("reshape", part, attributes=Reshape(shape), output=output)
    exists = op.add("slice", detections, attributes=Slice((0, 6), (rows, 1), (1, 1)), part="exists")
    op.give("sum", exists, attributes=Reduce((0,), keep_dims=False), output=3)


def _detection(op: Operation) -> Detection:
    raw = op.record.custom_options.tobytes()
    try:
        options = flexbuffers.GetRoot(raw).AsMap
        scales = tuple(float(options[f"{axis}_scale"].AsFloat) for axis in "yxhw")
        return Detection(
            most=int(options["max_detections"].AsInt),
            classes=int(options["num_classes"].AsInt),
            score=float(options["nms_score_threshold"].AsFloat),
            overlap=float(options["nms_iou_threshold"].AsFloat),
            scales=(scales[0], scales[1], scales[2], scales[3]),
            classes_per_box=int(options["max_classes_per_detection"].AsInt),
            boxes_per_class=_number(options, "detections_per_class", 100),
            by_class=bool(_number(options, "use_regular_nms", 0)),
        )
    except (ValueError, TypeError, LookupError, struct.error, RecursionError) as error:
        raise ValueError(f"its options cannot be read: {error}") from error


def _number(options: flexbuffers.Map, key: str, default: int) -> int:
    """Return an option, or the default if it is missing."""
    is_set = key in {item.AsKey for item in options.Keys}
    return int(options[key].AsInt) if is_set else default
