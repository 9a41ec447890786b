"""Verify finds every fault that is planted in the reader of models, and blames none on rounding.

NumPy evaluates the plans here: the faults are in how the file is read, so kernels do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import tflite_writer as writer

from fourfold.backends.cpu import litert
from fourfold.backends.cpu.reference import evaluate
from fourfold.backends.null import NULL_GPU
from fourfold.compiler import load
from fourfold.compiler.pipeline import LoweringInput
from fourfold.formats import Model, read_model
from fourfold.formats.tflite.source_graph import TFLiteSourceGraph
from fourfold.graph import Graph, Node
from fourfold.ops.base.window import Padding
from fourfold.ops.conv2d import Conv2d
from fourfold.options import CompileOptions
from fourfold.tools.report import exact_rows, layer_comparison
from fourfold.tools.report.layer_comparison import LayerComparison
from fourfold.tools.report.layers import KERNEL, MEANING
from fourfold.tools.report.verification import Verification
from fourfold.tools.report.verify import Sample, verify_sample

pytestmark = pytest.mark.skipif(not litert.ENGINE.installed(), reason="LiteRT is not installed")
Change = Callable[[np.ndarray], np.ndarray]
CONV = "Conv2DOptions"
STRIDES = {"StrideH": 1, "StrideW": 1}
CHANNELS, IMAGE = (8, 24, 16), (12, 12)
KINDS = ("integers", "integer weights", "floats")


@dataclass(frozen=True)
class File:
    """A file with two convolutions: in integers, in floats with integer weights, or in floats.

    The fields change the weights, the bias and the grids of the second convolution.
    """

    kind: str
    weights: Callable[[np.ndarray], np.ndarray] = lambda whole: whole
    factors: Callable[[np.ndarray], np.ndarray] = lambda scales: scales
    has_bias: bool = True
    zero_points: tuple[int, int, int] = (3, -5, -5)
    middle_factor: float = 1.0

    def content(self) -> bytes:
        shape = (1, *IMAGE, CHANNELS[0])
        source = writer.Tensor("x", shape)
        if self.kind == "integers":
            point = [self.zero_points[0]]
            source = writer.Tensor("x", shape, "int8", scale=[0.02], zero_point=point)
        tensors, operators = zip(*(self.convolution(place) for place in (0, 1)), strict=True)
        return writer.write([source, *tensors[0], *tensors[1]], operators, ["x"], ["y1"])

    def convolution(self, place: int) -> tuple[list[writer.Tensor], writer.Operator]:
        """Return the tensors of a layer, without its input, and its operator."""
        generator = np.random.default_rng(place)
        inward, outward = CHANNELS[place], CHANNELS[place + 1]
        whole = generator.integers(-127, 128, (outward, 3, 3, inward))
        scales = generator.uniform(0.005, 0.01, outward)
        bias = generator.integers(-20000, 20000, outward)
        if place == 1:
            whole, scales = self.weights(whole), self.factors(scales)
            bias = bias if self.has_bias else np.zeros_like(bias)
        make = self.whole if self.kind == "integers" else self.real
        names = [f"{kind}{place}" for kind in ("weights", "bias")]
        source = "x" if place == 0 else f"y{place - 1}"
        return make(place, whole, scales, bias), writer.Operator(
            "CONV_2D", [source, *names], [f"y{place}"], CONV, STRIDES
        )

    def whole(
        self, place: int, whole: np.ndarray, scales: np.ndarray, bias: np.ndarray
    ) -> list[writer.Tensor]:
        steps = (0.02, 0.3 * self.middle_factor, 4.0)
        zeros = [0] * len(scales)
        grid = ([steps[place + 1]], [self.zero_points[place + 1]])
        units = (scales * steps[place]).tolist()
        return [
            _stored(f"weights{place}", whole.astype(np.int8), scales.tolist(), zeros),
            _stored(f"bias{place}", bias.astype(np.int32), units, zeros),
            writer.Tensor(f"y{place}", (1, *IMAGE, len(scales)), "int8", None, *grid),
        ]

    def real(
        self, place: int, whole: np.ndarray, scales: np.ndarray, bias: np.ndarray
    ) -> list[writer.Tensor]:
        weights = _stored(
            f"weights{place}", whole.astype(np.int8), scales.tolist(), [0] * len(scales)
        )
        if self.kind == "floats":
            floats = (whole * scales.reshape(-1, 1, 1, 1)).astype(np.float32)
            weights = _stored(f"weights{place}", floats)
        return [
            weights,
            _stored(f"bias{place}", (bias * 1e-4).astype(np.float32)),
            writer.Tensor(f"y{place}", (1, *IMAGE, len(scales))),
        ]


def _stored(
    name: str, data: np.ndarray, scales: Sequence[float] = (), zeros: Sequence[int] = ()
) -> writer.Tensor:
    return writer.Tensor(name, data.shape, str(data.dtype), data, scales, zeros)


def swapped(whole: np.ndarray) -> np.ndarray:
    changed = whole.copy()
    changed[5] = whole[6]
    return changed


def neighbours_swapped(scales: np.ndarray) -> np.ndarray:
    changed = scales.copy()
    changed[[5, 6]] = scales[[6, 5]]
    return changed


def one_larger(scales: np.ndarray) -> np.ndarray:
    changed = scales.copy()
    changed[5] *= 1 + 1 / 32
    return changed


FAULTS: dict[str, dict[str, Any]] = {
    "one channel has the weights of its neighbour": {"weights": swapped},
    "filters are transposed": {"weights": lambda whole: whole.transpose(0, 2, 1, 3)},
    "the first row of filters is left out": {
        "weights": lambda whole: whole * np.array([0, 1, 1]).reshape(1, 3, 1, 1)
    },
    "scales are wrong by 1/127": {"factors": lambda scales: scales * (1 + 1 / 127)},
    "the scale of one channel is wrong": {"factors": one_larger},
    "the scales of two channels are swapped": {"factors": neighbours_swapped},
    "there is no bias": {"has_bias": False},
}
GRID_FAULTS: dict[str, dict[str, Any]] = {
    "the zero point of the input is off by one": {"zero_points": (4, -5, -5)},
    "the zero point between is off by one": {"zero_points": (3, -4, -5)},
    "the zero point of the output is off by one": {"zero_points": (3, -5, -4)},
    "the scale between is wrong by 1/127": {"middle_factor": 1 + 1 / 127},
}


def unsigned_weights(graph: Graph) -> Graph:
    """Read signed weights as unsigned: negative ones become 256 steps too large."""
    node = [node for node in graph.nodes if node.op == "conv2d"][1]
    weights = graph.constants[str(node.inputs[1])]
    step = np.abs(weights).max((1, 2, 3), keepdims=True) / 127
    changed = np.where(weights < 0, weights + 256 * step, weights).astype(np.float32)
    return replace(graph, constants={**graph.constants, str(node.inputs[1]): changed})


def with_windows(graph: Graph, **changes: Any) -> Graph:
    def change(node: Node) -> Node:
        if not isinstance(node.attributes, Conv2d):
            return node
        return replace(node, attributes=replace(node.attributes, **changes))

    return replace(graph, nodes=tuple(change(node) for node in graph.nodes))


def padding_off_by_one(graph: Graph) -> Graph:
    return with_windows(graph, padding=Padding(2, 0, 1, 1))


def stride_off_by_one(graph: Graph) -> Graph:
    """Change the stride, with padding that preserves the shape of the results."""
    return with_windows(graph, stride=(2, 2), padding=Padding(6, 7, 6, 7))


def dilation_off_by_one(graph: Graph) -> Graph:
    return with_windows(graph, dilation=(2, 2), padding=Padding(2, 2, 2, 2))


GRAPH_FAULTS = (unsigned_weights, padding_off_by_one, stride_off_by_one, dilation_off_by_one)


def nan_in_one_element(array: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed[0, 11, 3, 2] = np.nan
    return changed


def one_element_off(array: np.ndarray) -> np.ndarray:
    """Change one element by a step, or by a thousandth of the range, which is more than
    rounding.
    """
    changed = array.copy()
    changed[0, 11, 3, 2] += 1 if np.array_equal(array, np.rint(array)) else 1e-3 * np.ptp(array)
    return changed


def first_row_repeated(array: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed[:, 1] = array[:, 0]
    return changed


def channels_permuted(array: np.ndarray) -> np.ndarray:
    return np.roll(array, 1, axis=-1)


KERNEL_FAULTS: tuple[Change, ...] = (
    nan_in_one_element,
    one_element_off,
    first_row_repeated,
    channels_permuted,
)


def player_in_numpy(change: Change) -> Callable[..., Iterator[tuple[str, np.ndarray]]]:
    """Return a player that evaluates nodes in NumPy, and applies `change` to the first layer."""

    def play(
        lowering: LoweringInput, arrays: Mapping[str, np.ndarray], names: Sequence[str]
    ) -> Iterator[tuple[str, np.ndarray]]:
        graph, values = lowering.graph, {**arrays}
        first = next(node for node in graph.nodes if node.op == "conv2d")
        for node in graph.nodes:
            reads = tuple(name for name in node.reads if name not in graph.constants)
            alone = replace(graph, nodes=(node,), inputs=reads, outputs=node.outputs)
            made = evaluate(alone, {name: values[name] for name in reads})
            values |= {name: change(made[name]) for name in made} if node is first else made
        return ((name, values[name]) for name in names)

    return play


def verify(
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    misread: Mapping[str, Any] | None = None,
    change: Callable[[Graph], Graph] = lambda graph: graph,
    spoil: Change = lambda array: array,
) -> Verification:
    """Compare the network with LiteRT, after misreading its file, changing its graph, or spoiling
    the results of its first layer.
    """
    content, other = File(kind).content(), File(kind, **(misread or {})).content()
    x = np.random.default_rng(7).integers(-128, 128, (1, *IMAGE, CHANNELS[0])).astype(np.int8)
    if kind != "integers":
        x = (x * 0.02).astype(np.float32)

    def read(source: Any, *options: Any) -> Model:
        found = read_model(other, *options)
        assert isinstance(found.source_graph, TFLiteSourceGraph)
        true = replace(found.source_graph, source=content)  # LiteRT runs the correct file
        return replace(found, main=change(found.main), source_graph=true)

    monkeypatch.setattr(load, "read_model", read)
    monkeypatch.setattr(layer_comparison, "play_all", player_in_numpy(spoil))
    options = CompileOptions("fp32")
    ours = LayerComparison.of(content, NULL_GPU, options, [x]).outputs()
    theirs = litert.ENGINE.open_model(content, {"x": x}, 1)()
    sample = Sample(content, NULL_GPU, options, [x], ours, ["y1"])
    return verify_sample(sample, theirs, "LiteRT", layers=True)


def first_fault(found: Verification) -> tuple[str, str]:
    assert not found.agrees
    assert found.first is not None
    return found.first.op, found.first.verdict


@pytest.fixture(params=["whole", "by rows"], autouse=True)
def judged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge values as a whole, or a few rows at a time, as large values are."""
    if request.param == "by rows":
        monkeypatch.setattr(exact_rows, "SLAB_ELEMENTS", 400)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_fault_all_is_right(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verify(kind, monkeypatch)
    assert found.agrees, found.reason
    assert not [layer for layer in found.layers if layer.is_fault]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(kind: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verify(kind, monkeypatch, FAULTS[fault])
    assert first_fault(found) == ("CONV_2D", MEANING)
    assert [layer.name for layer in found.layers if layer.is_fault] == ["y1"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", GRAPH_FAULTS)
def test_a_fault_of_the_reader_is_found(
    kind: str, change: Callable[[Graph], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert first_fault(verify(kind, monkeypatch, change=change)) == ("CONV_2D", MEANING)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spoil", KERNEL_FAULTS)
def test_a_fault_of_a_kernel_is_found(
    kind: str, spoil: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = verify(kind, monkeypatch, spoil=spoil)
    assert first_fault(found) == ("CONV_2D", KERNEL)
    assert found.first is not None
    assert found.first.name == "y0"


@pytest.mark.parametrize("fault", GRID_FAULTS)
def test_a_fault_of_a_grid_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verify("integers", monkeypatch, GRID_FAULTS[fault])
    assert first_fault(found) == ("CONV_2D", MEANING)


def test_integer_weights_are_right_though_outputs_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verify("integer weights", monkeypatch)
    assert found.outputs[0].verdict == "rounded by LiteRT"
    assert not found.outputs[0].is_near
    assert "rounds the input to asymmetric 8 bits for each batch" in found.reason
