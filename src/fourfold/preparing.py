"""Makes models ready for shipping: plans, binaries and tuned choices into the draft of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fourfold.compile import Wish, compile_model
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.formats import read_model
from fourfold.kernel.site import Options
from fourfold.players.null import NULL_GPU
from fourfold.players.opencl import Player
from fourfold.players.probe import probed
from fourfold.rewrite import rewrite
from fourfold.store.draft import Draft
from fourfold.store.keys import device_key, program_parts
from fourfold.store.models import digest_file
from fourfold.store.shipped import known_choices
from fourfold.store.store import Store
from fourfold.tune import Listener, tune
from fourfold.tune.race import Result

ANY_GPU = replace(NULL_GPU, name="any gpu", half_arithmetic=False)
ANY_CPU = replace(ANY_GPU, name="any cpu", kind="cpu", max_work_group=1024)
KINDS = {"gpu": ANY_GPU, "cpu": ANY_CPU}
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class How:
    """How models are prepared."""

    wish: Wish = field(default_factory=Wish)
    level: str = "none"
    deadline: float | None = None
    everywhere: bool = True  # also plans for devices of other kinds than those at hand


class Keeping(Listener):
    """Keeps each choice the moment it is found, so that an interruption loses none."""

    def __init__(self, store: Store | None, device: DeviceInfo, progress: Progress) -> None:
        self._store, self._device, self._progress = store, device_key(device), progress

    def found(self, key: str, result: Result) -> None:
        if self._store is not None:
            self._store.put_choice(self._device, key, result.way, result.seconds)

    def progress(self, done: int, total: int, title: str) -> None:
        self._progress(done, total, title)


def tune_model(
    model: str, device: DeviceInfo, how: How, store: Store | None, progress: Progress
) -> dict[str, str]:
    """The tuned choices for a device: those that are kept, and what a search adds to them."""
    known = dict(known_choices(device))
    if store is not None:
        known |= store.choices(device_key(device))
    if how.level == "none":
        return known
    graph = rewrite(read_model(model, how.wish.shapes).main)
    options = Options(how.wish.precision, how.wish.literal)
    listener = Keeping(store, device, progress)
    return tune(graph, probed(device), options, how.level, how.deadline, known, listener)


def prepare_model(
    draft: Draft, model: Path, device: DeviceInfo, how: How, choices: Mapping[str, str]
) -> dict[str, Any]:
    """Put a model into the draft, ready for a device; gives what that took."""
    timings: dict[str, float] = {}
    compiled = compile_model(str(model), device, how.wish, choices, timings)
    number = draft.add_model(model.stem, digest_file(model)[2], model.stat().st_size)
    draft.add_plan(number, device, compiled, how.wish.shapes)
    used = {key: choice for key, choice in compiled.choices.items() if choice is not None}
    if used:
        draft.add_choices(device_key(device), used)
    player = Player(device, compiled.plan)
    try:
        # PoCL compiles a kernel when it first runs; a binary fetched before that would lack it.
        ports = compiled.plan.inputs
        player.run([np.zeros(port.type.shape, port.type.dtype.numpy) for port in ports])
        binary = _binary(player)
    finally:
        player.close()
    if binary is not None:
        draft.add_binary(program_parts(compiled.plan.program, device), binary)
    return {"launches": len(compiled.plan.launches), "binary": len(binary or b""), **timings}


def prepare_kinds(draft: Draft, model: Path, how: How, present: set[str]) -> list[str]:
    """Plans for devices of the kinds that are not at hand, which build them from text."""
    made = []
    for kind, device in KINDS.items():
        if kind in present or how.wish.precision == "fp16":
            continue
        compiled = compile_model(str(model), device, how.wish, {}, {})
        number = draft.add_model(model.stem, digest_file(model)[2], model.stat().st_size)
        draft.add_plan(number, device, compiled, how.wish.shapes)
        made.append(device.name)
    return made


def _binary(player: Player) -> bytes | None:
    try:
        return player.binary()
    except FourfoldError:
        return None
