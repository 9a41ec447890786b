"""WritableModel: a graph and how its values are stored, for formats that can be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.graph import Graph
from fourfold.graph.metadata import ModelMetadata
from fourfold.types import DType, Quantization, Shape


@dataclass(frozen=True)
class StoredAs:
    """How a file stores a value that is float32 in the graph.

    With `quantization`, as integers of type `dtype`; without it, as float16.
    """

    dtype: DType
    quantization: Quantization | None = None


@dataclass(frozen=True)
class WritableModel:
    """A model to be written.

    The nodes of `graph` have no tails, and its floats are F32. `stored` has constants and values
    that are stored differently from the graph. A writer inserts conversions where two storage forms
    meet. Inputs and outputs in `stored` are integers for the caller, others are floats.
    `open_sizes` has the sizes of each input with -1 for dynamic ones, () for an input without; if
    it is empty, no size is dynamic. `metadata` is written as far as the format supports it.
    `for_viewers` selects output for model viewers, with the types of intermediate values.
    """

    graph: Graph
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    stored: Mapping[str, StoredAs] = field(default_factory=dict)
    description: str = ""
    open_sizes: tuple[Shape, ...] = ()
    metadata: ModelMetadata = field(default_factory=ModelMetadata)
    for_viewers: bool = False
