"""The file form of a plan: a JSON record of tables, the kernel source, and the constants."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fourfold.errors import MALFORMED, ModelError
from fourfold.plan.container import Container, Section
from fourfold.plan.data import (
    HOST_KINDS,
    Argument,
    Buffer,
    BufferUse,
    InputsOnDevice,
    Launch,
    Plan,
    Port,
    Program,
)
from fourfold.plan.requirements import read_requirements, requirements_record
from fourfold.plan.shared_constants import share_constants
from fourfold.support.lazy import lazy_import
from fourfold.types import DType, Quantization, TensorType

if TYPE_CHECKING:
    from fourfold.plan import encode_constants, stored_constants
    from fourfold.plan.encode_constants import WeightList
else:  # only prepared files have such constants
    encode_constants = lazy_import("fourfold.plan.encode_constants")
    stored_constants = lazy_import("fourfold.plan.stored_constants")

KINDS = ("arena", "constants", "input", "output", "variable", "host", "host_protocol", "state")


def plan_record(plan: Plan, ports: PortNames | None = None) -> dict[str, Any]:
    """Return a plan as JSON data, without its kernel source and its constants."""
    ports = PortNames.of_plan(plan) if ports is None else ports
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
        "input_names": list(ports.inputs),
        "output_names": list(ports.outputs),
        "pixels": dict(ports.pixels),
    }


class PortNames(NamedTuple):
    """The caller's names of a plan's inputs and outputs, and the inputs that take pixels. A model
    in several parts has them in its own record.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pixels: Mapping[str, str] = {}

    @staticmethod
    def of_plan(plan: Plan) -> PortNames:
        """Return the graph's names."""
        inputs, outputs = (
            tuple(port.name for port in ports) for ports in (plan.inputs, plan.outputs)
        )
        return PortNames(inputs, outputs)


def plan_sections(
    plan: Plan, ports: PortNames | None = None, weights: WeightList | None = None
) -> list[Section]:
    """Return the three sections of a plan: its record, its kernel source and its constants.

    With a list of weights, larger constants are added to it in a small form, and the last section
    holds the others.
    """
    record, constants = plan_record(plan, ports), plan.constants
    if weights is not None:
        pieces, constants = encode_constants.encode_constants(plan, weights)
        record["constants"] = [plan.constants.nbytes, [one.to_record() for one in pieces]]
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    return [
        Section("plan", text.encode()),
        Section("text", plan.program.text.encode()),
        Section("constants", constants),
    ]


def read_plan(file: Container, plan: int, text: int, constants: int) -> Plan:
    """Read the plan in three sections of a file. Raises ModelError if they are malformed."""
    return read_plan_and_ports(file, plan, text, constants)[0]


def read_plan_and_ports(
    file: Container, plan: int, text: int, constants: int, weights: Sequence[int] = ()
) -> tuple[Plan, PortNames]:
    """Read the plan in three sections of a file, and in `weights`, those of its model; and the
    caller's names of its ports.
    """
    source = bytes(file.section(text, "text"))
    data = np.frombuffer(file.section(constants, "constants"), np.uint8)
    try:
        record = json.loads(bytes(file.section(plan, "plan")))
        if "constants" in record:
            data = stored_constants.read_constants(record["constants"], data, file, weights)
        made = _plan(record, source.decode(), share_constants(data))
        return made, read_port_names(record)
    except MALFORMED as error:
        why = f"the record of a plan is malformed: {error!r}"
        fix = "copy it again, or prepare the model again"
        raise ModelError(f"{file.title} is damaged", why, fix) from error


def _plan(record: Mapping[str, Any], text: str, constants: np.ndarray) -> Plan:
    buffers = tuple(_buffer(constants.nbytes, *item) for item in record["buffers"])
    if sum(one.bytes for one in buffers if one.kind == "constants") != constants.nbytes:
        raise ValueError("the constants have the wrong size")
    inputs = tuple(_port(item, buffers) for item in record["inputs"])
    launches = tuple(_launch(item, buffers) for item in record["launches"])
    outputs = tuple(_port(item, buffers) for item in record["outputs"])
    return Plan(
        name=_text(record["name"]),
        program=Program(text, _text(record["options"])),
        buffers=buffers,
        launches=launches,
        inputs=inputs,
        outputs=outputs,
        constants=constants,
        precision=_text(record["precision"]),
        requirements=read_requirements(record["requirements"]),
        flops=_flops(record["flops"]),
        on_device=_on_device(record.get("on_device"), inputs, launches, buffers),
    )


def read_port_names(record: Mapping[str, Any]) -> PortNames:
    """Return the names in the record of a plan or a model."""
    inputs, outputs = texts(record["input_names"]), texts(record["output_names"])
    if (len(inputs), len(outputs)) != (len(record["inputs"]), len(record["outputs"])):
        raise ValueError("there are not as many names as inputs and outputs")
    return PortNames(inputs, outputs, text_map(record["pixels"]))


def device_bytes(file: Container, sections: Sequence[int]) -> int:
    """Return the device memory of all plans in these sections of a file. Raises KeyError and
    similar errors if they are damaged.
    """
    records = (json.loads(bytes(file.section(one, "plan"))) for one in _plans(file, sections))
    buffers = (Buffer(*item) for record in records for item in record["buffers"])
    return sum(one.allocated for one in buffers if one.kind not in HOST_KINDS)


def _plans(file: Container, sections: Sequence[int]) -> list[int]:
    return [one for one in sections if file.names[one] == "plan"]


def _flops(value: object) -> float | None:
    """Return the number of operations of a run; None if unknown."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value < inf:
        raise ValueError(f"{value!r} is not a number of operations")
    return float(value)


def check_index(index: Mapping[str, Any], sections: int) -> None:
    """Check every field of the index of a prepared file that has this number of sections. Raises
    KeyError and similar errors if one is malformed.
    """
    _text(index["made_by"])
    for one in index["models"]:
        texts((one["name"], one["digest"]))
        _whole(one["bytes"], 0, 2**63)
        _time(one["added"])
    for one in index["plans"]:
        _whole(one["model"], 0, len(index["models"]))
        _check_plan_row(one, sections)
    for one in index["binaries"]:
        parts = text_map(one["parts"])
        if "architecture" not in parts and not {"device", "driver"} <= parts.keys():
            raise ValueError("a binary does not say what it was built for")
        _whole(one["section"], 0, sections)
        _time(one["added"])
    for one in index["choices"]:
        _text(one["device"])
        _whole(one["section"], 0, sections)


def _check_plan_row(row: Mapping[str, Any], sections: int) -> None:
    if any(not isinstance(row[name], list) for name in ("parts", "ranks", "sections", "weights")):
        raise TypeError("a field of a plan is not a list")
    names = ("device", "precision", "signature", "postprocess", "engine")
    texts((*(row[name] for name in names), *row["parts"]))
    device = row["made_for"]
    texts(device[name] for name in ("kind", "api", "name", "platform", "driver", "version"))
    for number in (device["compute_units"], row["most_units"], *row["ranks"]):
        _whole(number, 0, 2**31)
    for number in (*row["sections"], *row["weights"]):
        _whole(number, 0, sections)
    if len(row["ranks"]) != 4 or type(row["generic"]) is not bool:
        raise ValueError("the rank of a plan is malformed")
    for sizes in row["shapes"].values():
        read_open_sizes(sizes)
    text_map(row["pixels"])
    if not isinstance(row["facts"], dict):
        raise TypeError("facts are not an object")
    read_requirements(row["requirements"])
    _time(row["added"])


def _launch_record(launch: Launch) -> list[Any]:
    arguments = [_argument_record(item) for item in launch.arguments]
    grids = [list(launch.grid), list(launch.local)]
    local_bytes = [launch.local_bytes] if launch.local_bytes else []
    return [launch.entry, arguments, *grids, launch.title, launch.node, launch.stages, *local_bytes]


def _launch(item: list[Any], buffers: tuple[Buffer, ...]) -> Launch:
    entry, arguments, grid, local, title, node, stages, *local_bytes = item
    sizes, groups = _sizes(grid), _sizes(local)
    if not 1 <= len(sizes) <= 3 or len(sizes) != len(groups):
        raise ValueError("a grid has one to three dimensions")
    if any(side % group for side, group in zip(sizes, groups, strict=True)):
        raise ValueError("a grid is not a multiple of its groups")
    uses = tuple(_argument(one, buffers) for one in arguments)
    return Launch(
        entry=_text(entry),
        arguments=uses,
        grid=sizes,
        local=groups,
        title=_text(title),
        node=_text(node),
        stages=_whole(stages, 1, 2**31),
        local_bytes=_whole(local_bytes[0], 1, 2**31) if local_bytes else 0,
    )


def _on_device_record(on_device: InputsOnDevice | None) -> dict[str, Any]:
    if on_device is None:
        return {}
    return {
        "on_device": [
            [_argument_record(one) for one in on_device.arguments],
            list(on_device.buffers),
        ]
    }


def _on_device(
    item: list[Any] | None,
    inputs: Sequence[Port],
    launches: Sequence[Launch],
    buffers: tuple[Buffer, ...],
) -> InputsOnDevice | None:
    """Read the launch for inputs in device memory; None if the plan has none."""
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
        raise ValueError(f"{text!r} is not an image")
    if buffer.kind != "constants" or use.offset * image.dtype.size + image.bytes > buffer.bytes:
        raise ValueError("an image is not within the constants")
    return use._replace(image=image)


def port_record(port: Port) -> list[Any]:
    quantization = port.quantization
    scales = (
        None
        if quantization is None
        else [list(quantization.scale), list(quantization.zero_point), quantization.axis]
    )
    limits = [] if port.limits is None else [list(port.limits)]
    return [port.name, str(port.type), port.buffer, scales, *limits]


def _port(item: list[Any], buffers: tuple[Buffer, ...]) -> Port:
    port = read_port(item)
    if buffers[_whole(port.buffer, 0, len(buffers))].bytes < port.type.bytes:
        raise ValueError(f"'{port.name}' does not fit its buffer")
    return port


def read_port(item: list[Any]) -> Port:
    name, kind, number, scales, *limits = item
    return Port(
        name=_text(name),
        type=TensorType.parse(kind),
        buffer=_whole(number, 0, 2**31),
        quantization=None if scales is None else read_quantization(*scales),
        limits=_limits(*limits) if limits else None,
    )


def _limits(numbers: list[Any]) -> tuple[int, int]:
    low, high = (_whole(one, -(2**31), 2**31) for one in numbers)
    return low, high


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
        raise ValueError(f"{kind!r} is not a kind of buffer")
    size = _whole(size, 0, 2**48)
    if start is not None:
        start = _whole(start, 0, max(constants - size, 0) + 1)
    return Buffer(_text(name), kind, size, start)


def _sizes(items: list[Any]) -> tuple[int, ...]:
    return tuple(_whole(one, 1, 2**40) for one in items)


def read_open_sizes(items: list[Any]) -> tuple[int, ...]:
    return tuple(_whole(one, -1, 2**40) for one in items)


def _whole(item: Any, low: int, high: int) -> int:
    if type(item) is not int or not low <= item < high:
        raise ValueError(f"{item!r} is not an integer from {low} to {high}")
    return item


def _time(item: Any) -> float:
    """Return a time in seconds, as `time.time` does."""
    if type(item) not in (int, float) or not 0 <= item < 2**53:
        raise ValueError(f"{item!r} is not a time")
    return float(item)


def _text(item: Any) -> str:
    if not isinstance(item, str):
        raise TypeError(f"{item!r} is not text")
    return item


def texts(items: Any) -> tuple[str, ...]:
    return tuple(_text(one) for one in items)


def text_map(items: Any) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in items.items()}
