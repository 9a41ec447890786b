"""Session: a model made ready on a device, from arrays to arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from fourfold import players
from fourfold.config import Config, PlacementName, Precision, count
from fourfold.lazy import lazy_import
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.plan import Plan
from fourfold.players.null import NULL_GPU
from fourfold.runtime.inputs import Inputs
from fourfold.runtime.model_runner import ModelRunner
from fourfold.runtime.opening import (
    AUTO,
    Cache,
    Model,
    check_precision,
    find_store,
    model_reader,
    path_or_bytes,
    session_device,
)
from fourfold.runtime.request import Request
from fourfold.timings import Timings
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold import compile as compiler
    from fourfold.metadata import ModelMetadata, Signature
    from fourfold.pixels import PixelsOption
    from fourfold.placement import OperatorPlacement, Placement
    from fourfold.processing.option import PostprocessOption
    from fourfold.progress import ProgressOption
    from fourfold.report.run_report import report as reports
    from fourfold.runtime import description, stages
else:
    reports = lazy_import("fourfold.report.run_report.report")
    compiler = lazy_import("fourfold.compile")
    description = lazy_import("fourfold.runtime.description")
    stages = lazy_import("fourfold.runtime.stages")

_NOT_SENT = ("self", "__class__", "progress")  # another process shows nothing to anybody
Stage = Literal["graph", "rewritten", "plan", "kernels"]


class Session(ModelRunner):
    """A model made ready on one device. May be used from any thread; `close` or `with` frees it.

    `source` is a model's file or folder, or a prepared file: its path, its bytes (any buffer, such
    as a `bytearray` or an `mmap`), or the file itself, opened as 'rb'; or a tuple of the paths of a
    model's files where these do not lie beside each other. A model of TensorFlow, Keras or PyTorch
    is converted first. `model` chooses among several models in a prepared file.
    `device` is 'auto', a number, or part of a name (see `fourfold.devices()`), or a
    `pyopencl.CommandQueue` or `Context` that the session is to share. `precision` is
    'fp32', 'mixed' (halves in memory, floats in arithmetic) or 'fp16'. `shapes` sets the shape of
    inputs by name. `cache` is where plans and binaries are kept: 'auto' (the user's folder, or
    FOURFOLD_CACHE), a folder, 'memory' (of this process), or None. TFLite's names
    `serialization_dir` and `model_token` are understood, too.

    What cannot run on the device, or does not pay there, runs on the CPU; `session.placement` says
    what and why. `placement` is 'auto' (the model is run on the device and on the CPU once, and
    stays where it is faster), 'gpu' (all that can) or 'cpu', for which `device='cpu'` stands, too;
    without it the model stays on the device as far as that pays. `strict=True` makes anything on
    the CPU an error; `max_partitions` limits the parts on the GPU; `on_fallback` is called with
    each operator that stays on the CPU; `threads` are those of the CPU, be it a device or not.
    `quantized=False` keeps quantised operators off the device, as TFLite's option does: they run on
    the CPU, or with `strict=True` are an error.

    `kept_shapes` is for how many shapes the model stays ready (see `resize`); `follow_batch=False`
    takes reshapes literally where a batch is changed, as LiteRT does. `memory_limit`, in bytes or
    as '512 MB', is what all of it may take on the device: smaller plans are tried, then it is an
    error. `pixels` makes an input take the bytes of a picture instead of floats: a
    `fourfold.Pixels` for the only picture, or a dict of them by name. `postprocess` makes something
    of outputs on the device: an option of `fourfold.processing`, or a dict of such by output.
    `signature` calls the model by one of `session.signatures`: inputs and outputs have the names
    that it gives them. `progress=True` shows a bar in a terminal or a notebook while the model is
    opened; a function is called with (done, total, stage, seconds left).
    """

    def __init__(  # noqa: PLR0913 - each is an option that callers know by name
        self,
        source: Model,
        device: object = None,
        precision: Precision | None = None,
        shapes: Mapping[str, Shape] | None = None,
        *,
        cache: Cache = AUTO,
        model: str | None = None,
        placement: PlacementName | None = None,
        strict: bool = False,
        max_partitions: int | None = None,
        on_fallback: Callable[[OperatorPlacement], None] | None = None,
        threads: int | None = None,
        quantized: bool = True,
        follow_batch: bool = True,
        kept_shapes: int | None = None,
        memory_limit: int | str | None = None,
        signature: str | None = None,
        pixels: PixelsOption | None = None,
        postprocess: PostprocessOption | None = None,
        serialization_dir: str | os.PathLike[str] | None = None,
        model_token: str = "",
        progress: ProgressOption | None = None,
    ) -> None:
        source = path_or_bytes(source)  # an open file can be read once, by this process
        self._passed = {name: value for name, value in locals().items() if name not in _NOT_SENT}
        config, timings = Config.from_environment(), Timings()
        wanted = config.device if device is None else device
        placement_options = PlacementOptions(
            placement="cpu" if wanted == "cpu" else placement or "auto",
            measured=placement == "auto" and wanted != "cpu",
            strict=strict,
            max_partitions=max_partitions,
            threads=config.threads if threads is None else count("threads", threads),
            on_fallback=on_fallback,
        )
        with timings.stage("device"):
            self.device = session_device(wanted, placement_options)
        stated = (precision, shapes, pixels, postprocess, signature, memory_limit)
        options = CompileOptions.from_config(config, *stated)
        options = replace(options, quantized=quantized, follow_batch=follow_batch)
        store = find_store(cache, serialization_dir, config)
        check_precision(options.precision, self.device, store)
        how = (config, options, placement_options, timings)
        request = Request(source, self.device, *how, model, model_token, precision is None)
        request = request._replace(make_readable=model_reader(source, store, config))
        limit = config.kept_shapes if kept_shapes is None else count("kept_shapes", kept_shapes)
        opens = partial(self._open_by_any_api, request, store, limit, wanted)
        opens() if progress is None else stages.open_with_progress(opens, request, progress)

    def __repr__(self) -> str:
        if not hasattr(self, "_instances"):  # it could not be opened
            return "<Session>"
        return str(description.session_line(self._instance, self._closed))

    def _repr_html_(self) -> str:
        if not hasattr(self, "_instances"):
            return "<p>Session</p>"
        return str(description.session_html(self._instance, self._closed))

    @property
    def metadata(self) -> ModelMetadata:
        """What the model says of itself: its name and author, labels, how inputs are scaled. What
        could not be read is among its `problems`.
        """
        return self._instance.about.metadata

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The named ways to call the model; `signature=` chooses one."""
        return self._instance.about.signatures

    @property
    def plan(self) -> Plan:
        return self._instance.plan

    @property
    def placement(self) -> Placement:
        """Where every operator runs and why: a table as text, `to_json()`, HTML in notebooks."""
        return self._instance.placement

    def report(
        self,
        inputs: Inputs = None,
        *,
        verify: bool = False,
        candidates: bool = False,
        seconds: float = 3.0,
    ) -> reports.RunReport:
        """A report of what ran where, why and how fast: `save` writes one page, `json` gives the
        data, and notebooks show it. Without inputs the model is run on random ones.

        `verify` compares every layer with the CPU runtime of the model's format; `candidates`
        times other ways to run its kernels, for which it takes about a minute; runs are timed for
        so many `seconds`.
        """
        with self._lock:
            arrays = None if inputs is None else self._arrays(inputs)
        names = [info.name for info in self.inputs]
        given = None if arrays is None else dict(zip(names, arrays, strict=True))
        asked = {"verify": verify, "candidates": candidates, "seconds": seconds}
        made: reports.RunReport = reports.report_run(self, self._instance, given, **asked)
        return made

    @property
    def precision(self) -> str:
        return self.plan.precision

    @property
    def origin(self) -> str:
        """Where the plan came from: 'file' (a prepared one), 'store', or made from the 'model'."""
        return self._instance.origin

    @property
    def hit(self) -> bool:
        """Whether nothing had to be made: the plan came from the store or from a prepared file."""
        return self.origin != "model"


def explain_stage(
    model: Model,
    stage: Stage,
    device: str | int | None = None,
    options: CompileOptions | None = None,
) -> str:
    """The text of one stage of a model's way: 'graph', 'rewritten', 'plan' or 'kernels'.

    Without a device it shows what a GPU of no particular make would get.
    """
    config = Config.from_environment()
    options = CompileOptions.from_config(config) if options is None else options
    info = NULL_GPU if device in (None, "null") else players.find_target(device or "auto")
    readable = model_reader(path_or_bytes(model), find_store(AUTO, None, config), config)()
    text = str(compiler.stage_text(readable.content, stage, info, options))
    if not readable.origin:
        return text
    sign = "//" if stage == "kernels" else "#"
    return f"{sign} {readable.origin}\n{text}"
