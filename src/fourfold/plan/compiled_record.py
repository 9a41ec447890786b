"""The file form of a CompiledModel: a record, the sections of each part, placement and metadata.

The first section, `model`, is a JSON record. A part on the device has the three sections of a plan
(`plan`, `text`, `constants`); a part in a CPU engine has one, `part`. The last sections are
`placement` and, where the model has metadata, `about`; both are parsed when they are asked for.

The inputs and outputs of a model that is one plan are those of the plan, and only its record has
them, where players outside Python read them too. Other models have them in their own record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fourfold.errors import MALFORMED, InputError, ModelError
from fourfold.plan.compiled import CompiledModel, Part
from fourfold.plan.container import Container, Section
from fourfold.plan.data import Port
from fourfold.plan.record import (
    PortNames,
    plan_sections,
    port_record,
    read_open_sizes,
    read_plan_and_ports,
    read_port,
    read_port_names,
    text_map,
    texts,
)
from fourfold.plan.targets import GPU, NUMPY
from fourfold.support.lazy import lazy_import
from fourfold.types import TensorType

if TYPE_CHECKING:
    from fourfold.plan import tensor_binding
    from fourfold.plan.encode_constants import WeightList
else:  # only parts in CPU engines have bindings
    tensor_binding = lazy_import("fourfold.plan.tensor_binding")

MODEL, PART, PLACEMENT, ABOUT = "model", "part", "placement", "about"
Ports = tuple[Port, ...]
ReadPart = tuple[Part, "PortNames | None"]  # with the names of a plan's ports


def compiled_sections(model: CompiledModel, weights: WeightList | None = None) -> list[Section]:
    """Return the sections of a compiled model, its record first.

    With a list of weights, larger constants of its plans are added to that list instead.
    """
    text = json.dumps(_record(model), separators=(",", ":"), ensure_ascii=False)
    sections = [Section(MODEL, text.encode())]
    for part in model.parts:
        sections += _part_sections(model, part, weights)
    sections.append(Section(PLACEMENT, model.placement))
    return [*sections, Section(ABOUT, model.about)] if model.about else sections


def _part_sections(model: CompiledModel, part: Part, weights: WeightList | None) -> list[Section]:
    if part.plan is None:
        return [Section(PART, part.content)]
    ports = PortNames(part.inputs, part.outputs)
    if model.is_whole:
        ports = PortNames(model.input_names, model.output_names, model.pixels)
    return plan_sections(part.plan, ports, weights)


def read_compiled_model(
    file: Container, numbers: Sequence[int], weights: Sequence[int] = ()
) -> CompiledModel:
    """Read the model in these sections of a file, and in those of its weights; ModelError where
    they do not make one.
    """
    try:
        record = json.loads(bytes(file.section(numbers[0], MODEL)))
        remaining = iter(numbers[1:])
        read = [_read_part(item, file, remaining, weights) for item in record["parts"]]
        placement = bytes(file.section(next(remaining), PLACEMENT))
        about = next((bytes(file.section(one, ABOUT)) for one in remaining), b"")
        model = _read_record(record, read, placement, about)
        _check_model(model)
    except (*MALFORMED, InputError, StopIteration, RuntimeError) as error:
        why = f"the record of a model is malformed: {error!r}"
        fix = "copy it again, or prepare the model again"
        raise ModelError(f"{file.title} is damaged", why, fix) from error
    return model


def read_section(file: Container, numbers: Sequence[int], name: str) -> bytes:
    """Read one of the last two sections of a model; b'' where it has none of that name."""
    last = (number for number in numbers[-2:] if file.names[number] == name)
    return next((bytes(file.section(number, name)) for number in last), b"")


def _record(model: CompiledModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "precision": model.precision,
        "parts": [_part_record(part) for part in model.parts],
        **({} if model.is_whole else _ports_record(model)),
        "crossing": {name: str(type) for name, type in model.crossing.items()},
        "states": list(model.states),
        "choices": dict(model.choices),
        "open_sizes": [list(one) for one in model.open_sizes],
        "signature": model.signature,
        "postprocess": model.postprocess,
        "environment": dict(model.environment),
    }


def _ports_record(model: CompiledModel) -> dict[str, Any]:
    return {
        "inputs": [port_record(port) for port in model.inputs],
        "outputs": [port_record(port) for port in model.outputs],
        "input_names": list(model.input_names),
        "output_names": list(model.output_names),
        "pixels": dict(model.pixels),
    }


def _read_ports(record: Mapping[str, Any]) -> tuple[Ports, Ports, PortNames]:
    inputs, outputs = (tuple(map(read_port, record[key])) for key in ("inputs", "outputs"))
    return inputs, outputs, read_port_names(record)


def _read_record(
    record: Mapping[str, Any], read: Sequence[ReadPart], placement: bytes, about: bytes
) -> CompiledModel:
    signature, postprocess = texts((record["signature"], record["postprocess"]))
    parts = tuple(part for part, _ in read)
    plan, names = parts[0].plan if len(parts) == 1 else None, read[0][1]
    if plan is None or names is None:
        inputs, outputs, names = _read_ports(record)
    else:
        inputs, outputs = plan.inputs, plan.outputs
    return CompiledModel(
        name=str(record["name"]),
        precision=str(record["precision"]),
        parts=parts,
        inputs=inputs,
        outputs=outputs,
        input_names=names.inputs,
        output_names=names.outputs,
        crossing={name: TensorType.parse(type) for name, type in record["crossing"].items()},
        states=tuple(int(number) for number in record["states"]),
        choices=dict(record["choices"]),
        open_sizes=tuple(read_open_sizes(one) for one in record["open_sizes"]),
        pixels=names.pixels,
        signature=signature,
        postprocess=postprocess,
        environment=text_map(record["environment"]),
        placement=placement,
        about=about,
    )


def _check_model(model: CompiledModel) -> None:
    """Raise ValueError unless every part reads what the caller or an earlier part provides."""
    available = {port.name for port in model.inputs}
    for part in model.parts:
        if not available.issuperset(part.inputs):
            raise ValueError("a part reads a value that nothing provides")
        if part.plan is not None:
            _check_part(model, part)
        available.update(part.outputs)
    if not available.issuperset(port.name for port in model.outputs):
        raise ValueError("nothing provides an output")
    if any(not 0 <= number < len(model.parts) for number in model.states):
        raise ValueError("a part that does not exist keeps states")


def _check_part(model: CompiledModel, part: Part) -> None:
    assert part.plan is not None
    if not model.crossing.keys() >= set(part.inputs):
        raise ValueError("a value has no type")
    ports = (len(part.plan.inputs), len(part.plan.outputs))
    if ports != (len(part.inputs), len(part.outputs)):
        raise ValueError("a plan has other ports than its part")


def _part_record(part: Part) -> list[Any]:
    bindings = [[binding.to_record() for binding in side] for side in part.bindings]
    return [part.target, list(part.inputs), list(part.outputs), bindings]


def _read_part(
    item: Sequence[Any], file: Container, numbers: Iterator[int], weights: Sequence[int]
) -> ReadPart:
    target, inputs, outputs, bindings = item
    inputs, outputs = texts(inputs), texts(outputs)
    if target == GPU:
        record, text, constants = next(numbers), next(numbers), next(numbers)
        plan, names = read_plan_and_ports(file, record, text, constants, weights)
        return Part(target, inputs, outputs, plan=plan), names
    if not isinstance(target, str):
        raise TypeError(f"{target!r} is not the name of a target")
    content = bytes(file.section(next(numbers), PART))
    if target == NUMPY:
        return Part(target, inputs, outputs, content=content), None
    read = tensor_binding.TensorBinding.from_record
    sources, results = (tuple(read(one) for one in side) for side in bindings)
    if (len(sources), len(results)) != (len(inputs), len(outputs)):
        raise ValueError("there are not as many tensors as values")
    return Part(target, inputs, outputs, content=content, bindings=(sources, results)), None
