"""CUDA programs: built with NVRTC, or loaded from a cached build."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.devices import context_of
from fourfold.backends.cuda.image import Image, unpack
from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import Program
from fourfold.support.lazy import lazy_import
from fourfold.support.log import Log

log = Log("backends.cuda")

_NO_NEWER = (
    "update NVIDIA's driver, or build with a compiler that is not newer: "
    "pip install nvidia-cuda-nvrtc-cu12"
)
# Fixes by status if the driver does not translate PTX.
_TRANSLATES = {
    221: "install NVIDIA's driver with libnvidia-ptxjitcompiler; in a container, set "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    223: "unset CUDA_DISABLE_PTX_JIT",
}
# Running cached programs needs no compiler.
nvrtc = lazy_import("fourfold.backends.cuda.nvrtc")
linker = lazy_import("fourfold.backends.cuda.binding.linker")


class BuiltModule:
    """A module on a device, and the image that it was loaded from."""

    def __init__(self, device: DeviceInfo, image: Image) -> None:
        self.image, self._context = image, context_of(device)
        with self._context:
            self.module = _loaded(image.codes_for(device.architectures[0]))

    def __del__(self) -> None:
        if getattr(self, "module", None) is not None:
            with suppress(cu.Error), self._context:  # the process may be exiting
                self.module.release()


def _loaded(codes: Sequence[bytes]) -> cu.Module:
    """Load the first of these that the driver accepts."""
    for code in codes[:-1]:
        try:
            return cu.Module(code)
        except cu.Error as error:
            if not error.refused:
                raise
    return cu.Module(codes[-1])


# Programs that some player holds: the same text is built once, for any input sizes.
_live: WeakValueDictionary[tuple[cu.Context, Program], BuiltModule] = WeakValueDictionary()


def live_program(device: DeviceInfo, program: Program) -> BuiltModule | None:
    """Return the program if another player of this process has it loaded; None otherwise."""
    return _live.get((context_of(device), program))


def hold_program(device: DeviceInfo, program: Program, built: BuiltModule) -> None:
    """Let other players find the program as long as it is in use."""
    _live[context_of(device), program] = built


def build_text(device: DeviceInfo, program: Program) -> BuiltModule:
    """Build the program for the GPU itself, or for an older one if no compiler supports it.

    Raises a DeviceError if the driver is too old for the compiler.
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
        why = f"the driver supports CUDA {device.driver}: {error}"
        what = f"the driver rejects code that {image.compiler} built for {device.name}"
        raise DeviceError(what, why, _TRANSLATES.get(error.status, _NO_NEWER)) from error


def _built_in_parts(device: DeviceInfo, program: Program, architecture: str) -> BuiltModule | None:
    """Build the program from parts: much faster to build, slightly slower to run.

    Prepared programs are built as a whole instead. Returns None if it cannot be built from parts.
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
        log.debug("kernels are built as a whole, because building parts failed: %s", error)
        return None


def load_binary(device: DeviceInfo, binary: bytes) -> BuiltModule | None:
    """Load the program without the compiler; None if the binary is damaged, or the driver rejects
    it: the compiler may have been newer than the driver.
    """
    image = unpack(binary)
    if image is None:
        return None
    try:
        return BuiltModule(device, image)
    except cu.Error as error:
        if not error.refused:
            raise
        why = f"{device.name} rejects code of {image.compiler} for {image.architecture}"
        fix = _TRANSLATES.get(error.status, _NO_NEWER)
        log.warn_once(f"{why}; its driver supports CUDA {device.driver}: {fix}")
        return None
