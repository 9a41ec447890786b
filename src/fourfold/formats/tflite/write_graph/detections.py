"""t = detection(..); boxes, classes, scores, count = columns of t, each in its own shape
->  boxes, classes, scores, count = detection(..)

The four results are what TFLite's operator gives, and what others who read such files look for.
Rows beyond the count are zeros in the table, and whatever was in memory in LiteRT's results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fourfold.graph import Graph, Node
from fourfold.ops.detection import Detection
from fourfold.ops.slice import Slice
from fourfold.types import DType, Shape, TensorType


def result_shapes(attributes: Detection) -> Mapping[int, Shape]:
    """The shapes of the four results, by the first column of the table that has them."""
    rows = attributes.rows
    return {0: (1, rows, 4), 4: (1, rows), 5: (1, rows), 6: (1,)}


def split_tables(graph: Graph) -> Graph:
    """The same graph with four results for each detection whose table only they read."""
    gone: set[str] = set()  # first outputs of nodes that only cut a table
    whole: dict[str, tuple[str, ...]] = {}
    types = dict(graph.types)
    for node in graph.nodes:
        found = _results(graph, node) if isinstance(node.attributes, Detection) else None
        if found is None or not isinstance(node.attributes, Detection):
            continue
        (table,) = node.outputs
        names = []
        for column, shape in result_shapes(node.attributes).items():
            path = found.get(column, ())
            gone.update(path)
            names.append(path[-1] if path else f"{table}/column {column}")
            types[names[-1]] = TensorType(DType.F32, shape)
        whole[table] = tuple(names)
    if not whole:
        return graph
    nodes = (
        replace(node, outputs=whole.get(node.outputs[0], node.outputs))
        for node in graph.nodes
        if node.outputs[0] not in gone
    )
    return replace(graph, nodes=tuple(nodes), types=types)


def _results(graph: Graph, node: Node) -> Mapping[int, tuple[str, ...]] | None:
    """For each column, the values from the table to the result; None where others read it."""
    (table,) = node.outputs
    assert isinstance(node.attributes, Detection)
    shapes, found = result_shapes(node.attributes), {}
    for reader in graph.readers.get(table, ()):
        box = reader.attributes
        column = box.begin[1] if isinstance(box, Slice) else -1
        if column not in shapes or column in found:
            return None
        path = tuple(_path(graph, reader, shapes[column]))
        if not path or graph.types[path[-1]].shape != shapes[column]:
            return None
        found[column] = path
    return None if table in graph.outputs else found


def _path(graph: Graph, node: Node, shape: Shape) -> Iterator[str]:
    """The values behind a cut, as far as nothing but a result is made of them."""
    while True:
        (value,) = node.outputs
        yield value
        readers = graph.readers.get(value, ())
        if graph.types[value].shape == shape or value in graph.outputs or len(readers) != 1:
            return
        node = readers[0]
        if node.op not in ("reshape", "sum"):
            return
