"""WebGPU's devices: adapters found once, each with the device that all sessions on it share."""

from __future__ import annotations

from functools import cache

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.forks import ForkSafeLock, check_not_lost
from fourfold.players.webgpu import binding as wg
from fourfold.players.webgpu.binding.adapter import DISCRETE, INTEGRATED, SOFTWARE
from fourfold.players.webgpu.facts import device_info

PLATFORMS = ("metal", "vulkan", "dx12")  # by which adapters are offered, the best first
_KIND_ORDER = {DISCRETE: 0, INTEGRATED: 1, SOFTWARE: 3}
_INSTALL = "pip install 'fourfold[webgpu]'"
_DRIVER = "install the GPU's Vulkan driver (on Debian: apt install mesa-vulkan-drivers)"

_opened: dict[str, wg.Device] = {}  # by their addresses
_lock = ForkSafeLock()


@cache
def found_devices() -> tuple[tuple[DeviceInfo, wg.Adapter], ...]:
    """Every adapter with its facts, GPUs first; a DeviceError where there is none."""
    check_not_lost(wg.API)
    try:
        version = wg.version()
        if version[0] != wg.KNOWN:
            raise _unknown_version(version)
        found = wg.adapters()
    except OSError as error:
        raise DeviceError("WebGPU cannot be used", str(error), _INSTALL) from error
    except wg.Error as error:
        raise DeviceError("WebGPU does not start", str(error), _DRIVER) from error
    if not found:
        why = "neither Metal nor Vulkan nor DX12 offers one"
        raise DeviceError("no device of WebGPU was found", why, _DRIVER)
    words = f"wgpu-native {'.'.join(map(str, version))}"
    ordered = sorted((one for one in found if one.platform), key=_rank)
    return tuple((device_info(one, number, words), one) for number, one in enumerate(ordered))


def _rank(adapter: wg.Adapter) -> tuple[int, int]:
    return _KIND_ORDER.get(adapter.kind, 2), PLATFORMS.index(adapter.platform.lower())


def _unknown_version(version: tuple[int, int, int]) -> DeviceError:
    why = f"its library is version {version[0]}, and fourfold knows {wg.KNOWN}"
    return DeviceError("the package wgpu has another version", why, _INSTALL)


def devices() -> tuple[DeviceInfo, ...]:
    """The facts of every adapter on this machine."""
    return tuple(info for info, _ in found_devices())


def device_of(info: DeviceInfo) -> wg.Device:
    """The device of an adapter, with all of its limits; a new one where it was lost."""
    if not info.present:
        why = "it stands for every device, and models are prepared for it"
        raise DeviceError(f"{info.name} is not here", why, "run on 'webgpu:0'")
    with _lock:
        known = _opened.get(info.address)
        if known is None or known.lost:
            known = _opened[info.address] = _open(info)
        return known


def _open(info: DeviceInfo) -> wg.Device:
    adapters = {known.address: one for known, one in found_devices()}
    adapter = adapters.get(info.address)
    if adapter is None or adapter.name != info.name:
        why = "it was found before and is no longer there"
        raise DeviceError(f"{info} is gone", why, "start the process again")
    try:
        return wg.Device(adapter, adapter.features)
    except wg.Error as error:
        fix = "close programs that use the GPU, or update its driver"
        raise DeviceError(f"{info.name} does not open", str(error), fix) from error
