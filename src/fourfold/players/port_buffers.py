"""Buffers of a plan by what they are to runs: those that a run has of its own can be elsewhere."""

from __future__ import annotations

from collections import Counter

from fourfold.plan import BufferUse, Launch, Plan

IN_AND_OUT = ("input", "output", "host")  # kinds of buffers that a run in flight has of its own


def port_buffers(plan: Plan) -> set[int]:
    """The buffers that each run in flight has of its own: what goes in and out, unless it is a
    variable of the model, and the flags by which kernels and the host speak of it.
    """
    ports = {port.buffer for port in (*plan.inputs, *plan.outputs)}
    kinds = {number: buffer.kind for number, buffer in enumerate(plan.buffers)}
    return {
        n
        for n, kind in kinds.items()
        if kind == "host_protocol" or (n in ports and kind in IN_AND_OUT)
    }


def movable_buffers(plan: Plan) -> set[int]:
    """Those of them that kernels can use where a caller has them: of one port alone."""
    ports = Counter(port.buffer for port in (*plan.inputs, *plan.outputs))
    return {number for number in port_buffers(plan) if ports[number] == 1}


def used_buffers(launch: Launch) -> set[int]:
    """The buffers that a launch sees."""
    return {one.buffer for one in launch.arguments if isinstance(one, BufferUse)}
