"""Custom operators: registered ones, and detection post-processing."""

from __future__ import annotations

import numpy as np
from flatbuffers import flexbuffers

from fourfold.formats.tflite.write_graph.detections import result_shapes
from fourfold.formats.tflite.write_graph.draft import Tensor
from fourfold.formats.tflite.write_graph.node_writer import NodeWriter
from fourfold.formats.tflite.write_graph.rule import writes
from fourfold.ops.custom import Custom
from fourfold.ops.detection import Detection
from fourfold.types import DType, TensorType


@writes("custom")
def custom(to: NodeWriter) -> None:
    """The operator under its own name, with its own options."""
    a = to.attributes(Custom)
    outputs = [to.output_tensor(index) for index in range(len(to.node.outputs))]
    inputs = [to.optional(index) for index in range(len(to.node.inputs))]
    to.draft.custom_operator(a.name, inputs, outputs, a.options)
    for index, tensor in enumerate(outputs):
        to.give_tensor(tensor, index)


@writes("detection")
def detection(to: NodeWriter) -> None:
    """TFLite_Detection_PostProcess; readers of the whole table get its outputs as columns."""
    a = to.attributes(Detection)
    as_table = len(to.node.outputs) == 1
    shapes = result_shapes(a).values()
    results = [
        to.temporary("detection", TensorType(DType.F32, shape))
        if as_table
        else to.output_tensor(index)
        for index, shape in enumerate(shapes)
    ]
    to.draft.custom_operator(
        "TFLite_Detection_PostProcess", to.all_inputs(), results, _detection_options(a)
    )
    if as_table:
        _give_table(to, a, results)
        return
    for index, tensor in enumerate(results):
        to.give_tensor(tensor, index)


def _give_table(to: NodeWriter, a: Detection, results: list[Tensor]) -> None:
    rows = a.rows
    columns = [
        to.reshaped(one, (rows, width)) for one, width in zip(results, (4, 1, 1), strict=False)
    ]
    columns.append(to.constant(np.ones((rows, 1), np.float32), "exists"))
    table = to.step("CONCATENATION", columns, (rows, 7), axis=1)
    # The operator counts boxes, each of which may have rows for several classes.
    each = 1 if a.by_class else min(a.classes_per_box, a.classes)
    numbers = to.constant((np.arange(rows) // each).astype(np.float32)[:, None], "numbers")
    exists = to.step("LESS", [numbers, results[3]], (rows, 1), DType.BOOL)
    empty = to.constant(np.zeros((rows, 7), np.float32), "nothing")
    to.give("SELECT_V2", [exists, table, empty])


def _detection_options(a: Detection) -> bytes:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Int("max_detections", a.most)
        builder.Int("max_classes_per_detection", a.classes_per_box)
        builder.Int("detections_per_class", a.boxes_per_class)
        builder.Bool("use_regular_nms", a.by_class)
        builder.Float("nms_score_threshold", a.score)
        builder.Float("nms_iou_threshold", a.overlap)
        builder.Int("num_classes", a.classes)
        for axis, scale in zip("yxhw", a.scales, strict=True):
            builder.Float(f"{axis}_scale", scale)
    return bytes(builder.Finish())
