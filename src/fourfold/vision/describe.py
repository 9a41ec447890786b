"""Describe a model that was read as a session on it would be described."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fourfold.compiler.input_ranges import input_ranges
from fourfold.formats import Model
from fourfold.graph.metadata import tensor_at
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.vision.meaning import DescribedModel


def describe_model(model: Model, title: str = "") -> DescribedModel:
    """Return the same inputs, outputs and metadata as a session on this model.

    Args:
        model: A model that was read from a file.
        title: Name of the file.
    """
    graph, metadata = model.main, model.metadata
    sides = (
        (model.input_names, graph.arguments, metadata.inputs),
        (model.output_names, graph.results, metadata.outputs),
    )
    inputs, outputs = (
        tuple(
            TensorInfo(
                name,
                graph.types[value].shape,
                graph.types[value].dtype.array_dtype,
                graph.quantization.get(value),
                read_metadata=partial(tensor_at, tensors, index),
            )
            for index, (name, value) in enumerate(zip(names, values, strict=True))
        )
        for names, values, tensors in sides
    )
    metadata = replace(metadata, input_ranges=input_ranges(model))
    return DescribedModel(inputs, outputs, metadata, title)
