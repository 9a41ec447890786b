"""Buffers of a plan that every run has its own copy of."""

from __future__ import annotations

from collections import Counter

from fourfold.plan import BufferUse, Launch, Plan

# Kinds of buffers of which a run in flight has its own copy.
PORT_KINDS = ("input", "output", "host")


def port_buffers(plan: Plan) -> set[int]:
    """Return the buffers that each run in flight has its own copy of: inputs and outputs that are
    not variables of the model, and the flags of the host protocol.
    """
    ports = {port.buffer for port in (*plan.inputs, *plan.outputs)}
    kinds = {number: buffer.kind for number, buffer in enumerate(plan.buffers)}
    return {
        n
        for n, kind in kinds.items()
        if kind == "host_protocol" or (n in ports and kind in PORT_KINDS)
    }


def movable_buffers(plan: Plan) -> set[int]:
    """Return those of them that can be replaced with memory of the caller: used by a
    single port.
    """
    ports = Counter(port.buffer for port in (*plan.inputs, *plan.outputs))
    return {number for number in port_buffers(plan) if ports[number] == 1}


def used_buffers(launch: Launch) -> set[int]:
    """Return the buffers that a launch uses."""
    return {one.buffer for one in launch.arguments if isinstance(one, BufferUse)}
