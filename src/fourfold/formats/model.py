"""Model: what a reader of any format gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from fourfold.errors import Refusal
from fourfold.graph import Graph
from fourfold.metadata import ModelMetadata, Signature
from fourfold.plan.tensor_binding import TensorId
from fourfold.types import DType, Quantization, Shape

_FORMS = ("stored", "real", "out")  # endings of values that are a tensor in another form


class SourceGraph(Protocol):
    """The main graph as the file has it, so that parts of it can run in the format's CPU engine.

    A unit is one operator of the file. A format says so where its units share something, where
    nodes have other names than their units, and where values are stored otherwise than graphs see
    them: what it has nothing to say of stands here.
    """

    @property
    def titles(self) -> Mapping[str, str]:
        """The units of the graph, each with the operator as people know it: 'CONV_2D'."""

    @property
    def states(self) -> Mapping[str, tuple[str, ...]]:
        """The units that share something which outlives them, each with what it shares."""
        return {}

    @property
    def content(self) -> bytes:
        """All of the file, or one that is the same for who calls this graph."""

    @property
    def values(self) -> Mapping[str, TensorId]:
        """The tensors of the file by name."""

    def reads(self, unit: str) -> tuple[str, ...]:
        """The values that a unit needs and that the file does not hold itself."""

    def writes(self, unit: str) -> tuple[str, ...]:
        """The values that a unit gives."""

    def tensor(self, value: str) -> TensorId | None:
        """The value's tensor in the file; None for a value that only the graph has. Copies for
        outputs and values of another element type stand for the tensor that they are of.
        """
        whole, _, ending = value.rpartition("/")
        return self.values.get(value, self.values.get(whole) if ending in _FORMS else None)

    def grid(self, value: str) -> tuple[Quantization, DType] | None:
        """How the file keeps a value that graphs see as real numbers: scale and integer type."""
        return None

    def rounds(self, unit: str) -> bool:
        """Whether the file's own engine rounds what a unit reads: floats beside integer weights."""
        return False

    def unit(self, node: str) -> str:
        """The unit that nodes of this name belong to."""
        return node

    def write(
        self,
        units: Sequence[str],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> bytes:
        """A file with these units alone, which gets and gives these values."""


@dataclass(frozen=True)
class Model:
    """The main graph of a file, and what else the file says.

    `input_names` and `output_names` belong to the main graph, in its order, as the file gives them;
    a name that comes again gets a number: 'x', 'x:1'. `open_sizes` are the sizes of each of its
    inputs with -1 where the file leaves one open, () where it leaves none. `graphs` are all graphs,
    indexed as in the file; None where one cannot run here, for which `refusals` have the reason.
    `source_graph` is None where the format has no CPU engine. The format's name and CPU engine
    come from its `Format`. `holds_variables` says that resource variables became states of the
    graph, which only a model that runs whole on the device can use. `read_metadata` reads what the
    file says of the model for people.
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
        """What the model says of itself; read when it is asked for."""
        return self.read_metadata()
