"""Finding devices: each GPU once, by the best API, and every one by its address."""

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
    """Offers devices, or is not installed."""

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
        """All are on this machine."""

    def devices(self) -> list[DeviceInfo]:
        self.asked += 1
        if self._found is None:
            raise DeviceError(f"{self.name} is not there", "no driver", "install one")
        every = enumerate(self._found)
        return [replace(info, api=self.name, ordinal=number) for number, info in every]


def offer(patch: pytest.MonkeyPatch, *backends: FakeBackend) -> None:
    patch.setattr(registry, "backends", lambda: {one.name: one for one in backends})


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    devices.cache_clear()
    yield monkeypatch
    devices.cache_clear()


def addresses() -> list[tuple[str, ...]]:
    return [(info.address, *info.others) for info in devices()]


def test_a_gpu_that_two_apis_offer_is_listed_once(patch: pytest.MonkeyPatch) -> None:
    offer(patch, FakeBackend("opencl", [PROCESSOR, H200]), FakeBackend("cuda", [H200]))
    assert addresses() == [("cuda:0", "opencl:1"), ("opencl:0",)]
    assert [info.index for info in devices()] == [0, 1]


def test_the_order_of_apis_is_data(patch: pytest.MonkeyPatch) -> None:
    offer(patch, FakeBackend("opencl", [H200]), FakeBackend("cuda", [H200]))
    patch.setattr(discovery, "API_ORDER", ("opencl", "cuda"))
    assert addresses() == [("opencl:0", "cuda:0")]


def test_a_slow_driver_of_the_processor_comes_last(patch: pytest.MonkeyPatch) -> None:
    renderer = replace(PROCESSOR, name="llvmpipe", platform="rusticl")
    mesa_gpu = replace(ARC, platform="rusticl")
    offer(patch, FakeBackend("opencl", [renderer, PROCESSOR, mesa_gpu]))
    assert addresses() == [("opencl:2",), ("opencl:1",), ("opencl:0",)]


def test_an_api_that_is_not_in_the_order_comes_last(patch: pytest.MonkeyPatch) -> None:
    offer(patch, FakeBackend("abacus", [H200]), FakeBackend("webgpu", [H200]))
    assert addresses() == [("webgpu:0", "abacus:0")]


def test_two_gpus_of_one_name_stay_two(patch: pytest.MonkeyPatch) -> None:
    offer(patch, FakeBackend("opencl", [H200, H200, ARC]), FakeBackend("cuda", [H200, H200]))
    assert addresses() == [("cuda:0", "opencl:0"), ("cuda:1", "opencl:1"), ("opencl:2",)]


def test_a_uuid_tells_better_than_a_name(patch: pytest.MonkeyPatch) -> None:
    first, second = replace(H200, uuid="aa"), replace(H200, uuid="bb")
    offer(patch, FakeBackend("opencl", [second, first]), FakeBackend("cuda", [first, second]))
    assert addresses() == [("cuda:0", "opencl:1"), ("cuda:1", "opencl:0")]
    devices.cache_clear()
    other = replace(H200, uuid="cc")
    offer(patch, FakeBackend("opencl", [other]), FakeBackend("cuda", [first]))
    assert addresses() == [("cuda:0",), ("opencl:0",)]


def test_equal_names_of_other_memory_are_others(patch: pytest.MonkeyPatch) -> None:
    slice_ = replace(H200, memory=18)
    offer(patch, FakeBackend("opencl", [slice_]), FakeBackend("cuda", [H200]))
    assert addresses() == [("cuda:0",), ("opencl:0",)]


def test_processors_are_not_merged(patch: pytest.MonkeyPatch) -> None:
    offer(patch, FakeBackend("opencl", [PROCESSOR]), FakeBackend("webgpu", [PROCESSOR]))
    assert addresses() == [("opencl:0",), ("webgpu:0",)]


@pytest.mark.parametrize(
    ("wanted", "address"),
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
def test_devices_are_found(wanted: str | int, address: str, patch: pytest.MonkeyPatch) -> None:
    unlisted = FakeBackend("interpret", [NULL_GPU], listed=False)
    offered = FakeBackend("opencl", [H200, ARC, PROCESSOR])
    offer(patch, offered, FakeBackend("cuda", [H200]), unlisted)
    found = find_device(wanted)
    assert found.address == address
    assert find_device(found) is found
    if address == "opencl:0":
        assert found.index == 0  # that of the same GPU in the list


@pytest.mark.parametrize("wanted", ["radeon", "opencl:7", "opencl:radeon", 9])
def test_what_is_not_there_is_told_in_words(wanted: str | int, patch: pytest.MonkeyPatch) -> None:
    offer(patch, FakeBackend("opencl", [ARC, PROCESSOR]))
    with pytest.raises(DeviceError, match="was not found") as caught:
        find_device(wanted)
    assert "opencl:0 Intel Arc" in caught.value.why
    assert "fourfold devices" in caught.value.fix


def test_an_api_without_a_driver_leaves_the_others(patch: pytest.MonkeyPatch) -> None:
    offer(patch, FakeBackend("cuda", None), FakeBackend("opencl", [ARC]))
    assert addresses() == [("opencl:0",)]
    with pytest.raises(DeviceError, match="cuda is not there"):
        find_device("cuda")


def test_a_machine_without_any_device(patch: pytest.MonkeyPatch) -> None:
    offer(patch, FakeBackend("opencl", None), FakeBackend("interpret", [NULL_GPU], listed=False))
    with pytest.raises(DeviceError, match="opencl is not there"):
        find_device("auto")
    assert find_device("interpret").address == "interpret:0"
    offer(patch, FakeBackend("opencl", []))
    with pytest.raises(DeviceError, match="no device was found"):
        find_device("auto")
    with pytest.raises(DeviceError, match="no device of opencl"):
        find_device("opencl:0")


def test_the_devices_of_this_machine_have_addresses(device: DeviceInfo) -> None:
    found = find_device(device.address)
    assert found == device
    assert found.index == device.index


VULKAN_ARC = replace(ARC, platform="Vulkan")
RENDERER = replace(NULL_GPU, name="llvmpipe", platform="Vulkan", kind="other")


def test_a_last_resort_is_asked_where_there_is_nothing_else(patch: pytest.MonkeyPatch) -> None:
    resort = FakeBackend("webgpu", [RENDERER, VULKAN_ARC], listed=False, last_resort=True)
    offer(patch, FakeBackend("opencl", [PROCESSOR]), resort)
    assert find_device("auto").address == "opencl:0"
    assert resort.asked == 0  # its drivers take time to open
    assert find_device("webgpu:1").name == "Intel Arc"
    devices.cache_clear()
    offer(patch, FakeBackend("opencl", None), resort)
    assert find_device("auto").address == "webgpu:1"  # a GPU before a software renderer
    assert addresses() == [("webgpu:1",), ("webgpu:0",)]


def test_the_first_last_resort_with_a_device_is_taken(patch: pytest.MonkeyPatch) -> None:
    late = FakeBackend("webgpu", [VULKAN_ARC], listed=False, last_resort=True)
    empty = FakeBackend("cuda", None, listed=False, last_resort=True)
    offer(patch, late, empty, FakeBackend("opencl", []))
    assert addresses() == [("webgpu:0",)]
    assert empty.asked == 1
    devices.cache_clear()
    offer(patch, FakeBackend("opencl", None), FakeBackend("webgpu", None, False, True))
    with pytest.raises(DeviceError, match="opencl is not there"):
        find_device("auto")


@pytest.mark.parametrize(
    ("wanted", "address"),
    [("vulkan", "webgpu:1"), ("vulkan:1", "webgpu:2"), ("Vulkan:llvm", "webgpu:2")],
)
def test_a_platform_is_an_address(wanted: str, address: str, patch: pytest.MonkeyPatch) -> None:
    apple = replace(NULL_GPU, name="Apple M4", platform="Metal")
    offered = FakeBackend("webgpu", [apple, VULKAN_ARC, RENDERER], listed=False, last_resort=True)
    offer(patch, offered, FakeBackend("opencl", [PROCESSOR]))
    assert find_device(wanted).address == address
    assert find_device("metal:m4").address == "webgpu:0"
    with pytest.raises(DeviceError, match="device 'vulkan:2' was not found"):
        find_device("vulkan:2")
    offer(patch, FakeBackend("webgpu", [VULKAN_ARC], listed=False))
    with pytest.raises(DeviceError, match="no device of metal"):
        find_device("metal")


def test_the_devices_of_one_api(patch: pytest.MonkeyPatch) -> None:
    apple = replace(NULL_GPU, name="Apple M4", platform="Metal")
    hidden = FakeBackend("webgpu", [apple, VULKAN_ARC], listed=False)
    offer(patch, FakeBackend("opencl", [PROCESSOR]), hidden)
    assert [info.address for info in discovery.devices_of("WebGPU")] == ["webgpu:0", "webgpu:1"]
    assert [info.name for info in discovery.devices_of("vulkan")] == ["Intel Arc"]
    with pytest.raises(InputError, match="unknown API 'opengl'"):
        discovery.devices_of("opengl")
