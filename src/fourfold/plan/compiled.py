"""CompiledModel: everything a runtime needs to run a model, as plain data.

A model consists of one or more parts that run one after the other. A part runs on the device, where
it has a `Plan`, or in a CPU engine, where it has a model file or a graph of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from fourfold.plan.data import Buffer, Launch, Plan, Port
from fourfold.plan.requirements import Requirements, join_requirements
from fourfold.plan.targets import GPU, NUMPY
from fourfold.support.lazy import lazy_import
from fourfold.types import Shape, TensorType

if TYPE_CHECKING:
    from fourfold.graph import Graph
    from fourfold.plan.tensor_binding import TensorBinding
    from fourfold.support import display
else:
    display = lazy_import("fourfold.support.display")

Bindings = tuple["TensorBinding", ...]


class Part(NamedTuple):
    """One part of a model: where it runs, the values it reads and writes, and what runs it.

    On the device that is `plan`. In NumPy it is a graph, serialized as `content`; in the CPU engine
    of the model's format it is a model file of its own as `content`, and `bindings` map values to
    the tensors of that file. A graph that calls code of the caller cannot be serialized, and is
    `graph` itself.
    """

    target: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    plan: Plan | None = None
    content: bytes = b""
    bindings: tuple[Bindings, Bindings] = ((), ())
    graph: Graph | None = None


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """A compiled model. Ports and parts use the graph's names of values; `input_names` and
    `output_names` are the names that callers use, in the order of the ports.

    Attributes:
        name: Name of the graph.
        precision: 'fp32', 'mixed' or 'fp16'.
        parts: The parts, in the order in which they run.
        inputs: Input ports of the model.
        outputs: Output ports of the model.
        crossing: Types of the values that parts read.
        states: Numbers of the parts whose results depend on earlier runs.
        choices: Every kernel choice that compilation looked up; None where nothing was tuned.
        open_sizes: Sizes of each input with -1 for those that the model leaves open; () for an
            input without any.
        pixels: Inputs that take the bytes of a picture, with the text form of the option.
        signature: The signature by which the model is called; '' for its main graph.
        postprocess: Text form of the postprocessing that is part of the model; '' for none.
        environment: What else the placement depends on: CPU engines, threads, custom operators.
            Empty for a model that runs whole on the device.
        cacheable: False where code of the caller takes part, which may change unnoticed.
        placement: The placement record, as `Placement.to_bytes` wrote it.
        about: Metadata and signatures, as `fourfold.graph.metadata` wrote them.
    """

    name: str
    precision: str
    parts: tuple[Part, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    crossing: Mapping[str, TensorType] = field(default_factory=dict)
    states: tuple[int, ...] = ()
    choices: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    open_sizes: tuple[Shape, ...] = ()
    pixels: Mapping[str, str] = field(default_factory=dict)
    signature: str = ""
    postprocess: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    cacheable: bool = True
    placement: bytes = field(default=b"", repr=False)
    about: bytes = field(default=b"", repr=False)

    @staticmethod
    def of_plan(
        plan: Plan,
        input_names: tuple[str, ...],
        output_names: tuple[str, ...],
        choices: Mapping[str, str | None] | None = None,
        pixels: Mapping[str, str] | None = None,
    ) -> CompiledModel:
        """Return a model that is one plan for the device, without a placement record."""
        inputs, outputs = (
            tuple(port.name for port in ports) for ports in (plan.inputs, plan.outputs)
        )
        return CompiledModel(
            name=plan.name,
            precision=plan.precision,
            parts=(Part(GPU, inputs, outputs, plan),),
            inputs=plan.inputs,
            outputs=plan.outputs,
            input_names=input_names,
            output_names=output_names,
            crossing={port.name: port.type for port in plan.inputs},
            states=(0,) if plan.has_variables else (),
            choices=choices or {},
            pixels=pixels or {},
        )

    @property
    def is_whole(self) -> bool:
        """True if the whole model is one plan for the device."""
        return len(self.parts) == 1 and self.parts[0].plan is not None

    @property
    def plan(self) -> Plan:
        """The plan of a model that runs whole on the device."""
        (part,) = self.parts
        assert part.plan is not None, "the model does not run whole on the device"
        return part.plan

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of all parts on the device."""
        return tuple(part.plan for part in self.parts if part.plan is not None)

    @property
    def is_data(self) -> bool:
        """True if a file can hold the model; it cannot hold code of the caller."""
        return all(part.graph is None for part in self.parts)

    @property
    def only_numpy(self) -> bool:
        """True if every part runs in NumPy, and none in an optimized runtime."""
        return all(part.target == NUMPY for part in self.parts)

    @property
    def launches(self) -> tuple[Launch, ...]:
        return tuple(chain.from_iterable(plan.launches for plan in self.plans))

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(chain.from_iterable(plan.buffers for plan in self.plans))

    @property
    def stages(self) -> int:
        """Number of kernels that run: launches, or stages inside one launch."""
        return sum(plan.stages for plan in self.plans)

    @property
    def flops(self) -> float | None:
        """Additions and multiplications of a run on the device; None where a plan has no count."""
        counts = [plan.flops for plan in self.plans]
        return None if None in counts else float(sum(filter(None, counts)))

    @property
    def requirements(self) -> Requirements:
        """The requirements of all plans, combined."""
        return join_requirements([plan.requirements for plan in self.plans])

    @property
    def device_bytes(self) -> int:
        """Device memory that all plans allocate."""
        return sum(plan.device_bytes for plan in self.plans)

    def bytes(self, kind: str) -> int:
        """Return the size of all buffers of a kind."""
        return sum(plan.bytes(kind) for plan in self.plans)

    def lines(self) -> Iterator[str]:
        if self.is_whole:
            yield from self.plan.lines()
            return
        for number, part in enumerate(self.parts):
            values = f"{_listed(part.inputs)} -> {_listed(part.outputs)}"
            yield f"part {number} on {part.target}: {values}"
            if part.plan is not None:
                yield from (f"  {line}" for line in part.plan.lines())

    def __str__(self) -> str:
        return str(display.visible("\n".join(self.lines())))

    def __repr__(self) -> str:
        return f"<CompiledModel {self.name!r}: {self._summary()}>"

    def _summary(self) -> str:
        parts = "" if self.is_whole else f"{display.count_text(len(self.parts), 'part')}, "
        kernels = display.count_text(self.stages, "kernel")
        launches = display.count_text(len(self.launches), "launch", "launches")
        memory = display.size_text(self.device_bytes)
        return f"{parts}{kernels} in {launches}, {self.precision}, {memory} on the device"

    def _repr_html_(self) -> str:
        rows = [
            (f"part on {part.target}", _listed(part.inputs), _listed(part.outputs))
            for part in self.parts
        ]
        title = f"{self.name}: {self._summary()}"
        return str(display.html_table(title, ("", "reads", "writes"), rows))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"
