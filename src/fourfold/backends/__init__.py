"""Backends: each folder runs plans with one GPU API. Other packages find devices here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fourfold.backends.connections import ConnectionLost
from fourfold.backends.discovery import (
    devices,
    devices_of,
    find_compiler_problem,
    find_device,
    find_target,
    names_api,
    same_gpu_in_other_apis,
    warn_other_api,
    with_threads,
)
from fourfold.backends.probing import (
    add_facts,
    check_verdict,
    describe_verdict,
    determine_facts,
    load_facts,
    probe,
    start_probes,
    store_facts,
    with_known_facts,
    with_run_facts,
)
from fourfold.backends.protocol import (
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
from fourfold.backends.registry import backend_of, backends
from fourfold.device import DeviceInfo
from fourfold.plan import Plan

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
    "add_facts",
    "backend_of",
    "backends",
    "describe_verdict",
    "determine_facts",
    "devices",
    "devices_of",
    "find_compiler_problem",
    "find_device",
    "find_target",
    "load_facts",
    "make_player",
    "names_api",
    "probe",
    "same_gpu_in_other_apis",
    "start_probes",
    "store_facts",
    "warn_other_api",
    "with_known_facts",
    "with_run_facts",
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
    device = with_run_facts(device, store)
    check_verdict(device, plan.precision, plan.requirements.loop_rounds)
    return backend_of(device).make_player(device, plan, program)
