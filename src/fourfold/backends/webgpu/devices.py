"""WebGPU adapters, found once per process, each with the device that all sessions share."""

from __future__ import annotations

from functools import cache

from fourfold.backends.webgpu import binding as wg
from fourfold.backends.webgpu.binding.adapter import DISCRETE, INTEGRATED, SOFTWARE
from fourfold.backends.webgpu.facts import device_info
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.support.forks import ForkSafeLock, check_not_lost

PLATFORMS = ("metal", "vulkan", "dx12")  # APIs of adapters, in order of preference
_KIND_ORDER = {DISCRETE: 0, INTEGRATED: 1, SOFTWARE: 3}
_INSTALL = "pip install 'fourfold[webgpu]'"
_DRIVER = "install the GPU's Vulkan driver (on Debian: apt install mesa-vulkan-drivers)"

_opened: dict[str, wg.Device] = {}  # by address
_lock = ForkSafeLock()


@cache
def found_devices() -> tuple[tuple[DeviceInfo, wg.Adapter], ...]:
    """Return every adapter with its facts, GPUs first; raises a DeviceError if there is none."""
    check_not_lost(wg.API)
    try:
        version = wg.version()
        if version[0] != wg.KNOWN:
            raise _unknown_version(version)
        adapters = wg.adapters()
    except OSError as error:
        raise DeviceError("WebGPU cannot be used", str(error), _INSTALL) from error
    except wg.Error as error:
        raise DeviceError("WebGPU cannot be initialized", str(error), _DRIVER) from error
    if not adapters:
        why = "neither Metal nor Vulkan nor DX12 offers one"
        raise DeviceError("no WebGPU device was found", why, _DRIVER)
    words = f"wgpu-native {'.'.join(map(str, version))}"
    ordered = sorted((one for one in adapters if one.platform), key=_rank)
    return tuple((device_info(one, number, words), one) for number, one in enumerate(ordered))


def _rank(adapter: wg.Adapter) -> tuple[int, int]:
    return _KIND_ORDER.get(adapter.kind, 2), PLATFORMS.index(adapter.platform.lower())


def _unknown_version(version: tuple[int, int, int]) -> DeviceError:
    why = f"its library is version {version[0]}, but fourfold supports {wg.KNOWN}"
    return DeviceError("the package wgpu has an unsupported version", why, _INSTALL)


def devices() -> tuple[DeviceInfo, ...]:
    """Return the facts of every adapter on this machine."""
    return tuple(info for info, _ in found_devices())


def device_of(info: DeviceInfo) -> wg.Device:
    """Return the device of an adapter, with all of its limits; a new one if it was lost."""
    if not info.present:
        why = "it is a generic device that models are prepared for"
        raise DeviceError(f"{info.name} is not attached", why, "run on 'webgpu:0'")
    with _lock:
        device = _opened.get(info.address)
        if device is None or device.lost:
            device = _opened[info.address] = _open(info)
        return device


def _open(info: DeviceInfo) -> wg.Device:
    adapters = {listed.address: one for listed, one in found_devices()}
    adapter = adapters.get(info.address)
    if adapter is None or adapter.name != info.name:
        why = "the driver listed it before"
        raise DeviceError(f"{info} is not available any more", why, "restart the process")
    try:
        return wg.Device(adapter, adapter.features)
    except wg.Error as error:
        fix = "close programs that use the GPU, or update its driver"
        raise DeviceError(f"{info.name} cannot be opened", str(error), fix) from error
