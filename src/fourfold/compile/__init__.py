"""From a model file to a plan: the long way, which a start from the store avoids."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from fourfold.compile.pixel_inputs import byte_sizes, find_pictures, real_shapes
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, nearest
from fourfold.formats import Model, ReadOptions, read_model
from fourfold.graph import Graph
from fourfold.kernel.context import KernelOptions
from fourfold.lower import make_plan
from fourfold.lower.specialise import has_quantised_steps
from fourfold.ops.custom import Custom
from fourfold.pixels import Given, Pixels
from fourfold.plan import Compiled
from fourfold.players import probe
from fourfold.rewrite import rewrite
from fourfold.rewrite.take_pixels import Pictures, take_pixels
from fourfold.types import Shape

STAGES = ("graph", "rewritten", "plan", "kernels")


@dataclass(frozen=True)
class CompileOptions:
    """How a plan is to be made: precision, sizes as numbers or not, input shapes, launches."""

    precision: str = "fp32"
    literal: bool = False
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    form: str = "auto"
    quantized: bool = True  # whether quantised operators may run as their float view
    follow: bool = True  # whether a batch goes through reshapes that have another one in them
    pixels: Given | None = None  # inputs that come as the bytes of pictures

    @property
    def options(self) -> KernelOptions:
        return KernelOptions(self.precision, self.literal, self.form)


@dataclass(frozen=True)
class Loaded:
    """A model as a wish wants it, and those of its inputs that come as bytes: the model itself
    still has floats there.
    """

    model: Model
    pictures: Pictures

    @property
    def graph(self) -> Graph:
        """The main graph, for bytes."""
        return take_pixels(self.model.main, self.pictures)

    @property
    def open_sizes(self) -> tuple[Shape, ...]:
        """`Model.open_sizes`, for bytes."""
        pairs = zip(self.model.main.arguments, self.model.open_sizes, strict=False)
        return tuple(byte_sizes(sizes, self.pictures.get(value)) for value, sizes in pairs)

    @property
    def pixels(self) -> dict[str, str]:
        """In words what bytes hold, by the caller's names of the inputs."""
        names = zip(self.model.input_names, self.model.main.arguments, strict=True)
        return {name: str(self.pictures[value]) for name, value in names if value in self.pictures}


def load_model(model: str | bytes, wish: CompileOptions, foreign: bool = False) -> Loaded:
    """The model in the shapes of a wish, which are those that the caller sees."""

    def read(shapes: Mapping[str, Shape]) -> Model:
        options = ReadOptions(
            shapes=shapes,
            keep_unsupported=foreign,
            quantized=wish.quantized,
            follow_batch=wish.follow,
        )
        return read_model(model, options)

    shapes, named = wish.shapes, wish.pixels
    if shapes and named is not None:
        if isinstance(named, Pixels):
            named = _named(read({}), named)
        shapes = real_shapes(shapes, named)
    loaded = read(shapes)
    return Loaded(loaded, find_pictures(loaded, named))


def _named(model: Model, pixels: Pixels) -> dict[str, Pixels]:
    """By the name of the input that they belong to."""
    values = find_pictures(model, pixels)
    names = zip(model.input_names, model.main.arguments, strict=True)
    return {name: values[value] for name, value in names if value in values}


class RecordedChoices(Mapping[str, str]):
    """Tuned choices that note which of them were asked for: a plan rests on those and no others."""

    def __init__(self, choices: Mapping[str, str]) -> None:
        self._choices = choices
        self.answers: dict[str, str | None] = {}

    def __getitem__(self, key: str) -> str:
        self.answers[key] = self._choices.get(key)
        return self._choices[key]

    def __iter__(self) -> Iterator[str]:
        self.answers.update(self._choices)
        return iter(self._choices)

    def __len__(self) -> int:
        return max(len(self._choices), 1)  # never empty, so that nobody takes another in its place


@contextmanager
def _no_collection() -> Iterator[None]:
    """While many objects are made, Python looks through all of them for garbage again and again: a
    fifth of the time that a plan takes. It can do so afterwards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_no_collection()
def compile_model(
    model: str | bytes,
    device: DeviceInfo,
    wish: CompileOptions,
    choices: Mapping[str, str],
    timings: dict[str, float],
) -> Compiled:
    """The plan of a model for a device; notes how long each stage took."""
    last = time.perf_counter()
    loaded = load_model(model, wish)
    last = _note(timings, "read", last)
    graph = rewrite(loaded.graph)
    last = _note(timings, "rewrite", last)
    asked = RecordedChoices(choices)
    plan = make_plan(graph, probe(device, has_quantised_steps(graph)), wish.options, asked)
    _note(timings, "lower", last)
    names = (loaded.model.input_names, loaded.model.output_names)
    lasts = not any(isinstance(node.attributes, Custom) for node in loaded.model.main.nodes)
    return Compiled(plan, *names, asked.answers, loaded.open_sizes, lasts, loaded.pixels)


def _note(timings: dict[str, float], title: str, last: float) -> float:
    now = time.perf_counter()
    timings[title] = now - last
    return now


def stage_text(model: str | bytes, stage: str, device: DeviceInfo, wish: CompileOptions) -> str:
    """The text of one stage of a model's way: 'graph', 'rewritten', 'plan' or 'kernels'."""
    if stage not in STAGES:
        raise InputError(
            f"there is no stage {stage!r}", "stages have names", nearest(stage, STAGES)
        )
    graph = load_model(model, wish).graph
    if stage == "graph":
        return str(graph)
    graph = rewrite(graph)
    if stage == "rewritten":
        return str(graph)
    plan = make_plan(graph, probe(device, has_quantised_steps(graph)), wish.options)
    return str(plan) if stage == "plan" else plan.program.text
