"""Constants in OpenCL's memory, once for all players of a context."""

from __future__ import annotations

from functools import partial

from fourfold.plan import Buffer, Plan
from fourfold.players.opencl import binding as cl
from fourfold.players.shared_uploads import SharedUploads, Upload

_uploads: SharedUploads[cl.Buffer] = SharedUploads()


class SharedBuffer(cl.Buffer):
    """One player's hold of a buffer that others may hold, too; the last one gives it back."""

    def __init__(self, held: Upload[cl.Buffer]) -> None:
        self.pointer, self._held = held.memory.pointer, held

    def release(self) -> None:
        self.pointer = None
        self.__dict__.pop("_held", None)


def upload_constants(context: cl.Context, plan: Plan, buffer: Buffer) -> cl.Buffer:
    """The constants in a buffer of a plan as another player of this context has them, else a new
    copy of them.
    """
    return SharedBuffer(_uploads.hold(context, plan, buffer, partial(cl.Buffer.of, context)))
