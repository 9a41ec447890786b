"""fourfold.optimize: the effect of each option on the file, and rejected options."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_networks import small_network, small_onnx

import fourfold
from fourfold.backends.cpu.reference import evaluate
from fourfold.backends.null import NULL_GPU
from fourfold.errors import InputError, UnsupportedError
from fourfold.export.quantize import write_file
from fourfold.formats import read_model

FEATURES = "features/channels_first"
IMAGES = np.random.default_rng(2).uniform(-1, 1, (6, 1, 5, 6, 3)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return path


def optimize(model: Any, output: Path, **options: Any) -> Any:
    """Optimize without a device: nothing is run."""
    return fourfold.optimize(model, output, device=NULL_GPU, **options)


def answers(path: Path, image: np.ndarray) -> dict[str, np.ndarray]:
    read = read_model(path)
    found = evaluate(read.main, {read.main.arguments[0]: image})
    return dict(zip(read.output_names, found.values(), strict=True))


@pytest.mark.parametrize("ending", [".onnx", ".tflite"])
def test_a_written_file_gives_the_same_answers_in_fewer_operators(model: Path, ending: str) -> None:
    output = model.with_name(f"out{ending}")
    report = optimize(model, output)
    (one,) = report.models
    assert report.bytes_after == output.stat().st_size
    assert one.operators_after < one.operators_before
    assert {item.name for item in one.passes if item.changes} >= {"fold_scales"}
    assert "fold_scales: 1 add and 1 mul fewer" in str(report)
    expected = evaluate(small_network(), {"image": IMAGES[0]})
    found = answers(output, IMAGES[0])
    assert list(found) == ["scores", "twice"]
    for name, array in expected.items():
        assert np.allclose(found[name], array, atol=1e-4), name


def test_batch_normalization_stays_on_request(model: Path) -> None:
    output = model.with_name("out.onnx")
    kept = optimize(model, output, fold_batch=False).models[0]
    folded = optimize(model, output).models[0]
    assert kept.operators_after == folded.operators_after + 2


def test_a_cut_model_has_the_names_of_the_caller(model: Path) -> None:
    output = model.with_name("out.onnx")
    optimize(model, output, inputs=[FEATURES], outputs=["scores"])
    read = read_model(output)
    assert (read.input_names, read.output_names) == ((FEATURES,), ("scores",))
    assert [str(read.main.types[name]) for name in read.main.arguments] == ["f32[1,4,3,4]"]


def test_shapes_are_fixed(tmp_path: Path) -> None:
    onnx_writer = pytest.importorskip("onnx_writer")
    path, output = tmp_path / "open.onnx", tmp_path / "out.onnx"
    path.write_bytes(onnx_writer.small_model("Relu", {"x": ["batch", 3, "side"]}))
    with pytest.raises(InputError, match="shape of input 'x' is needed"):
        optimize(path, output)
    optimize(path, output, shapes={"x": (2, 3, 5)})
    read = read_model(output)
    assert str(read.main.types["x"]) == "f32[2,3,5]"
    assert not any(read.open_sizes)


@pytest.mark.parametrize("method", ["dynamic", "fp16", "int8"])
def test_a_quantised_file_is_smaller_and_near(model: Path, method: str) -> None:
    output = model.with_name("out.onnx")
    report = optimize(model, output, quantize=method, calibrate=list(IMAGES))
    (one,) = report.models
    assert one.quantization.method == method
    expected = evaluate(small_network(), {"image": IMAGES[0]})["scores"]
    found = answers(output, IMAGES[0])["scores"]
    reach = np.abs(expected).max()
    assert np.abs(found - expected).max() < 0.1 * reach
    assert report.to_json()["models"][0]["quantization"]["method"] == method


def test_layers_named_by_keep_stay_float(model: Path) -> None:
    output = model.with_name("out.onnx")
    options = {"quantize": "int8", "calibrate": list(IMAGES), "ranges": "percentile"}
    whole = optimize(model, output, **options).models[0].quantization
    assert not whole.kept
    layer = whole.layers[0].name
    kept = optimize(model, output, **options, keep=[layer]).models[0].quantization
    assert [one.name for one in kept.kept] == [layer]
    assert kept.ranges == "percentile"


def test_layers_stay_float_until_no_more_is_lost(model: Path) -> None:
    options = {"quantize": "int8", "calibrate": list(IMAGES), "max_loss": 1e-6}
    found = optimize(model, model.with_name("out.onnx"), **options).models[0].quantization
    assert found.kept
    assert found.loss.value <= 1e-6 or len(found.kept) == len(found.layers)


def test_the_answers_of_a_quantised_file_are_measured_alone(model: Path) -> None:
    report = optimize(
        model,
        model.with_name("out.onnx"),
        quantize="int8",
        calibrate=list(IMAGES),
        verify=[IMAGES[0]],
    )
    rows = report.models[0].answers.outputs
    assert [row.verdict for row in rows] == ["measured", "measured"]
    assert all(row.largest > 1e-4 for row in rows)


def test_answers_are_compared_on_given_samples(model: Path) -> None:
    report = optimize(model, model.with_name("out.onnx"), verify=list(IMAGES))
    (one,) = report.models
    assert report.agrees
    assert one.answers.samples == len(IMAGES)
    assert [(row.name, row.same_best) for row in one.answers.outputs] == [
        ("scores", len(IMAGES)),
        ("twice", len(IMAGES)),
    ]


def test_a_cut_model_is_compared_with_the_same_part_of_the_original(model: Path) -> None:
    output = model.with_name("out.onnx")
    report = optimize(model, output, inputs=[FEATURES], outputs=["scores"], verify=3)
    (one,) = report.models
    assert report.agrees
    assert one.answers.engine == "NumPy"


def test_a_file_with_other_results_is_detected(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = model.with_name("other.onnx")
    optimize(model, other, outputs=["twice"])
    read = other.read_bytes()
    monkeypatch.setattr(
        "fourfold.export.optimize.optimize.write_atomically",
        lambda path, content: path.write_bytes(read.replace(b"twice", b"score")),
    )
    report = optimize(model, model.with_name("out.onnx"), outputs=["scores"], verify=3)
    assert not report.agrees
    assert "differs from" in str(report)


@pytest.mark.parametrize(
    ("output", "options", "what", "fix"),
    [
        ("out.pt", {}, "cannot write 'out.pt'", ".onnx"),
        ("out", {}, "cannot write 'out'", ".fourfold"),
        ("none/out.onnx", {}, "cannot write", "create the folder"),
        ("small.onnx", {}, "is the model itself", "another name"),
        ("out.onnx", {"targets": ["npu"]}, "no target 'npu'", "'gpu'"),
        ("out.onnx", {"targets": []}, "no targets", "pass some"),
        ("out.onnx", {"precision": "fp16"}, "precision does not apply", "leave it out"),
        ("out.fourfold", {"fold_batch": False}, "fold_batch=False does not apply", ".tflite"),
        ("out.onnx", {"quantize": "int7"}, "no method 'int7'", "int8"),
        ("out.onnx", {"quantize": "int8"}, "no samples were passed", "calibrate="),
        ("out.onnx", {"max_loss": 0.1}, "max_loss was set", "quantize="),
        ("out.onnx", {"calibrate": "x"}, "calibrate was set", "quantize="),
        ("out.onnx", {"outputs": ["score"]}, "no value 'score'", "'scores'"),
        ("out.onnx", {"shapes": {"imag": (1,)}}, "imag", "image"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(
    model: Path, output: str, options: dict[str, Any], what: str, fix: str
) -> None:
    with pytest.raises(InputError, match=what) as raised:
        optimize(model, model.parent / output, **options)
    assert fix in raised.value.fix
    assert [path.name for path in model.parent.iterdir()] == ["small.onnx"]
    assert model.read_bytes() == small_onnx()


def test_several_models_go_into_prepared_files_alone(model: Path) -> None:
    with pytest.raises(InputError, match="2 models were passed"):
        optimize([model, model], model.with_name("out.onnx"))
    with pytest.raises(InputError, match="2 models were passed"):
        optimize([model, model], model.with_name("out.fourfold"), outputs=["scores"])
    with pytest.raises(InputError, match="there is no model"):
        optimize([], model.with_name("out.onnx"))


def test_a_prepared_file_does_not_overwrite_other_files(model: Path) -> None:
    taken = model.with_name("notes.fourfold")
    taken.write_text("my notes")
    with pytest.raises(InputError, match="exists already"):
        optimize(model, taken)
    assert taken.read_text() == "my notes"


def test_operators_that_only_a_runtime_knows_are_named(tmp_path: Path) -> None:
    onnx_writer = pytest.importorskip("onnx_writer")
    path = tmp_path / "foreign.onnx"
    path.write_bytes(onnx_writer.small_model("NonZero", {"x": [2, 3]}))
    with pytest.raises(UnsupportedError, match="cannot be written") as raised:
        optimize(path, tmp_path / "out.onnx")
    assert [refusal.op for refusal in raised.value.refusals] == ["NonZero"]


def test_a_target_that_is_left_out_is_not_used(model: Path) -> None:
    output = model.with_name("out.onnx")
    only_gpu = optimize(model, output, targets=["gpu"]).models[0].placement
    only_cpu = optimize(model, output, targets=["cpu"]).models[0].placement
    assert only_gpu.whole
    assert only_cpu.on_gpu == 0


def test_an_operator_that_cannot_run_on_the_only_target_is_an_error(tmp_path: Path) -> None:
    onnx_writer = pytest.importorskip("onnx_writer")
    path, output = tmp_path / "foreign.onnx", tmp_path / "out.fourfold"
    path.write_bytes(onnx_writer.small_model("NonZero", {"x": [2, 3]}))
    with pytest.raises(UnsupportedError, match="does not run wholly") as raised:
        optimize(path, output, targets=["gpu"])
    assert raised.value.refusals[0].op == "NonZero"
    assert not output.exists()


def test_progress_is_reported_with_the_current_step(model: Path) -> None:
    told: list[tuple[int, int, str]] = []

    def listen(done: int, total: int, title: str, left: float) -> None:
        assert left >= 0
        told.append((done, total, title))

    optimize(model, model.with_name("out.onnx"), verify=list(IMAGES), progress=listen)
    assert (15, 15, "fold_scales") in told
    assert told[-1] == (len(IMAGES), len(IMAGES), "comparing")


@pytest.mark.parametrize("at", ["fold_constants", "fold_scales"])
def test_an_interruption_leaves_an_existing_file_as_it_was(model: Path, at: str) -> None:
    output = model.with_name("out.onnx")
    output.write_bytes(b"before")

    def interrupt(done: int, total: int, title: str, left: float) -> None:
        if title == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimize(model, output, progress=interrupt)
    assert output.read_bytes() == b"before"
    assert len(list(model.parent.iterdir())) == 2


def test_a_full_disk_leaves_an_existing_file_as_it_was(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = model.with_name("out.onnx")
    output.write_bytes(b"before")

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(write_file.os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        optimize(model, output)
    assert output.read_bytes() == b"before"
    assert len(list(model.parent.iterdir())) == 2


def test_bytes_are_a_model_as_well(tmp_path: Path) -> None:
    report = optimize(small_onnx(), tmp_path / "out.onnx")
    assert report.models[0].bytes_before == len(small_onnx())


def test_without_a_device_a_prepared_file_has_generic_plans(model: Path) -> None:
    output = model.with_name("out.fourfold")
    report = optimize(model, output)
    assert [row["device"] for row in report.prepared] == ["any cpu", "any gpu"]
    assert {one.name for one in report.models[0].fused if one.changes} >= {"fuse_pointwise"}
    (one,) = report.models
    assert one.written_as == ""
    assert one.operators_after == one.operators_before
