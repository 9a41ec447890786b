"""CUDA programs: built by NVRTC, or loaded from what it built before."""

from __future__ import annotations

from contextlib import suppress
from weakref import WeakValueDictionary

from fourfold.device import DeviceInfo
from fourfold.lazy import lazy_import
from fourfold.plan import Program
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.devices import context_of
from fourfold.players.cuda.image import Image, unpack

nvrtc = lazy_import("fourfold.players.cuda.nvrtc")  # who plays what is kept needs no compiler


class BuiltModule:
    """A module on a device, and the image that it was loaded from."""

    def __init__(self, device: DeviceInfo, image: Image) -> None:
        self.image, self._context = image, context_of(device)
        with self._context.current():
            self.module = cu.Module(image.code_for(device.architectures[0]))

    def __del__(self) -> None:
        if getattr(self, "module", None) is not None:
            with suppress(cu.Error), self._context.current():  # the process may be at its end
                self.module.release()


# Programs that some player holds: the same text is built once, for whatever sizes it runs.
_live: WeakValueDictionary[tuple[cu.Context, Program], BuiltModule] = WeakValueDictionary()


def live_program(device: DeviceInfo, program: Program) -> BuiltModule | None:
    """The program as another player of this process has it; None where none does."""
    return _live.get((context_of(device), program))


def hold_program(device: DeviceInfo, program: Program, built: BuiltModule) -> None:
    """Let other players find it for as long as somebody holds it."""
    _live[context_of(device), program] = built


def build_text(device: DeviceInfo, program: Program) -> BuiltModule:
    """The program, by the compiler."""
    return BuiltModule(device, nvrtc.build(program, device.architectures[0]))


def load_binary(device: DeviceInfo, binary: bytes) -> BuiltModule | None:
    """The program, without the compiler; None where the binary is damaged, or the driver does not
    take it: a compiler that is newer than the driver may have made it.
    """
    image = unpack(binary)
    if image is None:
        return None
    try:
        return BuiltModule(device, image)
    except cu.Error as error:
        if error.refused:
            return None
        raise
