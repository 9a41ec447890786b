"""One damaged file is read, placed and compiled, and its plan is stored like in a cache; or it is
opened in the CPU engine of its format.

Only a FourfoldError may be raised. The target devices of compiled files are not attached, so that
only NumPy is needed. LiteRT counts as installed without being called, so that parts are cut out for
it.
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
from fourfold.session import Session

DEVICES = {
    "cpu": replace(fake_devices.X86, dot_products=""),
    "x86": fake_devices.X86,
    "gpu": NULL_GPU,
    "images": fake_devices.IMAGES,
    "nvidia": fake_devices.NVIDIA,
}
PRECISIONS = ("fp32", "fp32", "mixed", "fp16")
LAUNCHES = ("auto", "auto", "list", "one")
MAX_PLAN_BYTES = 1 << 16  # of all buffers of a plan that is interpreted
MAX_WORK_ITEMS = 1 << 12  # of all its launches
MAX_INPUT_ELEMENTS = 1 << 20  # of all inputs of a model that runs in a CPU engine


@dataclass(frozen=True)
class Course:
    """Compile options for a damaged file."""

    device: DeviceInfo
    options: CompileOptions
    placed: bool  # quantized operators stay on the CPU, so that more files are split

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
    """A failure that raises no exception of its own."""


def compile_damaged(data: bytes, course: Course) -> CompiledModel | None:
    """Return the model if it compiles to one plan; raise FourfoldError if the file is rejected."""
    with _fake_litert():
        options = replace(course.options, quantized=not course.placed)
        model = _stored(compile_model(data, course.device, options))
    Placement.from_bytes(model.placement)
    return model if model.is_whole else None


@contextmanager
def _fake_litert() -> Iterator[None]:
    """Pretend that LiteRT is installed and supports every operator."""
    own = Litert.installed, Litert.refusal
    Litert.installed = lambda self: True  # type: ignore[method-assign]
    Litert.refusal = lambda self, model, unit: ""  # type: ignore[method-assign]
    try:
        yield
    finally:
        Litert.installed, Litert.refusal = own  # type: ignore[method-assign]


def _stored(model: CompiledModel) -> CompiledModel:
    """Return the model after writing and reading it, like in a cache."""
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
    """Return True if the file became a plan small enough to interpret, and ran."""
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


def open_on_cpu(data: bytes, run: bool) -> bool:
    """Open a file in the CPU engine of its format; return True if it also ran."""
    with Session(data, device="cpu", cache=None, threads=1) as session:
        small = sum(int(np.prod(one.shape)) for one in session.inputs) <= MAX_INPUT_ELEMENTS
        if not run or not small or any(one.dtype.kind == "O" for one in session.inputs):
            return False
        session.run({one.name: np.zeros(one.shape, one.dtype) for one in session.inputs})
    return True


def _is_small(plan: Plan) -> bool:
    items = sum(int(np.prod(launch.grid)) for launch in plan.launches)
    return (
        items <= MAX_WORK_ITEMS and sum(buffer.bytes for buffer in plan.buffers) <= MAX_PLAN_BYTES
    )
