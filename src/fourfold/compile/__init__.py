"""From a model file to a plan: the long way, which a start from the store avoids.

load: the file is read in the shapes that were asked for, cut to the outputs that were (outputs).
pipeline: a graph is rewritten, the device asked for its facts, and a plan made; nobody else does.
placement: which parts of a model run where, decided with the help of support.
hybrid: a model in such parts, each as what its engine needs.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fourfold.compile.load import LoadedModel, load_model
from fourfold.compile.memory_limit import within_limit
from fourfold.compile.outputs import share_left_out
from fourfold.compile.pipeline import (
    LoweringInput,
    plan_graph,
    prepare_lowering,
)
from fourfold.compile.recorded_choices import RecordedChoices
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, nearest
from fourfold.log import Log
from fourfold.ops.custom import Custom
from fourfold.options import CompileOptions
from fourfold.plan import Compiled, Plan
from fourfold.rewrite import rewrite
from fourfold.timings import Timings

__all__ = [
    "STAGES",
    "LoadedModel",
    "LoweringInput",
    "compile_model",
    "load_model",
    "plan_graph",
    "prepare_lowering",
    "share_left_out",
    "stage_text",
]
log = Log("compile")
STAGES = ("graph", "rewritten", "plan", "kernels")


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
    options: CompileOptions,
    choices: Mapping[str, str],
    timings: Timings,
) -> Compiled:
    """The plan of a model for a device; notes how long each stage took."""
    with timings.stage("read"):
        loaded = load_model(model, options)
    log.debug("read %d nodes", len(loaded.model.main.nodes))
    lowering = prepare_lowering(loaded.graph, device, options, timings)

    def make(smaller: CompileOptions) -> tuple[Plan, RecordedChoices]:
        recorded = RecordedChoices(choices)
        return lowering.asked_for(smaller).plan(recorded), recorded

    title = "the model" if isinstance(model, bytes) else os.path.basename(model)
    with timings.stage("lower"):
        plan, recorded = within_limit(title, options, make, lambda made: made[0])
    _log_plan(plan, recorded)
    names = (loaded.model.input_names, loaded.model.output_names)
    lasts = not any(isinstance(node.attributes, Custom) for node in loaded.model.main.nodes)
    return Compiled(
        plan,
        *names,
        recorded.answers,
        loaded.open_sizes,
        lasts,
        pixels=loaded.pixels,
        about=loaded.about,
        signature=options.signature or "",
        postprocess=loaded.postprocess,
    )


def _log_plan(plan: Plan, recorded: RecordedChoices) -> None:
    tuned = {key: choice for key, choice in recorded.answers.items() if choice is not None}
    for key, choice in tuned.items():
        log.debug("tuned before: %s for %s", choice, key)
    line = "planned: launches %d, stages %d, bytes on the device %d; %d of %d choices are tuned"
    sizes = (len(plan.launches), plan.stages, plan.device_bytes)
    log.debug(line, *sizes, len(tuned), len(recorded.answers))


def stage_text(model: str | bytes, stage: str, device: DeviceInfo, options: CompileOptions) -> str:
    """The text of one stage of a model's way: 'graph', 'rewritten', 'plan' or 'kernels'."""
    if stage not in STAGES:
        raise InputError(
            f"there is no stage {stage!r}", "stages have names", nearest(stage, STAGES)
        )
    if stage == "graph":  # which shows what runs nowhere, too
        return str(load_model(model, options, keep_unsupported=True).graph)
    graph = load_model(model, options).graph
    if stage == "rewritten":
        return str(rewrite(graph))
    plan = plan_graph(graph, device, options)
    return str(plan) if stage == "plan" else plan.program.text
