"""Entire networks are quantized, written, and run by fourfold and by LiteRT."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_networks import GraphDraft, pictures, small_classifier, write_tflite

import fourfold
from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import InputError
from fourfold.export.quantize.assign import Assigner
from fourfold.export.quantize.layers import find_layers
from fourfold.export.quantize.method import METHODS
from fourfold.export.quantize.quantize import quantize
from fourfold.export.quantize.quantizer import Calibration, values_to_observe
from fourfold.export.quantize.ranges import make_estimator
from fourfold.export.quantize.report import QuantizeReport
from fourfold.export.quantize.running import ProgressCounter
from fourfold.export.quantize.samples import read_samples
from fourfold.export.quantize.sensitivity import simulate
from fourfold.formats import read_model
from fourfold.ops.base.rules import Reduce
from fourfold.ops.concat import Concat
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.reshape import Reshape
from fourfold.types import DType, dequantize, to_integers

litert = pytest.importorskip("ai_edge_litert.interpreter")

GRAPH = small_classifier()
MODEL = write_tflite(GRAPH)
SAMPLES = pictures(GRAPH, 12)
OTHERS = pictures(GRAPH, 6, seed=2)


def by_litert(content: bytes, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return LiteRT's results for real numbers, as real numbers."""
    interpreter = litert.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    (source,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    found = []
    for array in arrays:
        interpreter.set_tensor(source["index"], array)
        interpreter.invoke()
        found.append(interpreter.get_tensor(result["index"]))
    return found


def operators(content: bytes) -> list[str]:
    model = read_model(content)
    assert model.source_graph is not None
    return list(model.source_graph.titles.values())


def by_definition(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [evaluate(GRAPH, {"image": array})["scores"] for array in arrays]


def quantized(**options: Any) -> QuantizeReport:
    return quantize(MODEL, samples=SAMPLES, judge=OTHERS, device="cpu", **options)


@pytest.mark.parametrize(
    ("method", "allowed"),
    [("int8", 0.02), ("int16x8", 0.003), ("dynamic", 0.003), ("fp16", 0.001)],
)
def test_a_file_agrees_with_litert_and_with_the_float_model(method: str, allowed: float) -> None:
    report = quantized(method=method)
    theirs, exact = by_litert(report.content, OTHERS), by_definition(OTHERS)
    with fourfold.Session(report.content, "cpu") as session:
        ours = [session.run(array)["scores"] for array in OTHERS]
    for mine, other, real in zip(ours, theirs, exact, strict=True):
        assert np.abs(mine - other).max() <= (1.01 / 256 if method == "int8" else 2e-3)
        assert np.abs(other - real).max() <= allowed
    assert report.loss is not None
    assert report.loss.error <= 2 * allowed
    assert report.kept == ()


def test_large_weights_alone_are_bytes() -> None:
    report = quantized(method="dynamic")
    assert [layer.name for layer in report.layers] == ["wide"]
    graph = read_model(report.content).main
    wide = next(node for node in graph.nodes if node.outputs == ("wide",))
    found, real = graph.constants[str(wide.inputs[1])], GRAPH.constants["wide/weights"]
    step = np.abs(real).max((1, 2, 3), keepdims=True) / 127
    assert not np.array_equal(found, real)
    assert (np.abs(found - real) <= 0.501 * step).all()


def test_int8_runs_on_integers_alone() -> None:
    found = operators(quantized().content)
    assert found[0] == "QUANTIZE"
    assert found[-1] == "DEQUANTIZE"
    assert {"QUANTIZE", "DEQUANTIZE"}.isdisjoint(found[1:-1])
    assert found.count("CONV_2D") == 3


def test_ports_can_be_integers() -> None:
    report = quantized(integer_ports=True)
    assert {"QUANTIZE", "DEQUANTIZE"}.isdisjoint(operators(report.content))
    with fourfold.Session(report.content, "cpu") as session:
        (image,), (scores,) = session.inputs, session.outputs
        assert image.dtype == scores.dtype == np.int8
        assert image.quantization is not None
        given = to_integers(OTHERS[0], image.quantization, DType.I8)
        found = dequantize(session.run(given)["scores"], scores.quantization)
    assert np.abs(found - by_definition(OTHERS[:1])[0]).max() <= 0.02


@pytest.mark.parametrize("ranges", ["moving-average", "percentile:99.9", "mse", "entropy"])
def test_every_estimator_gives_a_model_that_works(ranges: str) -> None:
    report = quantized(ranges=ranges)
    assert report.loss is not None
    assert report.loss.error < 0.1


def simulated(kept: frozenset[str] = frozenset(), exact: Sequence[str] = ()) -> Any:
    model = read_model(MODEL)
    method, samples = METHODS["int8"], read_samples(SAMPLES, model, None)
    layers = find_layers(model.main, method)
    wanted = values_to_observe(model.main, layers, method, correct_bias=True)
    calibration = Calibration(model.main, None, make_estimator("minmax"), wanted)
    found = calibration.run(samples, ProgressCounter(None))
    assigner = Assigner(model.main, method, layers, found)
    nodes = {node for layer in layers if layer.name in exact for node in layer.nodes}
    return simulate(assigner.assign(kept), nodes)


def test_a_simulation_equals_litert() -> None:
    theirs = by_litert(quantized().content, OTHERS)
    graph = simulated()
    for array, other in zip(OTHERS, theirs, strict=True):
        found = evaluate(graph, {graph.inputs[0]: array})
        assert np.abs(found[graph.outputs[0]] - other).max() <= 1.01 / 256


def test_exact_layers_change_nothing() -> None:
    names = [layer.name for layer in find_layers(read_model(MODEL).main, METHODS["int8"])]
    graph, rounding = simulated(exact=names), simulated()
    assert [str(node.op) for node in graph.nodes] == [str(node.op) for node in rounding.nodes]
    for array, real in zip(OTHERS, by_definition(OTHERS), strict=True):
        found = evaluate(graph, {graph.inputs[0]: array})[graph.outputs[0]]
        assert np.abs(found - real).max() < 1e-4


def test_layers_named_by_keep_stay_float_in_files() -> None:
    report = quantized(keep=["logits", "depthwise_conv2d"])
    assert [layer.name for layer in report.kept] == ["deep", "logits"]
    graph = read_model(report.content).main
    weights = next(node.inputs[1] for node in graph.nodes if node.op == "fully_connected")
    assert np.array_equal(graph.constants[weights], GRAPH.constants["logits/weights"])
    assert np.abs(by_litert(report.content, OTHERS)[0] - by_definition(OTHERS)[0]).max() < 0.02


def outlier_network() -> bytes:
    """One channel of a layer is so large that a common scale would round all others to zero."""
    draft = GraphDraft(seed=5, image=(1, 8, 8, 4))
    draft.conv("good", "image", 8)
    weights = draft.weights("bad/weights", 8, 1, 1, 8)
    draft.constants[weights][0] *= 1e4
    draft.node("conv2d", "bad", "good", weights, None, attributes=Conv2d())
    scale = draft.constant("scale", np.float32([1e-4] + [1.0] * 7))
    draft.node("mul", "even", draft.node("relu", "positive", "bad"), scale)
    draft.conv("last", "even", 4)
    return write_tflite(draft.graph("last"))


def test_the_layer_that_loses_the_most_stays_float() -> None:
    model = outlier_network()
    samples = pictures(read_model(model).main, 8)
    plain = quantize(model, samples=samples, per_channel=False, device="cpu")
    assert plain.loss is not None
    assert plain.loss.error > 0.2
    best = quantize(model, samples=samples, per_channel=False, max_loss=0.1, device="cpu")
    assert best.loss is not None
    assert best.loss.error <= 0.1
    assert 1 <= len(best.kept) < len(best.layers)
    assert all(layer.reason == "it loses too much" for layer in best.kept)


def test_a_score_measures_the_loss() -> None:
    truth = [int(scores.argmax()) for scores in by_definition(OTHERS)]

    def score(outputs: Any, number: int) -> float:
        return float(outputs["scores"].argmax() == truth[number])

    report = quantized(score=score)
    assert report.loss is not None
    assert report.loss.before == 1.0
    assert report.loss.value == 1.0 - (report.loss.after or 0.0)


def test_bias_correction_brings_the_mean_back() -> None:
    """Four-bit weights shift the means of channels; the corrected bias undoes that."""
    losses = {}
    for corrected in (False, True):
        draft = GraphDraft(seed=7, image=(1, 8, 8, 32))
        draft.conv("out", "image", 64, size=1)
        samples = [array + 2 for array in pictures(draft.graph("out"), 8)]
        report = quantize(
            write_tflite(draft.graph("out")),
            method="weights-int4",
            samples=samples,
            bias_correction=corrected,
            device="cpu",
        )
        assert report.loss is not None
        losses[corrected] = report.loss.error
    assert losses[True] < 0.5 * losses[False]


def test_weights_of_four_bits_take_little() -> None:
    draft = GraphDraft(image=(1, 4, 4, 32))
    draft.conv("out", "image", 128)
    report = quantize(write_tflite(draft.graph("out")), method="weights-int4", device="cpu")
    assert report.bytes_after < report.bytes_before / 6
    assert report.loss is None
    (found,) = by_litert(report.content, pictures(draft.graph("out"), 1))
    assert np.isfinite(found).all()


def test_values_without_a_range_are_stored() -> None:
    """The model has a layer whose outputs are all zero, and an input that never changes."""
    draft = GraphDraft(image=(1, 4, 4, 3))
    weights = draft.constant("none/weights", np.zeros((4, 1, 1, 3)))
    bias = draft.constant("none/bias", np.float32([0, 0, 0, 0]))
    draft.node("conv2d", "none", "image", weights, bias, attributes=Conv2d())
    draft.conv("out", "none", 4)
    model = write_tflite(draft.graph("out"))
    samples = [np.zeros((1, 4, 4, 3), np.float32)] * 4
    report = quantize(model, samples=samples, device="cpu")
    found, expected = by_litert(report.content, samples[:1])[0], draft.constants["out/bias"]
    assert np.abs(found - expected).max() < 0.01


def test_outputs_that_are_joined_keep_their_own_steps() -> None:
    """A detector has two heads; values of one are a thousand times as large as the other's."""
    draft = GraphDraft(image=(1, 4, 4, 3))
    heads = [draft.conv(name, "image", 4) for name in ("small", "large")]
    draft.constants["large/weights"] *= 1000
    rows = [
        draft.node("reshape", f"{head}/row", head, attributes=Reshape((1, 64))) for head in heads
    ]
    draft.node("concat", "both", *rows, attributes=Concat(1))
    graph = draft.graph("both")
    samples = pictures(graph, 6)
    content = quantize(write_tflite(graph), samples=samples, device="cpu").content
    (found,), real = by_litert(content, samples[:1]), evaluate(graph, {"image": samples[0]})
    for half in (slice(0, 64), slice(64, 128)):
        head = real["both"][:, half]
        assert np.abs(found[:, half] - head).max() <= 0.02 * np.abs(head).max()


def test_nothing_is_left_when_it_is_interrupted(tmp_path: Path) -> None:
    def stop(done: int, total: int, title: str, left: float) -> None:
        assert left >= 0
        if title == "comparing":
            raise KeyboardInterrupt

    target = tmp_path / "out.tflite"
    target.write_bytes(b"as it was")
    with pytest.raises(KeyboardInterrupt):
        quantize(MODEL, target, samples=SAMPLES, device="cpu", progress=stop)
    assert target.read_bytes() == b"as it was"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_is_written_and_reported(tmp_path: Path) -> None:
    target, seen = tmp_path / "out.tflite", []
    report = quantize(
        MODEL, target, samples=SAMPLES, device="cpu", progress=lambda *told: seen.append(told)
    )
    assert target.read_bytes() == report.content
    assert [told[:3] for told in seen if told[0] == told[1]] == [
        (12, 12, "calibrating"),
        (12, 12, "comparing"),
    ]
    assert report.to_json()["layers"][0]["stored"] == "int8"
    assert "ranges: minmax of 12 samples" in str(report)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "int9"},
        {"ranges": "mox"},
        {"max_loss": -1.0},
        {"keep": ["nothing"]},
        {"output": "model.xyz"},
        {"output": "no/such/folder/model.tflite"},
        {"samples": None},
        {"samples": SAMPLES[:2]},
    ],
    ids=str,
)
def test_impossible_requests_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        quantize(MODEL, **{"samples": SAMPLES, "device": "cpu", **options})


def test_a_quantised_model_is_refused() -> None:
    with pytest.raises(InputError, match="quantized already"):
        quantize(quantized().content, samples=SAMPLES, device="cpu")


@pytest.mark.needs_device
def test_a_device_finds_the_same_ranges() -> None:
    ours = quantize(MODEL, samples=SAMPLES, judge=OTHERS)
    exact = quantized()
    assert ours.loss is not None
    assert exact.loss is not None
    assert ours.loss.error == pytest.approx(exact.loss.error, abs=5e-3)


def noisy_model() -> bytes:
    """Two classes whose difference is lost in 8 bits, next to one of a large negative score."""
    draft = GraphDraft(image=(1, 4, 4, 3))
    sums = draft.conv("sums", "image", 3, size=1)
    draft.constants["sums/bias"][:] = 0.0, 0.0, -1000.0
    draft.node("mean", "means", sums, attributes=Reduce((1, 2), True))
    draft.node("reshape", "scores", "means", attributes=Reshape((1, 3)))
    return write_tflite(draft.graph("scores"))


def test_changed_answers_are_a_problem(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    samples = [generator.uniform(-1, 1, (1, 4, 4, 3)).astype(np.float32) for _ in range(8)]
    with caplog.at_level(logging.WARNING, "fourfold"):
        report = quantize(noisy_model(), samples=samples, device="cpu")
    assert report.problem.endswith("of 8 answers changed, more than 5%")
    assert report.problem in caplog.text
    assert report.problem in str(report)
    assert report.to_json()["problem"] == report.problem
    options: dict[str, Any] = {"samples": samples, "device": "cpu", "strict": True}
    output = tmp_path / "small.tflite"
    with pytest.raises(InputError, match="the quantized model answers differently"):
        quantize(noisy_model(), output, **options)
    assert not output.exists()
    assert not quantize(noisy_model(), output, max_changed=1.0, **options).problem
    with pytest.raises(InputError, match="it is a share of the answers"):
        quantize(noisy_model(), max_changed=5, **options)
    assert not quantized().problem
