"""CUDA programs: built by NVRTC, or loaded from what it built before."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.lazy import lazy_import
from fourfold.log import Log
from fourfold.plan import Program
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.devices import context_of
from fourfold.players.cuda.image import Image, unpack

log = Log("players.cuda")

_NO_NEWER = (
    "update NVIDIA's driver, or build with a compiler that is no newer: "
    "pip install nvidia-cuda-nvrtc-cu12"
)
# What helps where the driver does not translate PTX, by its answer.
_TRANSLATES = {
    221: "install all of NVIDIA's driver, of which libnvidia-ptxjitcompiler is a part; a container "
    "gets it by NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    223: "unset CUDA_DISABLE_PTX_JIT",
}
# Who plays what is kept needs no compiler.
nvrtc = lazy_import("fourfold.players.cuda.nvrtc")
linker = lazy_import("fourfold.players.cuda.binding.linker")


class BuiltModule:
    """A module on a device, and the image that it was loaded from."""

    def __init__(self, device: DeviceInfo, image: Image) -> None:
        self.image, self._context = image, context_of(device)
        with self._context:
            self.module = _loaded(image.codes_for(device.architectures[0]))

    def __del__(self) -> None:
        if getattr(self, "module", None) is not None:
            with suppress(cu.Error), self._context:  # the process may be at its end
                self.module.release()


def _loaded(codes: Sequence[bytes]) -> cu.Module:
    """The first of these that the driver takes."""
    for code in codes[:-1]:
        try:
            return cu.Module(code)
        except cu.Error as error:
            if not error.refused:
                raise
    return cu.Module(codes[-1])


# Programs that some player holds: the same text is built once, for whatever sizes it runs.
_live: WeakValueDictionary[tuple[cu.Context, Program], BuiltModule] = WeakValueDictionary()


def live_program(device: DeviceInfo, program: Program) -> BuiltModule | None:
    """The program as another player of this process has it; None where none does."""
    return _live.get((context_of(device), program))


def hold_program(device: DeviceInfo, program: Program, built: BuiltModule) -> None:
    """Let other players find it for as long as somebody holds it."""
    _live[context_of(device), program] = built


def build_text(device: DeviceInfo, program: Program) -> BuiltModule:
    """The program, by the compiler: for the GPU itself, or for an older one if no compiler knows
    it. A DeviceError where the driver is too old for the compiler.
    """
    architecture = nvrtc.known_architecture(device.architectures)
    if architecture == device.architectures[0]:
        built = _built_in_parts(device, program, architecture)
        if built is not None:
            return built
    image = nvrtc.build(program, architecture)
    try:
        return BuiltModule(device, image)
    except cu.Error as error:
        if not error.refused:
            raise
        why = f"the driver has CUDA {device.driver}: {error}"
        what = f"the driver refuses what {image.compiler} builds for {device.name}"
        raise DeviceError(what, why, _TRANSLATES.get(error.status, _NO_NEWER)) from error


def _built_in_parts(device: DeviceInfo, program: Program, architecture: str) -> BuiltModule | None:
    """The program in a fraction of the time, for runs that may take a little longer: what is
    prepared ahead of time is built as a whole. None where it cannot be.
    """
    try:
        parts = nvrtc.build_parts(program, architecture)
        if not parts:
            return None
        with context_of(device):
            code = linker.linked(parts)
        compiler = nvrtc.compiler_of(program, architecture).name
        return BuiltModule(device, Image(architecture, compiler, code, b""))
    except (BuildError, cu.Error) as error:
        if isinstance(error, cu.Error) and error.lost:
            raise
        log.debug("kernels are built as a whole, since their parts are not: %s", error)
        return None


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
        if not error.refused:
            raise
        why = f"code by {image.compiler} for {image.architecture} is refused by {device.name}"
        fix = _TRANSLATES.get(error.status, _NO_NEWER)
        log.warn_once(f"{why}, whose driver has CUDA {device.driver}: {fix}")
        return None
