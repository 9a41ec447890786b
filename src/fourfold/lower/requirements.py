"""What a plan needs of a device, told by its kernel trees, launches and buffers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from fourfold.kernel.context import Target
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import (
    DiagonalMultiply,
    DotAccumulate,
    LocalArray,
    MatrixMultiply,
    StoreRounded,
)
from fourfold.kernel.walk import expressions, statements
from fourfold.lower.program import Written
from fourfold.plan import CONSTANT_ALIGNMENT, Buffer, BufferUse, Launch
from fourfold.plan.requirements import ImageNeed, Requirements, hardest_images
from fourfold.types import DType

# The fact of a device for which alone kernels have a node, by the node.
_FACTS: dict[object, str] = {
    MatrixMultiply: "matrix_units",
    DiagonalMultiply: "matrix_units",
    "load_words": "matrix_units",
    "load_words_streamed": "matrix_units",
    "load_double_words": "matrix_units",
    "pack_halves": "matrix_units",
    "unpack_halves": "matrix_units",
    "subgroup_shift": "matrix_units",
    "subgroup_size": "subgroups",
    "subgroup_exchange": "subgroups",
    DotAccumulate: "dot_products",
    StoreRounded: "packs_bytes",
    "load_bytes": "packs_bytes",
    "load_taps": "packs_bytes",
}
_BYTES = {"float": 4, "int": 4, "uint": 4, "bool": 4, "half": 2}
_VECTOR = 16  # bytes: local memory is given out in such
_ROW = 8  # numbers of a row of a persistent kernel's table besides what its kernel gets, at most


def find_requirements(written: Written, buffers: Sequence[Buffer], target: Target) -> Requirements:
    """What a plan needs that has this program, and was made for this target."""
    device, options = target.device, target.options
    kernels, launches = written.kernels, written.launches
    facts = {fact for kernel in kernels for fact in _used_facts(kernel)}
    # These are spelled by the device's own instructions, in whichever kernel they stand.
    halves = device.matrix_units and options.storage is DType.F16 and options.real == "float"
    rounding = options.counts_bytes and device.packs_bytes
    dots = device.dot_products if "dot_products" in facts else ""
    subgroups = (device.subgroups or "ptx") if "subgroups" in facts else ""
    kinds = {buffer.kind for buffer in buffers}
    host = "host" in kinds
    group = max((prod(launch.local) for launch in launches), default=1)
    waits = "state" in kinds and not device.is_cpu
    return Requirements(
        language=device.language,
        language_version=written.version,
        half_arithmetic=any(kernel.real == "half" for kernel in kernels),
        matrix_units=halves or "matrix_units" in facts,
        subgroups=subgroups,
        dot_products=dots,
        packs_bytes=rounding or "packs_bytes" in facts,
        resident_groups=max(map(_groups, launches)) if waits else 0,
        reaches_host=host,
        address_bits=64 if host else 0,
        work_group=group,
        local_memory=_local_memory(kernels, group if waits else 0),
        buffer_bytes=max((buffer.bytes for buffer in buffers), default=0),
        alignment=CONSTANT_ALIGNMENT,
        images=hardest_images(_images(launches)),
    )


def _used_facts(kernel: Kernel) -> set[str]:
    """The facts of a device that a kernel rests on, told by its nodes."""
    nodes: set[object] = {type(item) for item in statements(kernel.body)}
    for item in expressions(kernel):
        if item.op != "load_words" or len(item.operands) > 2:  # what is read anyhow needs nothing
            nodes.add(item.op)
    return {_FACTS[node] for node in nodes if node in _FACTS}


def _groups(launch: Launch) -> int:
    return prod(launch.grid) // prod(launch.local)


def _local_memory(kernels: Iterable[Kernel], persistent: int) -> int:
    """Bytes of local memory of a work-group.

    A `persistent` one of so many work-items runs smaller groups side by side, and has two rows of
    its table there, too.
    """
    most, row = 0, 0
    for kernel in kernels:
        arrays = [item for item in kernel.body if isinstance(item, LocalArray)]
        size = sum(map(_array_bytes, arrays))
        most = max(most, size * max(persistent // kernel.local_items, 1))
        row = max(row, 2 * len(kernel.buffers) + len(kernel.sizes))
    return most + (2 * 4 * (row + _ROW) if persistent else 0)


def _array_bytes(array: LocalArray) -> int:
    return -(-array.size * array.width * _BYTES[array.kind] // _VECTOR) * _VECTOR


def _images(launches: Iterable[Launch]) -> Iterable[ImageNeed]:
    arguments = (argument for launch in launches for argument in launch.arguments)
    for use in arguments:
        if isinstance(use, BufferUse) and use.image is not None:
            texel = 4 * use.image.dtype.size
            yield ImageNeed(use.end_of_image, use.image.shape[0], texel)
