"""Structures and functions of wgpu-native match its headers."""

from __future__ import annotations

import ctypes
import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fourfold.backends.webgpu import binding as wg
from fourfold.backends.webgpu import devices
from fourfold.backends.webgpu.binding import adapter, calls, objects, structures
from fourfold.errors import DeviceError

# Structures that stand for several, or have a shorter name here.
HEADER_NAMES = {
    "CallbackInfo": "BufferMapCallbackInfo",
    "LabelDescriptor": "ShaderModuleDescriptor",
    "Chained": "ChainedStruct",
}
FLAGS = {
    "MAP_READ": "MapRead",
    "MAP_WRITE": "MapWrite",
    "COPY_SOURCE": "CopySrc",
    "COPY_TARGET": "CopyDst",
    "UNIFORM": "Uniform",
    "STORAGE": "Storage",
    "QUERY_RESOLVE": "QueryResolve",
}


@pytest.fixture(scope="module")
def header() -> Any:
    """Return the header declarations read by the package's own binding."""
    pytest.importorskip("wgpu", reason="the package wgpu is not installed")
    return import_module("wgpu.backends.wgpu_native._ffi")


def found_structures() -> list[type[ctypes.Structure]]:
    return [
        one
        for _, one in inspect.getmembers(structures, inspect.isclass)
        if issubclass(one, ctypes.Structure) and one is not ctypes.Structure
    ]


@pytest.mark.parametrize("ours", found_structures(), ids=lambda one: one.__name__)
def test_structures_match_the_header(ours: type[ctypes.Structure], header: Any) -> None:
    name = f"WGPU{HEADER_NAMES.get(ours.__name__, ours.__name__)}"
    assert ctypes.sizeof(ours) == header.ffi.sizeof(name)
    fields = dict(header.ffi.typeof(name).fields)
    assert [field[0] for field in ours._fields_] == list(fields)
    for field in ours._fields_:
        member = getattr(ours, field[0])
        expected = fields[field[0]]
        assert (member.offset, member.size) == (
            expected.offset,
            header.ffi.sizeof(expected.type),
        ), field[0]


def test_callback_structures_have_one_layout(header: Any) -> None:
    """One structure stands for those of three functions."""
    expected = header.ffi.typeof("WGPUBufferMapCallbackInfo").fields
    for name in ("RequestDevice", "DeviceLost"):
        other = header.ffi.typeof(f"WGPU{name}CallbackInfo").fields
        assert [(key, one.offset) for key, one in other] == [
            (key, one.offset) for key, one in expected
        ]


def test_functions_match_the_header(header: Any) -> None:
    assert wg.version()[0] == wg.KNOWN
    for name, (result, arguments) in calls._SIGNATURES.items():
        signature = header.ffi.typeof(getattr(header.lib, name))
        sizes = [ctypes.sizeof(one) for one in arguments]
        assert sizes == [header.ffi.sizeof(one) for one in signature.args], name
        size = 0 if result is None else ctypes.sizeof(result)
        assert size == (
            0 if signature.result.kind == "void" else header.ffi.sizeof(signature.result)
        ), name


def test_constants_match_the_header(header: Any) -> None:
    lib = header.lib
    for name, theirs in FLAGS.items():
        assert getattr(objects, name) == getattr(lib, f"WGPUBufferUsage_{theirs}")
    assert {
        "timestamp-query": lib.WGPUFeatureName_TimestampQuery,
        "shader-f16": lib.WGPUFeatureName_ShaderF16,
        "subgroups": lib.WGPUNativeFeature_Subgroup,
    } == adapter.FEATURES
    assert set(adapter.PLATFORMS) == {
        lib.WGPUBackendType_D3D12,
        lib.WGPUBackendType_Metal,
        lib.WGPUBackendType_Vulkan,
    }
    kinds = (adapter.DISCRETE, adapter.INTEGRATED, adapter.SOFTWARE)
    names = ("DiscreteGPU", "IntegratedGPU", "CPU")
    assert kinds == tuple(getattr(lib, f"WGPUAdapterType_{name}") for name in names)
    assert (
        lib.WGPUErrorType_Validation,
        lib.WGPUErrorType_OutOfMemory,
    ) == (calls.VALIDATION, calls.OUT_OF_MEMORY)


@pytest.fixture
def fresh_discovery() -> Any:
    """Clear the list of devices before and after the test."""
    devices.found_devices.cache_clear()
    yield
    devices.found_devices.cache_clear()


def discovery_error() -> DeviceError:
    with pytest.raises(DeviceError) as caught:
        devices.devices()
    return caught.value


@pytest.mark.usefixtures("fresh_discovery")
def test_error_without_the_package_suggests_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise OSError("the package wgpu is not installed")

    monkeypatch.setattr(calls, "library", absent)
    error = discovery_error()
    assert (error.what, error.why) == (
        "WebGPU cannot be used",
        "the package wgpu is not installed",
    )
    assert "fourfold[webgpu]" in error.fix


@pytest.mark.usefixtures("fresh_discovery")
def test_unsupported_versions_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wg, "version", lambda: (30, 0, 0))
    monkeypatch.setattr(wg, "adapters", lambda: pytest.fail("its functions were called"))
    error = discovery_error()
    assert "version 30, but fourfold supports 29" in error.why
    assert "pip install" in error.fix


@pytest.mark.usefixtures("fresh_discovery")
def test_error_without_an_adapter_suggests_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wg, "version", lambda: (29, 0, 1))
    monkeypatch.setattr(wg, "adapters", list)
    error = discovery_error()
    assert error.what == "no WebGPU device was found"
    assert "Vulkan driver" in error.fix


def test_reports_a_package_without_its_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "empty_package").mkdir()
    (tmp_path / "empty_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name, why in (("empty_package", "has no"), ("no_such_package", "not installed")):
        monkeypatch.setattr(calls, "PACKAGE", name)
        calls._path.cache_clear()
        with pytest.raises(OSError, match=why):
            calls._path()
    calls._path.cache_clear()
