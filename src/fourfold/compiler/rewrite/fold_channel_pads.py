"""p = pad(x), zeros after its channels; y = add(a, p)  ->  y = add_channels(a, x).

All readers of p must be such additions.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.graph import NONE, Graph, Node
from fourfold.ops.pad import Pad


def fold_channel_pads(graph: Graph) -> Graph:
    folded: dict[str, Node] = {}
    gone: set[str] = set()
    for pad in graph.nodes:
        readers = _additions(graph, pad, folded)
        if readers:
            gone.add(pad.outputs[0])
            folded.update((reader.outputs[0], reader) for reader in readers)
    kept = (node for node in graph.nodes if not gone.intersection(node.outputs))
    return graph.with_nodes(tuple(folded.get(node.outputs[0], node) for node in kept))


def _additions(graph: Graph, pad: Node, folded: dict[str, Node]) -> list[Node]:
    """Return all readers of a pad as additions without it; empty unless all of them can be."""
    if not _is_behind_channels(graph, pad) or graph.is_output(pad.outputs[0]):
        return []
    name, additions = pad.outputs[0], []
    for reader in graph.readers.get(name, ()):
        others = [other for other in reader.inputs if other != name]
        fits = (
            reader.op == "add"
            and not reader.tail
            and reader.outputs[0] not in folded
            and len(others) == 1
            and graph.types[str(others[0])] == graph.types[name]
        )
        if not fits:
            return []
        inputs = (others[0], pad.inputs[0])
        additions.append(replace(reader, op="add_channels", attributes=NONE, inputs=inputs))
    return additions


def _is_behind_channels(graph: Graph, pad: Node) -> bool:
    attributes = pad.attributes
    if not isinstance(attributes, Pad) or pad.tail or attributes.value != 0.0:
        return False
    elsewhere = any(attributes.before) or any(attributes.after[:-1])
    return not elsewhere and graph.types[str(pad.inputs[0])].channels > 1
