"""Options: everything a caller can set when a model is opened, checked, prepared or measured.

`SessionOptions` has every option. It is split once: `CompileOptions` say what to compile, and
`PlacementOptions` say where it may run. The rest says how the session runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.config import (
    PLACEMENTS,
    PRECISIONS,
    Config,
    PlacementName,
    Precision,
    byte_size,
    count,
)
from fourfold.errors import InputError, nearest
from fourfold.support.lazy import lazy_import
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.plan.placement import OperatorPlacement
    from fourfold.processing import option as processing
    from fourfold.processing import pixels as pixel_options
    from fourfold.processing.option import PostprocessOption
    from fourfold.processing.pixels import PixelsOption
    from fourfold.support.progress import ProgressOption
else:  # few callers use either
    pixel_options = lazy_import("fourfold.processing.pixels")
    processing = lazy_import("fourfold.processing.option")

AUTO = "auto"
MAX_VALUE_CHARACTERS = 200  # of a wrong value in a message
# Types of options that are checked when they are passed; others are checked where they are used.
_TEXT, _FLAG = ((str,), "a text"), ((bool, int, np.bool_), "True or False")
_PATH = ((str, os.PathLike), "a path")
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("precision", "model", "placement", "signature", "model_token"), _TEXT),
    **dict.fromkeys(("strict", "isolate", "quantized", "follow_batch"), _FLAG),
    "shapes": ((Mapping,), "a dict of shapes by the names of inputs"),
    "max_partitions": ((int, np.integer), "a whole number"),
    "memory_limit": ((int, str, np.integer), "a number of bytes, or text such as '512 MB'"),
    "on_fallback": ((Callable,), "a function"),  # type: ignore[dict-item]
    "serialization_dir": _PATH,
    "progress": ((bool, Callable), "True, or a function"),  # type: ignore[dict-item]
}


@dataclass(frozen=True)
class SessionOptions:
    """Every option of a `Session`, under the names of its keywords. `check`, `estimate`, `prepare`,
    `verify`, `benchmark` and the commands take the same options with the same meaning.

    Args:
        device: 'auto', an index, part of a device's name, or a queue, context or stream to share.
        precision: 'fp32', 'mixed' (fp16 storage, fp32 arithmetic) or 'fp16'.
        shapes: Shapes of inputs by name, where they differ from the model's own.
        cache: 'auto' (the user's cache folder), a folder, 'memory' (this process), or None.
        model: Name of the model, for a prepared file that holds several.
        placement: 'auto' (the device, except operators that it cannot run or would run slower),
            'measure' (as 'auto', then time the model on the CPU and keep the faster), 'gpu' (every
            operator that the device can run) or 'cpu'.
        strict: Raise an error if any operator would run on the CPU.
        max_partitions: Largest number of parts on the device.
        on_fallback: Function to call with each operator that stays on the CPU.
        threads: Number of CPU threads.
        isolate: Run CPU engines in another process, for models that may be hostile.
        quantized: Let quantized operators run on the device.
        follow_batch: Let reshapes with a fixed batch size follow another batch.
        kept_shapes: Number of input shapes that the model stays ready for.
        memory_limit: Largest device memory of the session, in bytes or as text such as '512 MB'.
        signature: Signature by which the model is called.
        pixels: Inputs that take the bytes of a picture: `Pixels`, or a dict of them by name.
        postprocess: Postprocessing of outputs on the device, from `fourfold.processing`.
        trust: Files that may run the code they hold: 'extension' (those whose extension says what
            they are), 'data' (none), 'signed:KEY' (prepared files signed with a key) or 'all'.
        serialization_dir: TFLite's name for `cache`.
        model_token: TFLite's name for a string that tells versions of a model apart in the cache.
        progress: True for a progress bar, or a function (done, total, stage, seconds left).
    """

    device: object = None
    precision: Precision | None = None
    shapes: Mapping[str, Shape] | None = None
    cache: Any = AUTO
    model: str | None = None
    placement: PlacementName = "auto"
    strict: bool = False
    max_partitions: int | None = None
    on_fallback: Callable[[OperatorPlacement], None] | None = None
    threads: int | None = None
    isolate: bool = False
    quantized: bool = True
    follow_batch: bool = True
    kept_shapes: int | None = None
    memory_limit: int | str | None = None
    signature: str | None = None
    pixels: PixelsOption | None = None
    postprocess: PostprocessOption | None = None
    trust: str | None = None
    serialization_dir: str | os.PathLike[str] | None = None
    model_token: str = ""
    progress: ProgressOption | None = None

    def __post_init__(self) -> None:
        for name, (types, expected) in _TYPES.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, types):
                what, why = f"{name} is {shortened(value)}", f"it must be {expected}"
                raise InputError(what, why, "pass another value, or leave it out")

    @staticmethod
    def of(keywords: Mapping[str, Any]) -> SessionOptions:
        """Return options from keywords; InputError names the nearest one for an unknown keyword."""
        known = [item.name for item in fields(SessionOptions)]
        for name in keywords:
            if name not in known:
                what, why = f"{name!r} is not an option", f"options are {', '.join(known)}"
                raise InputError(what, why, nearest(name, known))
        return SessionOptions(**keywords)

    def keywords(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            item.name: values[item.name]
            for item in fields(self)
            if values[item.name] is not item.default
        }

    def settings(self) -> Config:
        """Return the settings of this process, with the caller's `trust` in place of theirs."""
        config = Config.from_environment()
        return config if self.trust is None else replace(config, trust=self.trust)

    def wanted_device(self, config: Config) -> object:
        """Return the device that the caller or the settings name."""
        return config.device if self.device is None else self.device

    def compile_options(self, config: Config) -> CompileOptions:
        """Return what to compile; the settings apply where the caller says nothing."""
        limit = config.memory_limit if self.memory_limit is None else self.memory_limit
        return CompileOptions(
            precision=config.precision if self.precision is None else self.precision,
            any_precision=self.precision is None,
            shapes=checked_shapes(self.shapes or {}),
            literal_sizes=config.sizes == "literal",
            launches=config.launches,
            quantized=self.quantized,
            follow_batch=self.follow_batch,
            pixels=self.pixels,
            postprocess=self.postprocess,
            signature=self.signature,
            memory_limit=None if limit is None else byte_size("memory_limit", limit),
        )

    def placement_options(self, config: Config) -> PlacementOptions:
        """Return where the model may run."""
        threads = config.threads if self.threads is None else count("threads", self.threads)
        return PlacementOptions(
            placement="cpu" if _is_cpu(self.wanted_device(config)) else self.placement,
            strict=self.strict,
            max_partitions=self.max_partitions,
            threads=threads,
            isolate=self.isolate,
            on_fallback=self.on_fallback,
        )

    def shape_limit(self, config: Config) -> int:
        """Return the number of input shapes that a session stays ready for."""
        if self.kept_shapes is None:
            return config.kept_shapes
        return count("kept_shapes", self.kept_shapes)


def _is_cpu(device: object) -> bool:
    return isinstance(device, str) and device == "cpu"


def shortened(value: object) -> str:
    """Return a value that a caller passed for a message."""
    text = repr(value)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}…"


def checked_shapes(shapes: Mapping[str, Any]) -> dict[str, Shape]:
    """Return shapes by name as tuples of integers; InputError for anything else."""
    try:
        if not all(isinstance(name, str) for name in shapes):
            raise TypeError("a name is not a text")
        return {name: tuple(map(index, sizes)) for name, sizes in shapes.items()}
    except TypeError as error:
        what = f"{shortened(shapes)} are not shapes"
        why = "a shape is a tuple of whole numbers, by the name of an input"
        raise InputError(what, why, "write it as {'name': (1, 224, 224, 3)}") from error


@dataclass(frozen=True)
class CompileOptions:
    """Options of compilation: the precision, the shapes, and the form of inputs and outputs."""

    precision: str = "fp32"
    any_precision: bool = False  # the caller named none: another is acceptable where it must be
    shapes: Mapping[str, Shape] = field(
        default_factory=dict
    )  # of inputs by name, if not the model's
    literal_sizes: bool = False  # sizes are literals in kernels: fast code, but a build per layer
    launches: str = "auto"  # a 'list' of launches, 'one', or whichever suits the device
    quantized: bool = True  # quantized operators may run on their dequantized values
    follow_batch: bool = True  # reshapes with a fixed batch size follow another batch
    pixels: PixelsOption | None = None  # inputs that take the bytes of pictures
    postprocess: PostprocessOption | None = None  # postprocessing of outputs
    signature: str | None = None  # signature to call, if not the main graph
    memory_limit: int | None = None  # bytes on the device; larger plans are made smaller or refused
    saves_memory: bool = False  # leave out kernels that trade memory for speed
    outputs: tuple[str, ...] = ()  # the only outputs to compute, in the model's order; (): all
    clocked: bool = False  # stages of one launch record their times, for profiling

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            what, why = f"there is no precision {self.precision!r}", ", ".join(PRECISIONS)
            fix = nearest(str(self.precision), PRECISIONS)
            raise InputError(what, f"precisions are {why}", fix)
        if self.pixels is not None:
            object.__setattr__(self, "pixels", pixel_options.checked_pixels(self.pixels))
        if self.postprocess is not None:
            checked = processing.checked_postprocess(self.postprocess)
            object.__setattr__(self, "postprocess", checked)

    @property
    def pixels_text(self) -> str:
        """The text form of `pixels`; '' where no input takes pixels."""
        return "" if self.pixels is None else str(pixel_options.pixels_text(self.pixels))

    @property
    def postprocess_text(self) -> str:
        """The text form of `postprocess`; '' where there is none."""
        if self.postprocess is None:
            return ""
        return str(processing.postprocess_text(self.postprocess))


@dataclass(frozen=True)
class PlacementOptions:
    """Options of placement; see `SessionOptions`."""

    placement: str = "auto"
    strict: bool = False
    max_partitions: int | None = None
    threads: int | None = None
    isolate: bool = False
    on_fallback: Callable[[OperatorPlacement], None] | None = None
    reason: str = ""  # why everything runs on the CPU, where the caller did not ask for it

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            what, why = f"there is no placement {self.placement!r}", ", ".join(PLACEMENTS)
            fix = nearest(str(self.placement), PLACEMENTS)
            raise InputError(what, f"placements are {why}", fix)
        if self.max_partitions is not None and self.max_partitions < 0:
            what = f"max_partitions is {self.max_partitions}"
            why = "it is the largest number of parts on the device"
            raise InputError(what, why, "pass 0 or more, or leave it out")

    @property
    def only_cpu(self) -> bool:
        """True if the options exclude the device."""
        return self.placement == "cpu" or self.max_partitions == 0

    @property
    def is_measured(self) -> bool:
        """True if the model is timed on the device and on the CPU, and stays where it is faster."""
        return self.placement == "measure" and not self.strict

    @property
    def thread_count(self) -> int:
        """Number of CPU threads; all processors where the caller does not say."""
        return self.threads or os.cpu_count() or 1
