"""Splits the table of a detection node into the four results of TFLite's operator.

    t = detection(..); boxes, classes, scores, count = columns of t, each in its own shape
->  boxes, classes, scores, count = detection(..)

Other readers of such files expect these four results. Rows beyond the count are zeros in the
table, but undefined in LiteRT's results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fourfold.graph import Graph, Node
from fourfold.ops.detection import Detection
from fourfold.ops.slice import Slice
from fourfold.types import DType, Shape, TensorType


def result_shapes(attributes: Detection) -> Mapping[int, Shape]:
    """Return the shapes of the four results, by their first column in the table."""
    rows = attributes.rows
    return {0: (1, rows, 4), 4: (1, rows), 5: (1, rows), 6: (1,)}


def split_tables(graph: Graph) -> Graph:
    """Return the graph with four results for each detection whose table has no other readers."""
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
    return None if table in graph.outputs else paths


def _path(graph: Graph, node: Node, shape: Shape) -> Iterator[str]:
    """Yield the values after a slice, up to its result."""
    while True:
        (value,) = node.outputs
        yield value
        readers = graph.readers.get(value, ())
        if graph.types[value].shape == shape or value in graph.outputs or len(readers) != 1:
            return
        node = readers[0]
        if node.op not in ("reshape", "sum"):
            return
