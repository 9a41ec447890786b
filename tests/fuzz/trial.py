"""What is done with one damaged file: it is read, placed and planned, and its plan kept as a store
keeps it.

Only a FourfoldError may come out of that. Devices are those that are not there, so that nothing is
needed but NumPy; LiteRT counts as installed and is not asked, so that parts are cut out for it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import fake_devices
import numpy as np

from fourfold.backends import make_player
from fourfold.backends.cpu.litert import Litert
from fourfold.backends.interpreter.device import device as interpreted
from fourfold.backends.null import NULL_GPU
from fourfold.compiler.compile import compile_model
from fourfold.device import PROBED, DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.options import CompileOptions
from fourfold.plan import (
    CompiledModel,
    Container,
    Plan,
    compiled_sections,
    container_bytes,
    read_compiled_model,
)
from fourfold.plan.placement import Placement

DEVICES = {
    "cpu": replace(fake_devices.X86, dot_products=""),
    "x86": fake_devices.X86,
    "gpu": NULL_GPU,
    "images": fake_devices.IMAGES,
    "nvidia": fake_devices.NVIDIA,
}
PRECISIONS = ("fp32", "fp32", "mixed", "fp16")
LAUNCHES = ("auto", "auto", "list", "one")
SMALL = 1 << 16  # bytes of all buffers of a plan that is interpreted
FEW = 1 << 12  # work-items of all its launches


@dataclass(frozen=True)
class Course:
    """What a damaged file is compiled for."""

    device: DeviceInfo
    options: CompileOptions
    placed: bool  # quantized operators stay on the CPU, so that more files run in parts

    @staticmethod
    def draw(rng: random.Random) -> Course:
        name = rng.choice(list(DEVICES))
        device = replace(DEVICES[name], name=name, probed=PROBED)
        options = CompileOptions(
            precision=rng.choice(PRECISIONS),
            launches=rng.choice(LAUNCHES),
            literal_sizes=rng.random() < 0.25,
        )
        return Course(device, options, rng.random() < 0.25)

    def __str__(self) -> str:
        form = f"{self.options.precision}, launches: {self.options.launches}"
        sizes = "literal sizes" if self.options.literal_sizes else "sizes by argument"
        return f"{self.device.name}, {form}, {sizes}{', in parts' if self.placed else ''}"


class Astray(Exception):
    """Something went wrong that is no exception of its own."""


def compile_damaged(data: bytes, course: Course) -> CompiledModel | None:
    """The compiled model if all of it is one plan; FourfoldError where the file is refused."""
    with _litert_at_hand():
        options = replace(course.options, quantized=not course.placed)
        model = _stored(compile_model(data, course.device, options))
    Placement.from_bytes(model.placement)
    return model if model.is_whole else None


@contextmanager
def _litert_at_hand() -> Iterator[None]:
    """As though LiteRT were installed, and took every operator."""
    own = Litert.installed, Litert.refusal
    Litert.installed = lambda self: True  # type: ignore[method-assign]
    Litert.refusal = lambda self, model, unit: ""  # type: ignore[method-assign]
    try:
        yield
    finally:
        Litert.installed, Litert.refusal = own  # type: ignore[method-assign]


def _stored(model: CompiledModel) -> CompiledModel:
    """The same after it was written and read, as a store does."""
    if not model.is_data:
        return model
    sections = compiled_sections(model)
    try:
        again = read_compiled_model(
            Container(container_bytes(sections), "a model"), range(len(sections))
        )
    except FourfoldError as error:
        raise Astray("the model cannot be read back") from error
    if str(again) != str(model):
        raise Astray("the model that is read back is another one")
    return again


def play_damaged(data: bytes, course: Course) -> bool:
    """Whether the file became a plan that is small enough to be interpreted, and was."""
    options = replace(course.options, launches="list")
    course = replace(course, device=interpreted(course.device), options=options, placed=False)
    compiled = compile_damaged(data, course)
    if compiled is None or not _is_small(compiled.plan):
        return False
    try:
        player = make_player(course.device, compiled.plan)
        player.run([np.zeros(p.type.shape, p.type.dtype.numpy) for p in compiled.plan.inputs])
        player.close()
    except FourfoldError as error:
        raise Astray("a kernel is at fault") from error
    return True


def _is_small(plan: Plan) -> bool:
    items = sum(int(np.prod(launch.grid)) for launch in plan.launches)
    return items <= FEW and sum(buffer.bytes for buffer in plan.buffers) <= SMALL
