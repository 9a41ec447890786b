"""A plan as three sections: a JSON record of tables, the kernel text, and the constants."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from fourfold.errors import MALFORMED, ModelError
from fourfold.plan.container import Container, Section
from fourfold.plan.data import (
    HOST_KINDS,
    Argument,
    Buffer,
    BufferUse,
    Compiled,
    InputsOnDevice,
    Launch,
    Plan,
    Port,
    Program,
)
from fourfold.plan.requirements import ImageNeed, Requirements
from fourfold.plan.shared_constants import share_constants
from fourfold.types import DType, Quantization, TensorType

KINDS = ("arena", "constants", "input", "output", "variable", "host", "host_protocol", "state")


def plan_record(compiled: Compiled) -> dict[str, Any]:
    """All of a plan but its text and its constants, as what JSON can hold."""
    plan = compiled.plan
    return {
        "name": plan.name,
        "precision": plan.precision,
        "options": plan.program.options,
        "flops": plan.flops,
        "requirements": requirements_record(plan.requirements),
        "buffers": [_buffer_record(one) for one in plan.buffers],
        "launches": [_launch_record(one) for one in plan.launches],
        "inputs": [port_record(one) for one in plan.inputs],
        "outputs": [port_record(one) for one in plan.outputs],
        **_on_device_record(plan.on_device),
        "input_names": list(compiled.input_names),
        "output_names": list(compiled.output_names),
        "choices": dict(compiled.choices),
        "signatures": [list(one) for one in compiled.signatures],
        "pixels": dict(compiled.pixels),
        "signature": compiled.signature,
        "postprocess": compiled.postprocess,
    }


def plan_sections(compiled: Compiled) -> list[Section]:
    """Three sections, and a fourth where the model says something of itself."""
    text = json.dumps(plan_record(compiled), separators=(",", ":"), ensure_ascii=False)
    return [
        Section("plan", text.encode()),
        Section("text", compiled.plan.program.text.encode()),
        Section("constants", compiled.plan.constants),
        *about_sections(compiled),
    ]


def about_sections(compiled: Compiled) -> list[Section]:
    """What a model says of itself lies apart, since few starts read it."""
    return [Section("about", compiled.about)] if compiled.about else []


def read_plan(
    file: Container, plan: int, text: int, constants: int, about: int | None = None
) -> Compiled:
    """The plan in sections of a file; ModelError where they do not make one."""
    source = bytes(file.section(text, "text"))
    data = share_constants(np.frombuffer(file.section(constants, "constants"), np.uint8))
    try:
        record = json.loads(bytes(file.section(plan, "plan")))
        own = b"" if about is None else bytes(file.section(about, "about"))
        return replace(_compiled(record, source.decode(), data), about=own)
    except MALFORMED as error:
        why = f"its record of a plan does not fit: {error!r}"
        fix = "copy it again, or prepare the model again"
        raise ModelError(f"{file.title} is damaged", why, fix) from error


def _compiled(record: Mapping[str, Any], text: str, constants: np.ndarray) -> Compiled:
    buffers = tuple(_buffer(constants.nbytes, *item) for item in record["buffers"])
    if sum(one.bytes for one in buffers if one.kind == "constants") != constants.nbytes:
        raise ValueError("the constants have another size")
    inputs = tuple(_port(item, buffers) for item in record["inputs"])
    launches = tuple(_launch(item, buffers) for item in record["launches"])
    plan = Plan(
        name=_text(record["name"]),
        program=Program(text, _text(record["options"])),
        buffers=buffers,
        launches=launches,
        inputs=inputs,
        outputs=tuple(_port(item, buffers) for item in record["outputs"]),
        constants=constants,
        precision=_text(record["precision"]),
        requirements=read_requirements(record["requirements"]),
        flops=_flops(record.get("flops")),
        on_device=_on_device(record.get("on_device"), inputs, launches, buffers),
    )
    names = tuple(texts(record[key]) for key in ("input_names", "output_names"))
    if (len(names[0]), len(names[1])) != (len(plan.inputs), len(plan.outputs)):
        raise ValueError("there are not as many names as inputs and outputs")
    signatures = tuple(_signature(one) for one in record.get("signatures", ()))
    choices, called = dict(record["choices"]), read_calling(record)
    return Compiled(plan, names[0], names[1], choices, signatures, **called)


def device_bytes(file: Container, sections: Sequence[int]) -> int:
    """What all plans among these sections of a file set aside on a device; KeyError and its like
    where they are damaged.
    """
    records = (json.loads(bytes(file.section(one, "plan"))) for one in _plans(file, sections))
    buffers = (Buffer(*item) for record in records for item in record["buffers"])
    return sum(one.allocated for one in buffers if one.kind not in HOST_KINDS)


def _plans(file: Container, sections: Sequence[int]) -> list[int]:
    return [one for one in sections if file.names[one] == "plan"]


def _flops(value: object) -> float | None:
    """Records have it since somebody asks for it."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value < inf:
        raise ValueError(f"{value!r} is no count of operations")
    return float(value)


def read_calling(record: Mapping[str, Any]) -> dict[str, Any]:
    """By which signature a model is called, what inputs hold that come as bytes, and what is made
    of outputs; records have each since there is such.
    """
    pixels = {_text(name): _text(words) for name, words in record.get("pixels", {}).items()}
    words = {name: _text(record.get(name, "")) for name in ("signature", "postprocess")}
    return {"pixels": pixels, **words}


def requirements_record(needed: Requirements) -> dict[str, Any]:
    """The language, and what is needed that not every device has."""
    default = Requirements._field_defaults
    always = ("language", "language_version")
    fields = needed._asdict().items()
    return {name: value for name, value in fields if name in always or value != default[name]}


def read_requirements(record: Mapping[str, Any]) -> Requirements:
    """What a device must have. A name that is not known is refused: nobody could check it."""
    default = Requirements._field_defaults
    for name, value in record.items():
        if name != "images" and type(value) is not type(default[name]):
            raise TypeError(f"{value!r} is no {name}")
    _version(record["language"], record["language_version"])
    images = (ImageNeed(*_sizes(one)) for one in record.get("images", ()))
    return Requirements(**{**record, "images": tuple(images)})


def _version(language: str, version: str) -> None:
    if not version.replace(".", "").isdecimal() or ".." in f".{version}.":
        raise ValueError(f"there is no version {version!r} of {language}")


def _launch_record(launch: Launch) -> list[Any]:
    arguments = [_argument_record(item) for item in launch.arguments]
    grids = [list(launch.grid), list(launch.local)]
    asked = [launch.local_bytes] if launch.local_bytes else []
    return [launch.entry, arguments, *grids, launch.title, launch.node, launch.stages, *asked]


def _launch(item: list[Any], buffers: tuple[Buffer, ...]) -> Launch:
    entry, arguments, grid, local, title, node, stages, *asked = item
    sizes, groups = _sizes(grid), _sizes(local)
    if not 1 <= len(sizes) <= 3 or len(sizes) != len(groups):
        raise ValueError("a grid has one to three sides")
    if any(side % group for side, group in zip(sizes, groups, strict=True)):
        raise ValueError("a grid is not whole groups")
    uses = tuple(_argument(one, buffers) for one in arguments)
    counts = (_whole(stages, 1, 2**31), *(_whole(size, 1, 2**31) for size in asked[:1]))
    return Launch(_text(entry), uses, sizes, groups, _text(title), _text(node), *counts)


def _on_device_record(way: InputsOnDevice | None) -> dict[str, Any]:
    if way is None:
        return {}
    return {"on_device": [[_argument_record(one) for one in way.arguments], list(way.buffers)]}


def _on_device(
    item: list[Any] | None,
    inputs: Sequence[Port],
    launches: Sequence[Launch],
    buffers: tuple[Buffer, ...],
) -> InputsOnDevice | None:
    """Records have it where a plan has such a way."""
    if item is None:
        return None
    uses, numbers = item
    arguments, (only,) = tuple(_argument(one, buffers) for one in uses), launches
    if list(map(type, arguments)) != list(map(type, only.arguments)):
        raise ValueError("the launch has other arguments")
    for port, number in zip(inputs, numbers, strict=True):
        if buffers[_whole(number, 0, len(buffers))].bytes < port.type.bytes:
            raise ValueError(f"'{port.name}' does not fit its buffer on the device")
    return InputsOnDevice(arguments, tuple(numbers))


def _argument_record(argument: Argument) -> Any:
    if not isinstance(argument, BufferUse):
        return argument
    image = [] if argument.image is None else [str(argument.image)]
    return [argument.buffer, argument.offset, *image]


def _argument(item: Any, buffers: tuple[Buffer, ...]) -> Argument:
    if not isinstance(item, list):
        return _whole(item, -(2**31), 2**31)
    number, offset, *image = item
    buffer = buffers[_whole(number, 0, len(buffers))]
    use = BufferUse(number, _whole(offset, 0, max(buffer.bytes, 1)))
    return _image(use, buffer, *image) if image else use


def _image(use: BufferUse, buffer: Buffer, text: str) -> BufferUse:
    image = TensorType.parse(text)
    if image.dtype not in (DType.F32, DType.F16) or image.shape[1:] != (4,) or use.offset % 4:
        raise ValueError(f"{text!r} is no image")
    if buffer.kind != "constants" or use.offset * image.dtype.size + image.bytes > buffer.bytes:
        raise ValueError("an image is not within the constants")
    return use._replace(image=image)


def port_record(port: Port) -> list[Any]:
    how = port.quantization
    scales = None if how is None else [list(how.scale), list(how.zero_point), how.axis]
    return [port.name, str(port.type), port.buffer, scales]


def _port(item: list[Any], buffers: tuple[Buffer, ...]) -> Port:
    port = read_port(item)
    if buffers[_whole(port.buffer, 0, len(buffers))].bytes < port.type.bytes:
        raise ValueError(f"'{port.name}' does not fit its buffer")
    return port


def read_port(item: list[Any]) -> Port:
    name, kind, number, scales = item
    how = None if scales is None else read_quantization(*scales)
    return Port(_text(name), TensorType.parse(kind), _whole(number, 0, 2**31), how)


def read_quantization(scale: list[Any], zero: list[Any], axis: int | None) -> Quantization:
    return Quantization(
        tuple(float(one) for one in scale),
        tuple(_whole(one, -(2**63), 2**63) for one in zero),
        None if axis is None else _whole(axis, -64, 64),
    )


def _buffer_record(buffer: Buffer) -> list[Any]:
    start = [] if buffer.start is None else [buffer.start]
    return [buffer.name, buffer.kind, buffer.bytes, *start]


def _buffer(constants: int, name: str, kind: str, size: int, start: int | None = None) -> Buffer:
    if kind not in KINDS:
        raise ValueError(f"there is no kind of buffer {kind!r}")
    size = _whole(size, 0, 2**48)
    if start is not None:
        start = _whole(start, 0, max(constants - size, 0) + 1)
    return Buffer(_text(name), kind, size, start)


def _sizes(items: list[Any]) -> tuple[int, ...]:
    return tuple(_whole(one, 1, 2**40) for one in items)


def _signature(items: list[Any]) -> tuple[int, ...]:
    return tuple(_whole(one, -1, 2**40) for one in items)


def _whole(item: Any, low: int, high: int) -> int:
    if type(item) is not int or not low <= item < high:
        raise ValueError(f"{item!r} is no number from {low} to {high}")
    return item


def _text(item: Any) -> str:
    if not isinstance(item, str):
        raise TypeError(f"{item!r} is no text")
    return item


def texts(items: Any) -> tuple[str, ...]:
    return tuple(_text(one) for one in items)
