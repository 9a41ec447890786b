"""Converts the main graph of an ONNX file: inputs, nodes and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from fourfold.errors import InputError, ModelError, Refusal
from fourfold.formats.budget import Budget
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.conversion import EXPORT_AGAIN
from fourfold.formats.inputs import ReadOptions
from fourfold.formats.onnx.file import FileRecord, GraphRecord, ValueRecord
from fourfold.formats.onnx.schema import NIBBLES
from fourfold.formats.onnx.scope import Scope, needed_nodes, read_names
from fourfold.formats.onnx.sizes import declare_input, open_inputs, settle_names
from fourfold.formats.onnx.tensors import ExternalFiles
from fourfold.formats.onnx.walk import Walk
from fourfold.graph import Graph
from fourfold.ops.cast import Cast
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class Converted:
    """The converted main graph and what is known about the file's values.

    `graph` is None if an operator was refused. `names` maps names of the file to values. `types`
    and `known` have all types and constants, including folded ones. `changed` has constants adapted
    to the caller's shapes. `float16_values` are values stored as float16; `unsized` are values
    whose are known only at run time.
    """

    graph: Graph | None
    names: Mapping[str, str]
    refusals: tuple[Refusal, ...]
    types: Mapping[str, TensorType]
    known: Mapping[str, np.ndarray]
    changed: Mapping[str, np.ndarray]
    float16_values: Set[str]
    unsized: Set[str]


def convert_graph(
    file: FileRecord, files: ExternalFiles, options: ReadOptions, budget: Budget
) -> Converted:
    """Convert the main graph of a file."""
    graph = file.graph
    builder, nodes = GraphBuilder(budget), needed_nodes(graph)
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    names = _all_names(graph, inputs)
    walk = Walk(
        builder,
        file=file,
        files=files,
        scope=Scope(graph.initializers, file.opsets, {name: builder.fresh(name) for name in names}),
        named=settle_names(inputs, options.shapes),
        values=graph.values,
        read=read_names(graph, nodes),
        keep_unsupported=options.keep_unsupported,
        quantized=options.quantized,
    )
    _take_inputs(walk, inputs, options)
    if builder.batch_factor != 1:
        own = convert_graph(file, files, replace(options, shapes={}), replace(budget))
        walk.own_types = own.types
    for number in nodes:
        walk.number = number
        walk.convert_node(graph.nodes[number])
    main = walk.result(graph)
    return Converted(
        main,
        walk.scope.names,
        tuple(walk.refusals),
        builder.types,
        builder.constants,
        walk.changed,
        walk.float16_values,
        walk.unsized,
    )


def _all_names(graph: GraphRecord, inputs: Sequence[ValueRecord]) -> Mapping[str, None]:
    """Return every name of the graph, so that new values do not use them."""
    names = dict.fromkeys(value.name for value in inputs)
    names.update(dict.fromkeys(graph.initializers))
    names.update(dict.fromkeys(name for node in graph.nodes for name in node.outputs if name))
    return names


def _take_inputs(walk: Walk, inputs: Sequence[ValueRecord], options: ReadOptions) -> None:
    declared = []
    for record in inputs:
        try:
            shape = options.shapes.get(record.name)
            declared.append(declare_input(record, walk.named, shape))
        except InputError as error:
            error.open_inputs = open_inputs(inputs)
            raise
        except ValueError as error:
            what = f"input '{record.name}' is not valid"
            raise ModelError(what, str(error), EXPORT_AGAIN) from error
    walk.take_inputs(declared, options)
    walk.nibbles.update(record.name for record in inputs if record.element in NIBBLES)
    for one in declared:
        if one.type.dtype is DType.F16:
            real = walk.builder.fresh(f"{one.name}/real")
            walk.builder.node("cast", (one.name,), Cast(DType.F32), real, real)
            walk.scope.names[one.name] = real
            walk.float16_values.add(real)
