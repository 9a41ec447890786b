"""What a caller says of a model: what is to be compiled of it, and where it may run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fourfold.config import PLACEMENTS, PRECISIONS, Config, byte_size
from fourfold.errors import InputError, nearest
from fourfold.lazy import lazy_import
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold import pixels as pixel_options
    from fourfold.pixels import PixelsOption
    from fourfold.placement import OperatorPlacement
    from fourfold.processing import option as processing
    from fourfold.processing.option import PostprocessOption
else:  # few callers ask for either
    pixel_options = lazy_import("fourfold.pixels")
    processing = lazy_import("fourfold.processing.option")


@dataclass(frozen=True)
class MemoryLimit:
    """What a session may take on the device, and whether precision may be given for it: only where
    the caller named none.
    """

    bytes: int
    any_precision: bool = False

    @staticmethod
    def of(size: int | str, any_precision: bool) -> MemoryLimit:
        return MemoryLimit(byte_size("memory_limit", size), any_precision)

    def __str__(self) -> str:
        return f"{self.bytes} bytes, {'any' if self.any_precision else 'this'} precision"


@dataclass(frozen=True)
class CompileOptions:
    """What is to be compiled: in which precision, for which shapes, in which form."""

    precision: str = "fp32"
    shapes: Mapping[str, Shape] = field(default_factory=dict)  # of inputs by name, if not their own
    literal_sizes: bool = False  # sizes are numbers in kernels: good code, but one build a layer
    launches: str = "auto"  # a 'list' of them, 'one', or as the device likes
    quantized: bool = True  # whether quantised operators may run as their float view
    follow_batch: bool = True  # whether a batch goes through reshapes that have another one in them
    pixels: PixelsOption | None = None  # inputs that come as the bytes of pictures
    postprocess: PostprocessOption | None = None  # what is to be made of outputs
    signature: str | None = None  # the way to call the model, if not by its first graph
    memory_limit: MemoryLimit | None = None  # beyond which plans are made smaller, or refused
    saves_memory: bool = False  # whether kernels are left out that buy speed with memory
    outputs: tuple[str, ...] = ()  # those that are wanted alone, in the model's order; (): all
    clocked: bool = False  # whether stages of one launch note their times, for profiling

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            what, why = f"there is no precision {self.precision!r}", ", ".join(PRECISIONS)
            fix = nearest(str(self.precision), PRECISIONS)
            raise InputError(what, f"precisions are {why}", fix)
        if self.pixels is not None:
            object.__setattr__(self, "pixels", pixel_options.checked_pixels(self.pixels))
        if self.postprocess is not None:
            wanted = processing.checked_postprocess(self.postprocess)
            object.__setattr__(self, "postprocess", wanted)

    @staticmethod
    def from_config(
        config: Config,
        precision: str | None = None,
        shapes: Mapping[str, Shape] | None = None,
        pixels: PixelsOption | None = None,
        postprocess: PostprocessOption | None = None,
        signature: str | None = None,
        memory_limit: int | str | None = None,
    ) -> CompileOptions:
        """What the settings say, where the caller does not."""
        limit = config.memory_limit if memory_limit is None else memory_limit
        return CompileOptions(
            precision=config.precision if precision is None else precision,
            shapes=dict(shapes or {}),
            literal_sizes=config.sizes == "literal",
            launches=config.launches,
            pixels=pixels,
            postprocess=postprocess,
            signature=signature,
            memory_limit=None if limit is None else MemoryLimit.of(limit, precision is None),
        )


@dataclass(frozen=True)
class PlacementOptions:
    """Where a model may run; see Session. Without a caller's word, 'auto' goes by estimates."""

    placement: str = "auto"
    measured: bool = False  # 'auto' runs the model on the device and on the CPU, and compares
    strict: bool = False
    max_partitions: int | None = None
    threads: int | None = None
    on_fallback: Callable[[OperatorPlacement], None] | None = None
    reason: str = ""  # why everything is to be on the CPU, where the caller did not ask for it

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            what, why = f"there is no placement {self.placement!r}", "placements have names"
            raise InputError(what, why, nearest(str(self.placement), PLACEMENTS))
        if self.max_partitions is not None and self.max_partitions < 0:
            what = f"max_partitions is {self.max_partitions}"
            raise InputError(what, "it counts parts on the GPU", "pass 0 or more, or leave it out")

    @property
    def only_cpu(self) -> bool:
        """Whether it is clear beforehand that nothing runs on the device."""
        return self.placement == "cpu" or self.max_partitions == 0

    @property
    def thread_count(self) -> int:
        """Threads of the CPU: all processors where the caller does not say."""
        return self.threads or os.cpu_count() or 1
