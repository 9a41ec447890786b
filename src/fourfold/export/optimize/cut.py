"""Cut a model at named values: drop what lies before its inputs or after its outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fourfold.errors import InputError, nearest
from fourfold.formats import Model
from fourfold.graph import Graph, Node
from fourfold.graph.metadata import ModelMetadata, TensorMetadata

_MAX_LIST_CHARS = 200  # of a list of names in a message
_NAMES = "values have the names of the model file"


def cut_model(model: Model, inputs: Sequence[str], outputs: Sequence[str]) -> Model:
    """Return the part of a model between these values; by default its own inputs or outputs."""
    if not inputs and not outputs:
        return model
    names = known_values(model)
    starts = {_find(name, names, "input"): name for name in inputs}
    _check_starts(model.main, starts)
    stops = {_find(name, names, "output"): name for name in outputs}
    if not stops:
        stops = dict(zip(model.main.results, model.output_names, strict=True))
    part = _Part.of(model.main, frozenset(starts), tuple(stops))
    left = [name for name in model.main.arguments if name in part.needed and name not in starts]
    _check_use(model, starts, left, part)
    own = dict(zip(model.main.arguments, model.input_names, strict=True))
    ports = {**starts, **{name: own[name] for name in left}}
    sizes = dict(zip(model.main.arguments, model.open_sizes, strict=False))
    return replace(
        model,
        main=part.graph(tuple(ports), tuple(stops)),
        input_names=tuple(ports.values()),
        output_names=tuple(stops.values()),
        open_sizes=tuple(sizes.get(name, ()) for name in ports) if sizes else (),
        read_metadata=lambda: _described(model, tuple(ports), tuple(stops)),
    )


def _described(model: Model, inputs: Sequence[str], outputs: Sequence[str]) -> ModelMetadata:
    """Return the metadata of the remaining inputs and outputs, in their new order."""
    metadata, graph = model.metadata, model.main
    tensors = dict(zip(graph.arguments, metadata.inputs, strict=False))
    tensors |= dict(zip(graph.results, metadata.outputs, strict=False))
    parts = [
        tuple(tensors.get(name, TensorMetadata()) for name in names) for names in (inputs, outputs)
    ]
    return replace(metadata, inputs=parts[0], outputs=parts[1])


def known_values(model: Model) -> Mapping[str, str]:
    """Return the values that a caller can name: those of the file, and the model's inputs and
    outputs.
    """
    graph, source = model.main, model.source_graph
    names = graph.types if source is None else source.values
    own = {name: name for name in names if name in graph.types}
    own |= dict(zip(model.output_names, graph.results, strict=True))
    return own | dict(zip(model.input_names, graph.arguments, strict=True))


def _find(name: str, names: Mapping[str, str], kind: str) -> str:
    if name not in names:
        what = f"there is no value '{name}' to cut the model at as an {kind}"
        fix = nearest(name, names)
        if len(fix) > _MAX_LIST_CHARS:  # no similar name, so all are listed
            start = fix[:_MAX_LIST_CHARS]
            fix = f"{start}…: 'fourfold explain MODEL --stage graph' shows all {len(names)}"
        raise InputError(what, _NAMES, fix)
    return names[name]


def _check_starts(graph: Graph, starts: Mapping[str, str]) -> None:
    for value, name in starts.items():
        if value in graph.constants:
            why = "it is a constant of the file"
            raise InputError(f"'{name}' cannot be an input", why, "name a computed value")


def _check_use(model: Model, starts: Mapping[str, str], left: Sequence[str], part: _Part) -> None:
    unused = [name for value, name in starts.items() if value not in part.needed]
    if unused:
        what = f"input '{unused[0]}' is not needed"
        raise InputError(what, "no output depends on it", "leave it out of the inputs")
    if starts and left:
        names = dict(zip(model.main.arguments, model.input_names, strict=True))
        missing = ", ".join(f"'{names[name]}'" for name in left)
        what, why = "these inputs do not cut the model", f"its outputs still need {missing}"
        raise InputError(what, why, f"add {missing} to the inputs, or cut further down")


@dataclass(frozen=True)
class _Part:
    """The nodes that compute some values, and all values that these need."""

    full: Graph
    nodes: tuple[Node, ...]
    needed: frozenset[str]

    @staticmethod
    def of(graph: Graph, starts: Collection[str], stops: Sequence[str]) -> _Part:
        needed, count = set(stops), -1
        nodes: list[Node] = []
        while count != len(needed):  # a state's next value is needed once the state is
            count = len(needed)
            nodes = []
            for node in reversed(graph.nodes):
                if any(name in needed and name not in starts for name in node.outputs):
                    nodes.append(_without(node, starts))
                    needed.update(node.reads)
            needed.update(after for state, after in graph.states.items() if state in needed)
        return _Part(graph, tuple(reversed(nodes)), frozenset(needed))

    def graph(self, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        kept = {name: after for name, after in self.full.states.items() if name in self.needed}
        types = dict(self.full.types)
        for node in self.nodes:
            for name in node.outputs:
                types.setdefault(name, self.full.types[name.removesuffix(_UNUSED)])
        return self.full.with_nodes(
            self.nodes,
            types=types,
            inputs=(*inputs, *kept),
            outputs=(*outputs, *(name for name in kept.values() if name not in outputs)),
            states=kept,
            starts={name: array for name, array in self.full.starts.items() if name in kept},
        )


_UNUSED = "/beside"  # suffix of a result that is not read, since an input has its name


def _without(node: Node, starts: Collection[str]) -> Node:
    outputs = tuple(f"{name}{_UNUSED}" if name in starts else name for name in node.outputs)
    return replace(node, outputs=outputs)
