"""Graphs and times as JSON files for Model Explorer.

A file of graphs is a collection: the model as in its file, rewritten, and as the kernels of its
plan. Times of nodes are in a file of their own, which is opened together with it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from fourfold.compiler.compile import load_model, prepare_lowering
from fourfold.compiler.lower.specialise import specialise_for
from fourfold.compiler.lower.states import copy_states
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node
from fourfold.options import CompileOptions
from fourfold.plan import Launch
from fourfold.runtime.profile import KernelTime

GRAPH, REWRITTEN, PLAN = "graph", "graph rewritten", "plan"  # sorting by name sorts by stage
_GRADIENT = ((0.0, "#ffffff"), (0.5, "#ffd27f"), (1.0, "#e4572e"))
Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class ExploredModel:
    """A model at three stages; `launches` has those of each node of the plan, by its text."""

    name: str
    graphs: Mapping[str, Graph]
    launches: Mapping[str, Sequence[Launch]]

    def to_json(self) -> Json:
        """Return the collection of graphs."""
        graphs = [
            graph_json(graph, name, self._kernels(name)) for name, graph in self.graphs.items()
        ]
        return {"label": self.name, "graphs": graphs, "graphSorting": "name_asc"}

    def _kernels(self, name: str) -> Mapping[str, Sequence[Launch]]:
        return self.launches if name == PLAN else {}

    def times_json(self, times: Sequence[KernelTime]) -> Json:
        """Return the microseconds of the plan's kernels and of the nodes they came from."""
        waiting: defaultdict[str, deque[KernelTime]] = defaultdict(deque)
        for one in times:
            waiting[one.node].append(one)
        rewritten = {
            node_id(node): sum(one.seconds for one in waiting[str(node)])
            for node in self.graphs[REWRITTEN].nodes
            if str(node) in waiting
        }
        kernels = {
            kernel_id: waiting[str(node)].popleft().seconds
            for node in self.graphs[PLAN].nodes
            for kernel_id in kernel_ids(node, self.launches.get(str(node), ()))
            if waiting[str(node)]
        }
        return {REWRITTEN: _node_data(rewritten), PLAN: _node_data(kernels)}


def explore_model(
    model: str | bytes, name: str, device: DeviceInfo, options: CompileOptions
) -> ExploredModel:
    """Compile a model for a device, and return its graphs."""
    graph = load_model(model, options).graph
    lowering = prepare_lowering(graph, device, options)
    launches: defaultdict[str, list[Launch]] = defaultdict(list)
    for launch in lowering.plan().launches:
        launches[launch.node].append(launch)
    specialised = specialise_for(lowering.graph, lowering.device, lowering.options)
    lowered = copy_states(specialised.graph)
    return ExploredModel(name, {GRAPH: graph, REWRITTEN: lowering.graph, PLAN: lowered}, launches)


def node_id(node: Node) -> str:
    return node.outputs[0]


def kernel_ids(node: Node, launches: Sequence[Launch]) -> list[str]:
    """Return a name for each kernel of a node; the last has the node's own name, which is read."""
    count = len(launches)
    return [*(f"{node_id(node)} #{number}" for number in range(1, count)), node_id(node)]


def graph_json(graph: Graph, name: str, launches: Mapping[str, Sequence[Launch]]) -> Json:
    """Return one graph, whose nodes may be several kernels each."""
    sources = {value: (f"input {value}", 0) for value in graph.inputs}
    nodes = [_port_node(graph, "input", value) for value in graph.inputs]
    for node in graph.nodes:
        sources |= {value: (node_id(node), index) for index, value in enumerate(node.outputs)}
    for node in graph.nodes:
        nodes += _operator_nodes(graph, node, sources, launches.get(str(node), ()))
    for value in graph.outputs:
        end = _port_node(graph, "output", value)
        edges = [_edge(*sources[value], 0)] if value in sources else []
        # Without tensors, so that the viewer does not show node data of the producer here too.
        nodes.append(end | {"incomingEdges": edges, "outputsMetadata": []})
    return {"id": name, "nodes": nodes}


def _port_node(graph: Graph, kind: str, value: str) -> Json:
    name = f"{kind} {value}"
    head = {"id": name, "label": name, "namespace": ""}
    return {**head, "attrs": [], "incomingEdges": [], "outputsMetadata": [_tensor(graph, 0, value)]}


def _operator_nodes(
    graph: Graph,
    node: Node,
    sources: Mapping[str, tuple[str, int]],
    launches: Sequence[Launch],
) -> list[Json]:
    ids = kernel_ids(node, launches)
    name = node_id(node).partition(";")[0]  # TFLite joins the names of fused operators
    layer = name if len(ids) > 1 else name.rpartition("/")[0]
    read = [name for name in node.reads if name in sources]
    edges = [_edge(*sources[name], index) for index, name in enumerate(read)]
    results = [_tensor(graph, place, value) for place, value in enumerate(node.outputs)]
    nodes = []
    for number, own in enumerate(ids):
        attributes = _attributes(graph, node)
        if launches:
            attributes = _launch_attributes(launches[number]) | attributes
        nodes.append(
            {
                "id": own,
                "label": launches[number].entry if launches else node.op,
                "namespace": layer,
                "attrs": _pairs(attributes),
                "incomingEdges": edges if number == 0 else [_edge(ids[number - 1], 0, 0)],
                "outputsMetadata": results if number == len(ids) - 1 else [],
            }
        )
    return nodes


def _attributes(graph: Graph, node: Node) -> dict[str, str]:
    """Return the attributes of a node, its tail, and the constants that it reads."""
    texts = {"op": node.op, "name": node.name if node.name != node_id(node) else ""}
    attributes: Any = node.attributes
    texts |= {field.name: _text(getattr(attributes, field.name)) for field in fields(attributes)}
    if node.tail:
        texts["tail"] = " |> ".join(step.op for step in node.tail)
    constants = [name for name in node.reads if graph.is_constant(name)]
    types = (f"{graph.types[name]} {name}" for name in constants)
    return texts | {f"constant {index}": text for index, text in enumerate(types)}


def _text(value: Any) -> str:
    """Return an attribute as text; records as their fields."""
    if not is_dataclass(value):
        return str(value)
    return ", ".join(f"{one.name} {_text(getattr(value, one.name))}" for one in fields(value))


def _launch_attributes(launch: Launch) -> dict[str, str]:
    return {
        "kernel": launch.entry,
        "grid": "x".join(map(str, launch.grid)),
        "work-group": "x".join(map(str, launch.local)),
        "arguments": ", ".join(map(str, launch.arguments)),
    }


def _tensor(graph: Graph, place: int, value: str) -> Json:
    """Return a result with the keys that Model Explorer knows."""
    facts = {"tensor_name": value, "tensor_shape": str(graph.types[value])}
    quantization = graph.quantization.get(value)
    if quantization is not None:
        facts["quantization"] = str(quantization)
    return {"id": str(place), "attrs": _pairs(facts)}


def _edge(source: str, output: int, place: int) -> Json:
    ports = {"sourceNodeOutputId": str(output), "targetNodeInputId": str(place)}
    return {"sourceNodeId": source, **ports}


def _pairs(facts: Mapping[str, str]) -> list[Json]:
    return [{"key": key, "value": value} for key, value in facts.items() if value]


def _node_data(seconds: Mapping[str, float]) -> Json:
    results = {name: {"value": round(took * 1e6, 3)} for name, took in seconds.items()}
    gradient = [{"stop": stop, "bgColor": colour} for stop, colour in _GRADIENT]
    return {"name": "time in µs", "results": results, "gradient": gradient}
