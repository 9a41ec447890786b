"""Device discovery: each GPU is listed once, through its best API, and found by any address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from fourfold.backends import devices, discovery, find_device, registry
from fourfold.backends.null import NULL_GPU
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError

H200 = replace(NULL_GPU, name="NVIDIA H200", vendor="NVIDIA", platform="NVIDIA CUDA", memory=140)
ARC = replace(NULL_GPU, name="Intel Arc", vendor="Intel", platform="Intel OpenCL", memory=16)
PROCESSOR = replace(NULL_GPU, name="EPYC", platform="PoCL", kind="cpu", vendor="AMD")


class FakeBackend:
    """A backend with some devices, or without its driver."""

    def __init__(
        self,
        name: str,
        found: Sequence[DeviceInfo] | None,
        listed: bool = True,
        last_resort: bool = False,
    ) -> None:
        self.name, self.listed, self.last_resort, self._found = name, listed, last_resort, found
        self.platforms = ("vulkan", "metal") if name == "webgpu" else ()
        self.asked = 0

    def reach(self, name: str) -> None:
        """Do nothing: all devices are on this machine."""

    def devices(self) -> list[DeviceInfo]:
        self.asked += 1
        if self._found is None:
            raise DeviceError(f"{self.name} is not there", "no driver", "install one")
        every = enumerate(self._found)
        return [replace(info, api=self.name, ordinal=number) for number, info in every]


def install_backends(patch: pytest.MonkeyPatch, *backends: FakeBackend) -> None:
    patch.setattr(registry, "backends", lambda: {one.name: one for one in backends})


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    devices.cache_clear()
    yield monkeypatch
    devices.cache_clear()


def addresses() -> list[tuple[str, ...]]:
    return [(info.address, *info.others) for info in devices()]


def test_gpu_offered_by_two_apis_is_listed_once(patch: pytest.MonkeyPatch) -> None:
    install_backends(patch, FakeBackend("opencl", [PROCESSOR, H200]), FakeBackend("cuda", [H200]))
    assert addresses() == [("cuda:0", "opencl:1"), ("opencl:0",)]
    assert [info.index for info in devices()] == [0, 1]


def test_api_order_decides_the_address(patch: pytest.MonkeyPatch) -> None:
    install_backends(patch, FakeBackend("opencl", [H200]), FakeBackend("cuda", [H200]))
    patch.setattr(discovery, "API_ORDER", ("opencl", "cuda"))
    assert addresses() == [("opencl:0", "cuda:0")]


def test_slow_cpu_drivers_come_last(patch: pytest.MonkeyPatch) -> None:
    renderer = replace(PROCESSOR, name="llvmpipe", platform="rusticl")
    mesa_gpu = replace(ARC, platform="rusticl")
    install_backends(patch, FakeBackend("opencl", [renderer, PROCESSOR, mesa_gpu]))
    assert addresses() == [("opencl:2",), ("opencl:1",), ("opencl:0",)]


def test_unordered_apis_come_last(patch: pytest.MonkeyPatch) -> None:
    install_backends(patch, FakeBackend("abacus", [H200]), FakeBackend("webgpu", [H200]))
    assert addresses() == [("webgpu:0", "abacus:0")]


def test_gpus_with_equal_names_stay_separate(patch: pytest.MonkeyPatch) -> None:
    install_backends(
        patch, FakeBackend("opencl", [H200, H200, ARC]), FakeBackend("cuda", [H200, H200])
    )
    assert addresses() == [("cuda:0", "opencl:0"), ("cuda:1", "opencl:1"), ("opencl:2",)]


def test_uuid_identifies_a_gpu_before_its_name(patch: pytest.MonkeyPatch) -> None:
    first, second = replace(H200, uuid="aa"), replace(H200, uuid="bb")
    install_backends(
        patch, FakeBackend("opencl", [second, first]), FakeBackend("cuda", [first, second])
    )
    assert addresses() == [("cuda:0", "opencl:1"), ("cuda:1", "opencl:0")]
    devices.cache_clear()
    other = replace(H200, uuid="cc")
    install_backends(patch, FakeBackend("opencl", [other]), FakeBackend("cuda", [first]))
    assert addresses() == [("cuda:0",), ("opencl:0",)]


def test_gpus_with_different_memory_are_different(patch: pytest.MonkeyPatch) -> None:
    slice_ = replace(H200, memory=18)
    install_backends(patch, FakeBackend("opencl", [slice_]), FakeBackend("cuda", [H200]))
    assert addresses() == [("cuda:0",), ("opencl:0",)]


def test_cpus_are_not_merged(patch: pytest.MonkeyPatch) -> None:
    install_backends(patch, FakeBackend("opencl", [PROCESSOR]), FakeBackend("webgpu", [PROCESSOR]))
    assert addresses() == [("opencl:0",), ("webgpu:0",)]


@pytest.mark.parametrize(
    ("expected", "address"),
    [
        ("auto", "cuda:0"),
        (0, "cuda:0"),
        ("1", "opencl:1"),
        ("arc", "opencl:1"),
        ("cpu", "opencl:2"),
        ("h200", "cuda:0"),
        ("opencl", "opencl:0"),
        ("opencl:0", "opencl:0"),
        ("OpenCL:1", "opencl:1"),
        ("opencl:h200", "opencl:0"),
        ("opencl: epyc", "opencl:2"),
        ("cuda", "cuda:0"),
        ("interpret", "interpret:0"),
        ("interpret:0", "interpret:0"),
    ],
)
def test_finds_devices_by_name_index_and_address(
    expected: str | int, address: str, patch: pytest.MonkeyPatch
) -> None:
    unlisted = FakeBackend("interpret", [NULL_GPU], listed=False)
    offered = FakeBackend("opencl", [H200, ARC, PROCESSOR])
    install_backends(patch, offered, FakeBackend("cuda", [H200]), unlisted)
    result = find_device(expected)
    assert result.address == address
    assert find_device(result) is result
    if address == "opencl:0":
        assert result.index == 0  # of the same GPU in the list


@pytest.mark.parametrize("expected", ["radeon", "opencl:7", "opencl:radeon", 9])
def test_error_for_an_unknown_device_lists_devices(
    expected: str | int, patch: pytest.MonkeyPatch
) -> None:
    install_backends(patch, FakeBackend("opencl", [ARC, PROCESSOR]))
    with pytest.raises(DeviceError, match="was not found") as caught:
        find_device(expected)
    assert "opencl:0 Intel Arc" in caught.value.why
    assert "fourfold devices" in caught.value.fix


def test_api_without_a_driver_is_skipped(patch: pytest.MonkeyPatch) -> None:
    install_backends(patch, FakeBackend("cuda", None), FakeBackend("opencl", [ARC]))
    assert addresses() == [("opencl:0",)]
    with pytest.raises(DeviceError, match="cuda is not there"):
        find_device("cuda")


def test_error_on_a_machine_without_devices(patch: pytest.MonkeyPatch) -> None:
    install_backends(
        patch, FakeBackend("opencl", None), FakeBackend("interpret", [NULL_GPU], listed=False)
    )
    with pytest.raises(DeviceError, match="opencl is not there"):
        find_device("auto")
    assert find_device("interpret").address == "interpret:0"
    install_backends(patch, FakeBackend("opencl", []))
    with pytest.raises(DeviceError, match="no device was found"):
        find_device("auto")
    with pytest.raises(DeviceError, match="no device of opencl"):
        find_device("opencl:0")


def test_devices_of_this_machine_are_found_by_address(device: DeviceInfo) -> None:
    result = find_device(device.address)
    assert result == device
    assert result.index == device.index


VULKAN_ARC = replace(ARC, platform="Vulkan")
RENDERER = replace(NULL_GPU, name="llvmpipe", platform="Vulkan", kind="other")


def test_last_resort_backends_are_used_without_other_devices(patch: pytest.MonkeyPatch) -> None:
    resort = FakeBackend("webgpu", [RENDERER, VULKAN_ARC], listed=False, last_resort=True)
    install_backends(patch, FakeBackend("opencl", [PROCESSOR]), resort)
    assert find_device("auto").address == "opencl:0"
    assert resort.asked == 0  # its drivers are slow to open
    assert find_device("webgpu:1").name == "Intel Arc"
    devices.cache_clear()
    install_backends(patch, FakeBackend("opencl", None), resort)
    assert find_device("auto").address == "webgpu:1"  # a GPU before a software renderer
    assert addresses() == [("webgpu:1",), ("webgpu:0",)]


def test_first_last_resort_backend_with_a_device_is_used(patch: pytest.MonkeyPatch) -> None:
    late = FakeBackend("webgpu", [VULKAN_ARC], listed=False, last_resort=True)
    empty = FakeBackend("cuda", None, listed=False, last_resort=True)
    install_backends(patch, late, empty, FakeBackend("opencl", []))
    assert addresses() == [("webgpu:0",)]
    assert empty.asked == 1
    devices.cache_clear()
    install_backends(patch, FakeBackend("opencl", None), FakeBackend("webgpu", None, False, True))
    with pytest.raises(DeviceError, match="opencl is not there"):
        find_device("auto")


@pytest.mark.parametrize(
    ("expected", "address"),
    [("vulkan", "webgpu:1"), ("vulkan:1", "webgpu:2"), ("Vulkan:llvm", "webgpu:2")],
)
def test_finds_devices_by_platform(expected: str, address: str, patch: pytest.MonkeyPatch) -> None:
    apple = replace(NULL_GPU, name="Apple M4", platform="Metal")
    offered = FakeBackend("webgpu", [apple, VULKAN_ARC, RENDERER], listed=False, last_resort=True)
    install_backends(patch, offered, FakeBackend("opencl", [PROCESSOR]))
    assert find_device(expected).address == address
    assert find_device("metal:m4").address == "webgpu:0"
    with pytest.raises(DeviceError, match="device 'vulkan:2' was not found"):
        find_device("vulkan:2")
    install_backends(patch, FakeBackend("webgpu", [VULKAN_ARC], listed=False))
    with pytest.raises(DeviceError, match="no device of metal"):
        find_device("metal")


def test_lists_devices_of_one_api(patch: pytest.MonkeyPatch) -> None:
    apple = replace(NULL_GPU, name="Apple M4", platform="Metal")
    hidden = FakeBackend("webgpu", [apple, VULKAN_ARC], listed=False)
    install_backends(patch, FakeBackend("opencl", [PROCESSOR]), hidden)
    assert [info.address for info in discovery.devices_of("WebGPU")] == ["webgpu:0", "webgpu:1"]
    assert [info.name for info in discovery.devices_of("vulkan")] == ["Intel Arc"]
    with pytest.raises(InputError, match="unknown API 'opengl'"):
        discovery.devices_of("opengl")
