"""Custom operators: registered ones, and detection post-processing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from flatbuffers import flexbuffers

from fourfold.formats.tflite.write_graph.draft import Tensor
from fourfold.formats.tflite.write_graph.node_writer import NodeWriter, writes
from fourfold.graph import Graph, Node
from fourfold.ops.custom import Custom
from fourfold.ops.detection import Detection
from fourfold.ops.slice import Slice
from fourfold.types import DType, Shape, TensorType


def result_shapes(attributes: Detection) -> Mapping[int, Shape]:
    """Return the shapes of the four results, by their first column in the table."""
    rows = attributes.rows
    return {0: (1, rows, 4), 4: (1, rows), 5: (1, rows), 6: (1,)}


def split_tables(graph: Graph) -> Graph:
    """Return the graph with four results for each detection whose table has no other readers.

    These are the results of TFLite's operator: boxes, classes, scores and count. Rows beyond the
    count are zeros in the table, but undefined in LiteRT's results.
    """
    removed: set[str] = set()  # first outputs of nodes that only slice a table
    split: dict[str, tuple[str, ...]] = {}
    types = dict(graph.types)
    for node in graph.nodes:
        results = _results(graph, node) if isinstance(node.attributes, Detection) else None
        if results is None or not isinstance(node.attributes, Detection):
            continue
        (table,) = node.outputs
        names = []
        for column, shape in result_shapes(node.attributes).items():
            path = results.get(column, ())
            removed.update(path)
            names.append(path[-1] if path else f"{table}/column {column}")
            types[names[-1]] = TensorType(DType.F32, shape)
        split[table] = tuple(names)
    if not split:
        return graph
    nodes = (
        replace(node, outputs=split.get(node.outputs[0], node.outputs))
        for node in graph.nodes
        if node.outputs[0] not in removed
    )
    return replace(graph, nodes=tuple(nodes), types=types)


def _results(graph: Graph, node: Node) -> Mapping[int, tuple[str, ...]] | None:
    """Return the values from the table to each result; None if the table has other uses."""
    (table,) = node.outputs
    assert isinstance(node.attributes, Detection)
    shapes, paths = result_shapes(node.attributes), {}
    for reader in graph.readers.get(table, ()):
        box = reader.attributes
        column = box.begin[1] if isinstance(box, Slice) else -1
        if column not in shapes or column in paths:
            return None
        path = tuple(_path(graph, reader, shapes[column]))
        if not path or graph.types[path[-1]].shape != shapes[column]:
            return None
        paths[column] = path
    return None if graph.is_output(table) else paths


def _path(graph: Graph, node: Node, shape: Shape) -> Iterator[str]:
    """Yield the values after a slice, up to its result."""
    while True:
        (value,) = node.outputs
        yield value
        readers = graph.readers.get(value, ())
        if graph.types[value].shape == shape or graph.is_output(value) or len(readers) != 1:
            return
        node = readers[0]
        if node.op not in ("reshape", "sum"):
            return


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
