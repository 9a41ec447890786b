"""Constants in OpenCL memory, shared by all players of a context."""

from __future__ import annotations

from functools import partial

from fourfold.plan import Buffer, Plan
from fourfold.players.opencl import binding as cl
from fourfold.players.shared_uploads import SharedUploads, Upload

_uploads: SharedUploads[cl.Buffer] = SharedUploads()


class SharedBuffer(cl.Buffer):
    """One player's reference to a shared buffer; the last one frees it."""

    def __init__(self, held: Upload[cl.Buffer]) -> None:
        self.pointer, self._held = held.memory.pointer, held

    def release(self) -> None:
        self.pointer = None
        self.__dict__.pop("_held", None)


def upload_constants(context: cl.Context, plan: Plan, buffer: Buffer) -> cl.Buffer:
    """Return the constants of a plan's buffer as already uploaded in this context, or
    upload them.
    """
    return SharedBuffer(_uploads.hold(context, plan, buffer, partial(cl.Buffer.of, context)))
