"""Model: the result of reading a file of any format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from fourfold.errors import Refusal
from fourfold.graph import Graph
from fourfold.graph.metadata import ModelMetadata, Signature
from fourfold.plan.tensor_binding import TensorId
from fourfold.types import DType, Quantization, Shape

_FORMS = ("stored", "real", "out")  # suffixes of values that are another form of a tensor


class SourceGraph(Protocol):
    """The main graph as stored in the file, so that parts of it can run in the format's CPU engine.

    A unit is one operator of the file. A format overrides the defaults here if its units share
    state, if nodes are named differently from their units, or if values are stored quantized.
    """

    @property
    def titles(self) -> Mapping[str, str]:
        """Return the units of the graph, each with its operator type: 'CONV_2D'."""

    @property
    def states(self) -> Mapping[str, tuple[str, ...]]:
        """Return the units that share state, each with the names of its states."""
        return {}

    @property
    def content(self) -> bytes:
        """Return the whole file, or an equivalent one for calling this graph."""

    @property
    def values(self) -> Mapping[str, TensorId]:
        """Return the tensors of the file by name."""

    def reads(self, unit: str) -> tuple[str, ...]:
        """Return the values that a unit reads and that are not constants of the file."""

    def writes(self, unit: str) -> tuple[str, ...]:
        """Return the values that a unit writes."""

    def tensor(self, value: str) -> TensorId | None:
        """Return the tensor of a value in the file; None for a value that only the graph has.

        Copies for outputs and values of another element type map to the original tensor.
        """
        base, _, ending = value.rpartition("/")
        return self.values.get(value, self.values.get(base) if ending in _FORMS else None)

    def grid(self, value: str) -> tuple[Quantization, DType] | None:
        """Return scale and integer type of a value that is stored quantized; None if it is not."""
        return None

    def rounds(self, unit: str) -> bool:
        """Return True if the CPU engine quantizes float inputs of a unit with integer weights."""
        return False

    def flaw(self, unit: str) -> str:
        """Return why the CPU engine must not read a unit, since the file is damaged; '' if it may.

        Only for engines that trust their files.
        """
        return ""

    def unit(self, node: str) -> str:
        """Return the unit that a node of this name belongs to."""
        return node

    def write(
        self,
        units: Sequence[str],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> bytes:
        """Return a file with only these units, with these inputs and outputs."""


@dataclass(frozen=True)
class Model:
    """The main graph of a file, and the file's other content.

    `input_names` and `output_names` are those of the main graph, in its order; a repeated name gets
    a number: 'x', 'x:1'. `open_sizes` has the sizes of each input with -1 for dynamic ones, or ()
    if none is. `graphs` are all graphs, indexed as in the file; None for one that cannot run, with
    the reason in `refusals`. `source_graph` is None if the format has no CPU engine. The format's
    name and CPU engine come from its `Format`. `holds_variables`: resource variables became
    states of the graph, which only a model that runs whole on the device can use. `read_metadata`
    reads the model's metadata.
    """

    main: Graph
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    open_sizes: tuple[Shape, ...] = ()
    graphs: tuple[Graph | None, ...] = ()
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    description: str = ""
    read_metadata: Callable[[], ModelMetadata] = ModelMetadata
    refusals: tuple[Refusal, ...] = ()
    source_graph: SourceGraph | None = None
    format: str = ""
    cpu_engine: str | None = None
    holds_variables: bool = False

    @cached_property
    def metadata(self) -> ModelMetadata:
        """Return the metadata of the model; it is read on first access."""
        return self.read_metadata()
