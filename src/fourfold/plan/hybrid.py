"""A model in parts as plain data, and its file form: a record, then the sections of each part."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fourfold.errors import MALFORMED, InputError, ModelError
from fourfold.pixels import Pixels
from fourfold.plan import Compiled, Container, Plan, Port, Program, Section, read_plan
from fourfold.plan.record import (
    about_sections,
    plan_sections,
    port_record,
    read_calling,
    read_port,
    read_quantization,
    texts,
)
from fourfold.plan.requirements import join_requirements
from fourfold.plan.tensor_binding import Grid, TensorBinding
from fourfold.targets import GPU, NUMPY
from fourfold.types import DType, TensorType

if TYPE_CHECKING:
    from fourfold.graph import Graph

Bindings = tuple[TensorBinding, ...]
Ports = tuple[Port, ...]


class HybridPart(NamedTuple):
    """One part: where it runs, what it gets and gives, and what is needed to run it there.

    On the GPU that is a plan, in NumPy a graph as bytes, and in the CPU engine of the model's
    format a model of its own and how its tensors are reached. A graph with code of the caller in it
    cannot be bytes, and stays what it is.
    """

    target: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    plan: Plan | None = None
    content: bytes = b""
    bindings: tuple[Bindings, Bindings] = ((), ())
    graph: Graph | None = None


class HybridPlan(NamedTuple):
    """A model in parts. `compiled` has the names of all, and the GPU's parts as one plan to be
    looked at; `types` are those of values that parts get; `placement` says where each operator
    runs and why, as `fourfold.placement.Placement.to_record` wrote it. `states` are the numbers of
    parts that keep something from run to run, None where that is not known.
    """

    parts: tuple[HybridPart, ...]
    types: Mapping[str, TensorType]
    compiled: Compiled
    placement: Mapping[str, Any]
    states: tuple[int, ...] | None = None

    @property
    def is_data(self) -> bool:
        """Whether a file can hold all of it: code of the caller it cannot."""
        return all(part.graph is None for part in self.parts)

    @property
    def plans(self) -> list[Plan]:
        return [part.plan for part in self.parts if part.plan is not None]


def join_plans(
    name: str, plans: Sequence[Plan], inputs: Ports, outputs: Ports, precision: str
) -> Plan:
    """All launches and buffers of several plans, to be looked at; no player can play it."""
    known = [plan.flops for plan in plans if plan.flops is not None]
    return Plan(
        name=name,
        program=Program(
            "\n".join(plan.program.text for plan in plans),
            plans[0].program.options if plans else "",
        ),
        buffers=tuple(chain.from_iterable(plan.buffers for plan in plans)),
        launches=tuple(chain.from_iterable(plan.launches for plan in plans)),
        inputs=inputs,
        outputs=outputs,
        constants=np.zeros(0, np.uint8),
        precision=precision,
        requirements=join_requirements([plan.requirements for plan in plans]),
        flops=sum(known) if len(known) == len(plans) else None,
    )


def hybrid_sections(hybrid: HybridPlan) -> list[Section]:
    """The record first; then for each part a plan's three sections, or a model for its engine; and
    last what the model says of itself.
    """
    sections: list[Section] = []
    for part in hybrid.parts:
        if part.plan is not None:
            names = (part.inputs, part.outputs)
            sections += plan_sections(Compiled(part.plan, *names))
        else:
            sections.append(Section("model", part.content))
    text = json.dumps(_record(hybrid), separators=(",", ":"), ensure_ascii=False)
    return [Section("parts", text.encode()), *sections, *about_sections(hybrid.compiled)]


def read_hybrid(file: Container, numbers: Sequence[int]) -> HybridPlan:
    """The model in parts in these sections of a file; ModelError where they do not make one."""
    try:
        record = json.loads(bytes(file.section(numbers[0], "parts")))
        rest = iter(numbers[1:])
        parts = tuple(_part(item, file, lambda: next(rest)) for item in record["parts"])
        types = {str(name): TensorType.parse(text) for name, text in record["types"].items()}
        about = next((bytes(file.section(one, "about")) for one in rest), b"")
        compiled = replace(_compiled(record, parts), about=about)
        states = record.get("states")
        states = None if states is None else tuple(int(number) for number in states)
        hybrid = HybridPlan(parts, types, compiled, dict(record["placement"]), states)
        _check_order(hybrid)
    except (*MALFORMED, InputError, StopIteration, RuntimeError) as error:
        why = f"its record of parts does not fit: {error!r}"
        fix = "copy it again, or prepare the model again"
        raise ModelError(f"{file.title} is damaged", why, fix) from error
    return hybrid


def _compiled(record: Mapping[str, Any], parts: Sequence[HybridPart]) -> Compiled:
    inputs = tuple(read_port(one) for one in record["inputs"])
    outputs = tuple(read_port(one) for one in record["outputs"])
    plans = [part.plan for part in parts if part.plan is not None]
    plan = join_plans(str(record["name"]), plans, inputs, outputs, str(record["precision"]))
    names = (texts(record["input_names"]), texts(record["output_names"]))
    if (len(names[0]), len(names[1])) != (len(inputs), len(outputs)):
        raise ValueError("there are not as many names as inputs and outputs")
    signatures = tuple(tuple(int(size) for size in one) for one in record["signatures"])
    choices = dict(record["choices"])
    return Compiled(plan, *names, choices, signatures, **read_calling(record))


def _check_order(hybrid: HybridPlan) -> None:
    """Every part gets what the caller or a part before it gives."""
    known = {port.name for port in hybrid.compiled.plan.inputs}
    for part in hybrid.parts:
        if not known.issuperset(part.inputs):
            raise ValueError("a part gets a value that nobody gives")
        if part.plan is not None and not hybrid.types.keys() >= set(part.inputs):
            raise ValueError("a value has no type")
        known.update(part.outputs)
    if not known.issuperset(port.name for port in hybrid.compiled.plan.outputs):
        raise ValueError("nobody gives an output")


def _record(hybrid: HybridPlan) -> dict[str, Any]:
    compiled, plan = hybrid.compiled, hybrid.compiled.plan
    return {
        "name": plan.name,
        "precision": plan.precision,
        "parts": [_part_record(part) for part in hybrid.parts],
        "types": {name: str(type) for name, type in hybrid.types.items()},
        "inputs": [port_record(port) for port in plan.inputs],
        "outputs": [port_record(port) for port in plan.outputs],
        "input_names": list(compiled.input_names),
        "output_names": list(compiled.output_names),
        "signatures": [list(one) for one in compiled.signatures],
        "pixels": dict(compiled.pixels),
        "signature": compiled.signature,
        "postprocess": compiled.postprocess,
        "choices": dict(compiled.choices),
        "placement": hybrid.placement,
        "states": None if hybrid.states is None else list(hybrid.states),
    }


def _part_record(part: HybridPart) -> list[Any]:
    bindings = [[_binding_record(binding) for binding in ends] for ends in part.bindings]
    return [part.target, list(part.inputs), list(part.outputs), bindings]


def _binding_record(binding: TensorBinding) -> list[Any]:
    grid = None
    if binding.grid is not None:
        how, dtype = binding.grid
        grid = [list(how.scale), list(how.zero_point), how.axis, dtype.value]
    kind, pixels = None if binding.type is None else str(binding.type), binding.pixels
    bytes_ = [] if pixels is None else [str(pixels)]
    return [binding.name, binding.tensor, kind, grid, *bytes_]


def _part(item: Sequence[Any], file: Container, number: Callable[[], int]) -> HybridPart:
    target, inputs, outputs, bindings = item
    ends = (texts(inputs), texts(outputs))
    if target == GPU:
        return HybridPart(target, *ends, plan=read_plan(file, number(), number(), number()).plan)
    if not isinstance(target, str):
        raise TypeError(f"there is no target {target!r}")
    content = bytes(file.section(number(), "model"))
    if target == NUMPY:
        return HybridPart(target, *ends, content=content)
    sources, results = (tuple(_binding(one) for one in side) for side in bindings)
    if (len(sources), len(results)) != (len(ends[0]), len(ends[1])):
        raise ValueError("there are not as many tensors as values")
    return HybridPart(target, *ends, content=content, bindings=(sources, results))


def _binding(item: Sequence[Any]) -> TensorBinding:
    name, tensor, kind, scales, *bytes_ = item
    grid: Grid | None = None
    if scales is not None:
        grid = (read_quantization(*scales[:3]), DType(scales[3]))
    kind = None if kind is None else TensorType.parse(kind)
    tensor = tensor if isinstance(tensor, str) else int(tensor)
    return TensorBinding(str(name), tensor, kind, grid, _pixels(*bytes_))


def _pixels(given: str | Sequence[Any] | None = None) -> Pixels | None:
    """In words, or as files once had them: mean, std and order."""
    if given is None:
        return None
    return Pixels.parse(given) if isinstance(given, str) else Pixels(*given)
