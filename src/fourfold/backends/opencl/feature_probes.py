"""Small kernels that determine the features of a device, whatever its driver claims.

Each probe returns facts of a device. A kernel that does not build or computes wrong results is an
answer. If the device is lost or out of memory there is no answer, and the probe raises Unanswered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import c_void_p, sizeof
from dataclasses import replace

import numpy as np

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.arguments import Images
from fourfold.backends.opencl.devices import context_of
from fourfold.backends.opencl.program import build_text
from fourfold.backends.probe_data import (
    GROUP_SHAPES,
    ITEMS,
    adds_right,
    exchanges_right,
    multiplies_right,
    texels,
)
from fourfold.codegen.opencl import probes
from fourfold.device import DeviceInfo, Fact
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import CONSTANT_ALIGNMENT, BufferUse
from fourfold.support.log import Log
from fourfold.types import TensorType

log = Log("backends.opencl")
Facts = Mapping[str, Fact]


class Unanswered(Exception):
    """A probe could not run, or did not end: nothing is known from it."""


def succeeds(passes: Callable[[], bool]) -> bool:
    """Return True if a probe passes."""
    try:
        return passes()
    except BuildError as error:
        log.debug("a probe fails: %s: %s", error.what, error.why)
        return False
    except cl.Error as error:
        if error.out_of_memory:
            raise Unanswered(str(error)) from error
        log.debug("a probe fails: %s", error)
        return False
    except DeviceError as error:
        raise Unanswered(str(error)) from error


def takes_addresses(info: DeviceInfo) -> bool:
    """Return True if a host address fits into a pointer of the device."""
    return info.address_bits >= 8 * sizeof(c_void_p)


def try_half(info: DeviceInfo) -> Facts:
    """Probe whether it computes in fp16: NVIDIA's driver does not claim it."""

    def computes() -> bool:
        program = build_text(context_of(info), probes.HALF)
        return bool(_run(info, program, np.array([3.0], np.float32), 1)[0] == 10.0)

    return {"half_arithmetic": succeeds(computes)}


def try_dot_products(info: DeviceInfo) -> Facts:
    """Probe dot products of int8: the claimed instruction, and on a GPU also the extension."""
    claim = str(info.claims.get("dot_products", ""))
    names = (claim,) if info.is_cpu else (claim, "khr")
    candidates = dict.fromkeys(names) if claim else ()
    right = (name for name in candidates if adds_dots(info, name))
    return {"dot_products": next(right, "")}


def adds_dots(info: DeviceInfo, name: str) -> bool:
    """Return True if a variant of dot products builds and is right."""
    packs = name == "x86"

    def adds() -> bool:
        program = build_text(context_of(info), probes.dots(name, packs))
        return adds_right(_run(info, program, np.zeros(8, np.float32), 1), packs)

    return succeeds(adds)


def try_subgroups(info: DeviceInfo) -> Facts:
    claim = str(info.claims.get("subgroups", ""))
    return {"subgroups": claim if claim and exchanges(info, claim) else ""}


def exchanges(info: DeviceInfo, name: str) -> bool:
    """Return True if work-items exchange values correctly for all group shapes."""

    def exchange() -> bool:
        program = build_text(context_of(info), probes.exchange(name))
        return all(_sums_up(info, program, shape) for shape in GROUP_SHAPES)

    return succeeds(exchange)


def _sums_up(info: DeviceInfo, program: cl.Program, local: tuple[int, ...]) -> bool:
    return exchanges_right(_run(info, program, np.zeros((ITEMS, 2), np.float32), *local), local[0])


def try_matrix_units(info: DeviceInfo) -> Facts:

    def multiplies() -> bool:
        program = build_text(context_of(info), probes.MATRIX)
        return multiplies_right(_run(info, program, np.zeros(32, np.float32), 32))

    return {"matrix_units": bool(info.claims.get("matrix_units")) and succeeds(multiplies)}


def try_images(info: DeviceInfo) -> Facts:
    """Probe images of buffers, and of windows into them."""
    texels = int(info.claims.get("image_texels", 0))
    large = replace(info, image_texels=texels)
    # Too few to reach the data from the start.
    small = replace(info, image_texels=ITEMS + info.alignment // 8)
    works = texels > 0 and succeeds(lambda: _reads_images(large))
    return {
        "image_texels": texels if works else 0,
        "image_windows": works and succeeds(lambda: _reads_images(small)),
        "prefers_images": works and bool(info.claims.get("prefers_images")),
    }


def _reads_images(info: DeviceInfo) -> bool:
    """Return True if a kernel reads fp32 and fp16 data inside a buffer through images."""
    (floats, halves), start = texels(), CONSTANT_ALIGNMENT + 4 * info.alignment
    pieces = (np.zeros(start, np.uint8), floats.reshape(-1), halves.reshape(-1))
    block = np.concatenate([piece.view(np.uint8) for piece in pieces])
    uses = (
        BufferUse(0, start // 4, TensorType.of(floats)),
        BufferUse(0, (start + floats.nbytes) // 2, TensorType.of(halves)),
    )
    context = context_of(info)
    images, buffer = Images(context, info), cl.Buffer.of(context, block)
    program = build_text(context, probes.IMAGES)
    kernel, queue = cl.Kernel(program, "images"), cl.Queue(context)
    result = np.full((2, ITEMS, 4), np.nan, np.float32)
    out = cl.Buffer.of(context, result, writable=True)
    kernel.set_buffer(0, out)
    kernel.set_long(1, 0)
    for number, use in enumerate(uses, 1):
        image, first = images.of(use, buffer, block.nbytes)
        kernel.set_buffer(2 * number, image)
        kernel.set_int(2 * number + 1, first)
    queue.replay([queue.call(kernel, (ITEMS,), (1,))])
    queue.read(out, result)
    return np.array_equal(result[0], floats) and np.array_equal(result[1], halves)


def _run(info: DeviceInfo, program: cl.Program, values: np.ndarray, *local: int) -> np.ndarray:
    """Run the kernel 'probe' on some values with one work-group."""
    context = context_of(info)
    queue, buffer = cl.Queue(context), cl.Buffer.of(context, values, writable=True)
    kernel = cl.Kernel(program, "probe")
    kernel.set_buffer(0, buffer)
    kernel.set_long(1, 0)
    queue.replay([queue.call(kernel, local, local)])
    result = np.empty_like(values)
    queue.read(buffer, result)
    return result
