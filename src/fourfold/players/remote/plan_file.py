"""Send a plan to another machine as a prepared file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fourfold.device import DeviceInfo
from fourfold.plan import Compiled, Plan
from fourfold.players.remote.machine import Machine
from fourfold.store.draft import Draft
from fourfold.store.keys import digest, program_parts


def send_plan(
    machine: Machine, name: str, device: DeviceInfo, plan: Plan, binary: bytes | None = None
) -> None:
    """Copy a plan to the machine under a name, with its program's binary if there is one."""
    inputs, outputs = (tuple(one.name for one in ports) for ports in (plan.inputs, plan.outputs))
    draft = Draft()
    number = draft.add_model(plan.name, digest(plan.program.text.encode()), 0)
    draft.add_plan(number, device, Compiled(plan, inputs, outputs), {})
    if binary is not None:
        draft.add_binary(program_parts(plan.program, device), binary)
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        path = Path(folder) / name
        draft.write(path)
        machine.link.push(path, machine.path(name))
