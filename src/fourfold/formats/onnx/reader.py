"""Reads an ONNX file into a Model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

from fourfold.formats.budget import Budget
from fourfold.formats.conversion import ON_THE_CPU, SEE_OPS, report_damage, unsupported
from fourfold.formats.inputs import OPEN, open_sizes
from fourfold.formats.model import Model
from fourfold.formats.names import printable, short_properties, unique
from fourfold.formats.onnx.convert import rules
from fourfold.formats.onnx.file import FileRecord, read_file
from fourfold.formats.onnx.main_graph import convert_graph
from fourfold.formats.onnx.source_graph import OnnxSourceGraph
from fourfold.formats.onnx.tensors import ExternalFiles
from fourfold.formats.options import ReadOptions
from fourfold.formats.rule_table import summary
from fourfold.formats.source import ModelSource
from fourfold.graph.metadata import ModelMetadata


def read(source: ModelSource, options: ReadOptions) -> Model:
    """Read the model; ONNX has one graph and no signatures."""
    options.refuse_signature("ONNX")
    folder = None if source.path is None else os.path.dirname(os.path.abspath(source.path))
    files = ExternalFiles(folder)
    with report_damage(source.title, "ONNX model", RecursionError):
        file = read_file(source.content)
        converted = convert_graph(file, files, options, Budget.of(len(source.content)))
    if converted.graph is None:
        fix = f"{ON_THE_CPU}; {SEE_OPS}"
        raise unsupported(source.title, converted.refusals, fix)
    input_sizes = {value.name: value.sizes or () for value in file.graph.inputs}
    sizes = [
        tuple(size if isinstance(size, int) else OPEN for size in input_sizes[name])
        for name in converted.graph.arguments
    ]
    return Model(
        main=converted.graph,
        input_names=converted.graph.arguments,
        output_names=unique(value.name for value in file.graph.outputs),
        open_sizes=tuple(open_sizes(one) for one in sizes),
        graphs=(converted.graph,),
        description=file.description or file.producer,
        read_metadata=partial(_metadata, file),
        source_graph=OnnxSourceGraph(source.content, file, files, converted),
    )


def _metadata(file: FileRecord) -> ModelMetadata:
    properties = {"producer": file.producer} if file.producer else {}
    return ModelMetadata(
        name=printable(file.graph.name),
        description=printable(file.description),
        version=str(file.version or ""),
        properties=short_properties({**properties, **file.metadata}),
    )


def operators() -> Mapping[str, str]:
    return {op: summary(convert) for op, convert in rules().items()}
