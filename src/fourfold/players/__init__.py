"""Backends: each folder runs plans with one GPU API. Other packages find devices here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fourfold.device import DeviceInfo
from fourfold.plan import Plan
from fourfold.players.connections import ConnectionLost
from fourfold.players.discovery import (
    by_other_apis,
    devices,
    devices_of,
    find_device,
    find_target,
    names_api,
    say_other_api,
    why_no_compiler,
    with_threads,
)
from fourfold.players.probing import (
    ask_facts,
    begin_trials,
    check_verdict,
    describe_verdict,
    keep_facts,
    note_facts,
    probe,
    ready_to_play,
    recall_facts,
    with_known_facts,
)
from fourfold.players.protocol import (
    Backend,
    BoundRun,
    BuiltProgram,
    DeviceMemory,
    Into,
    LaunchOutput,
    LaunchTimer,
    OutputDifference,
    Outputs,
    Player,
    Slot,
)
from fourfold.players.registry import backend_of, backends

if TYPE_CHECKING:
    from fourfold.store.store import Store

__all__ = [
    "Backend",
    "BoundRun",
    "BuiltProgram",
    "ConnectionLost",
    "DeviceMemory",
    "Into",
    "LaunchOutput",
    "LaunchTimer",
    "OutputDifference",
    "Outputs",
    "Player",
    "Slot",
    "ask_facts",
    "backend_of",
    "backends",
    "begin_trials",
    "by_other_apis",
    "describe_verdict",
    "devices",
    "devices_of",
    "find_device",
    "find_target",
    "keep_facts",
    "make_player",
    "names_api",
    "note_facts",
    "probe",
    "ready_to_play",
    "recall_facts",
    "say_other_api",
    "why_no_compiler",
    "with_known_facts",
    "with_threads",
]


def make_player(
    device: DeviceInfo,
    plan: Plan,
    program: BuiltProgram | None = None,
    store: Store | None = None,
) -> Player:
    """Create a player that runs the plan on the device.

    Facts about the device that are not yet known are read from the store or probed now. Raises a
    DeviceError if the device is known to compute wrong results.
    """
    device = ready_to_play(device, store)
    check_verdict(device, plan.precision, plan.requirements.loop_rounds)
    return backend_of(device).make_player(device, plan, program)
