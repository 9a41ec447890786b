"""WritableModel: a graph and how a file is to keep its values, for formats that are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.graph import Graph
from fourfold.metadata import ModelMetadata
from fourfold.types import DType, Quantization, Shape


@dataclass(frozen=True)
class StoredAs:
    """How a file keeps a value that the graph has as real numbers: as halves, without
    `quantization`, or as integers that stand for them.
    """

    dtype: DType
    quantization: Quantization | None = None


@dataclass(frozen=True)
class WritableModel:
    """What a writer is given. The nodes of `graph` have no tails, and its floats are F32.

    `stored` names constants and values alike. A value that is not there is kept as the graph has
    it. A writer puts whatever conversions its format needs where two ways to keep a value meet.
    Inputs and outputs that are in `stored` are integers for the caller, others are floats.
    `open_sizes` are the sizes of each input with -1 where the file is to leave one open, () where
    it leaves none; without them, it leaves none at all. `metadata` are what the file is to say of
    the model, as far as its format can. `to_look_at` says that it is for viewers,
    which show the types of values between nodes where the file has them.
    """

    graph: Graph
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    stored: Mapping[str, StoredAs] = field(default_factory=dict)
    description: str = ""
    open_sizes: tuple[Shape, ...] = ()
    metadata: ModelMetadata = field(default_factory=ModelMetadata)
    to_look_at: bool = False
