"""Lowering uses only features of the language: it picks another kernel, or refuses with a
reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_devices import IMAGES, NVIDIA, X86
from model_collection import TFLITE, at_hand
from op_kernels import WITH_KERNELS, all_kernels, op_graph
from ops.test_dots import GRIDS, network

from fourfold import codegen
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.check import unsupported_features
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.language import find_language, languages
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, UnsupportedError
from fourfold.formats import read_model

DEVICES = {"plain": NULL_GPU, "processor": X86, "tensor cores": NVIDIA, "images": IMAGES}
MODELS = ("mobilenet_v1_025_224_float", "face_detection_short_range", "kws_ref_model", "pnet")


@pytest.fixture(autouse=True)
def more_languages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the languages of the tests, in a folder that is searched besides the package's own."""
    folder = str(Path(__file__).parents[3] / "languages")
    monkeypatch.setattr(codegen, "__path__", [*codegen.__path__, folder])
    yield
    find_language.cache_clear()
    for name in ("narrow", "least"):
        for module in (f"fourfold.codegen.{name}.language", f"fourfold.codegen.{name}"):
            sys.modules.pop(module, None)


def test_languages_are_found_by_folder() -> None:
    assert {"opencl", "narrow", "least"} <= {*languages()}
    assert find_language("narrow").capabilities.language == "Narrow"


def test_some_languages_have_a_persistent_kernel() -> None:
    assert find_language("opencl").persistent is not None
    assert find_language("narrow").persistent is None


def test_an_unknown_language_is_refused_with_the_nearest() -> None:
    with pytest.raises(DeviceError, match="did you mean 'narrow'"):
        find_language("narow")


def speaking(device: DeviceInfo, language: str) -> DeviceInfo:
    return replace(device, language=language)


@pytest.mark.parametrize("language", ["narrow", "least"])
@pytest.mark.parametrize(
    ("like", "precision"),
    [
        ("plain", "fp16"),
        ("processor", "fp32"),
        ("tensor cores", "mixed"),
        ("images", "mixed"),
    ],
)
def test_kernels_use_only_supported_features(language: str, like: str, precision: str) -> None:
    able, device = find_language(language).capabilities, speaking(DEVICES[like], language)
    graphs = [op_graph(name) for name in WITH_KERNELS]
    graphs += [network(grid, 16, 1, odd=143) for grid in GRIDS]
    wrong = {
        what
        for graph in graphs
        for one in all_kernels(graph, device, KernelOptions(precision))
        for what in unsupported_features(one, able)
    }
    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize("name", ["gather", "arg_max", "scatter_nd"])
def test_unsupported_ops_are_refused_with_a_reason(name: str) -> None:
    with pytest.raises(UnsupportedError, match="holds i64, which Narrow does not support"):
        make_plan(op_graph(name), speaking(NULL_GPU, "narrow"), KernelOptions())


def test_a_language_without_fp16_keeps_floats() -> None:
    graph = op_graph("conv2d")
    for language, precision in (("opencl", "mixed"), ("narrow", "mixed"), ("least", "fp32")):
        device = speaking(NULL_GPU, language)
        assert make_plan(graph, device, KernelOptions("mixed")).precision == precision
    assert (
        make_plan(graph, speaking(NULL_GPU, "narrow"), KernelOptions("fp16")).precision == "mixed"
    )


def test_a_language_without_a_persistent_kernel_has_a_list_of_launches() -> None:
    graph, options = op_graph("tanh"), KernelOptions(form="one")
    assert len(make_plan(graph, NVIDIA, options).launches) == 1
    plan = make_plan(graph, speaking(NVIDIA, "narrow"), options)
    assert len(plan.launches) > 1
    assert "host" not in {buffer.kind for buffer in plan.buffers}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("like", ["plain", "processor"])
@pytest.mark.parametrize("language", ["narrow", "least"])
def test_models_are_lowered_or_refused(language: str, like: str, name: str) -> None:
    path = at_hand(TFLITE / f"{name}.tflite")
    graph, writer = rewrite(read_model(str(path)).main), find_language(language)
    device, reasons = speaking(DEVICES[like], language), list[str]()
    try:
        make_plan(graph, device, KernelOptions("mixed"))
    except UnsupportedError as error:
        reasons = [refusal.reason for refusal in error.refusals]
    assert all("does not support" in reason for reason in reasons)
    kernels = writer.kernels  # type: ignore[attr-defined]
    assert kernels or reasons
    wrong = {what for one in kernels for what in unsupported_features(one, writer.capabilities)}
    assert not wrong, "\n".join(sorted(wrong))


def test_reports_unsupported_features() -> None:
    able = find_language("narrow").capabilities
    kernels = all_kernels(op_graph("conv2d"), X86, KernelOptions())
    result = {
        what.partition(": ")[2] for one in kernels for what in unsupported_features(one, able)
    }
    assert {"Shift", "a private array", "width 8", "kind long"} <= result
