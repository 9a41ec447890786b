"""Caffe files: lookup, old layer formats, phases, and errors."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from caffe_writer import input_text, layer_text, weights_file, write_net
from click.testing import CliRunner
from stored_answers import numbers

from fourfold import Session
from fourfold.backends.cpu.reference import evaluate
from fourfold.cli import main
from fourfold.errors import InputError, ModelError, UnsupportedError
from fourfold.formats import Model, ReadOptions, find_format, formats, read_model
from fourfold.formats.caffe.record import MAX_DEPTH, TextMessage, parse_text
from fourfold.formats.protobuf import MessageWriter

INPUT = input_text(1, 2, 5, 5)
CONV = "convolution_param { num_output: 3 kernel_size: 3 }"
BLOBS = {"y": [numbers((3, 2, 3, 3)), numbers((3,), 1)]}
NET = INPUT + layer_text("Convolution", CONV)


def run(model: Model, **inputs: np.ndarray) -> list[np.ndarray]:
    return list(evaluate(model.main, inputs or {"x": numbers((1, 2, 5, 5))}).values())


def test_model_is_found_by_either_file_or_the_folder(tmp_path: Path) -> None:
    path = write_net(tmp_path, NET, BLOBS)
    (expected,) = run(read_model(path))
    for other in (path.with_suffix(".caffemodel"), tmp_path, str(path)):
        model = read_model(other)
        assert find_format(other) is formats()["caffe"]
        assert np.array_equal(run(model)[0], expected)
        assert (model.input_names, model.output_names, model.format) == (("x",), ("y",), "Caffe")


def test_single_weights_file_may_have_another_name(tmp_path: Path) -> None:
    path = write_net(tmp_path, NET, BLOBS)
    path.with_suffix(".caffemodel").rename(tmp_path / "weights_iter_100.caffemodel")
    assert read_model(path).output_names == ("y",)
    (tmp_path / "weights_iter_200.caffemodel").write_bytes(b"")
    with pytest.raises(ModelError, match=r"has no weights[\s\S]*under the same name"):
        read_model(path)


def test_files_may_be_in_different_folders(tmp_path: Path) -> None:
    path = write_net(tmp_path, NET, BLOBS)
    expected = run(read_model(path))[0]
    (tmp_path / "elsewhere").mkdir()
    weights = path.with_suffix(".caffemodel").rename(tmp_path / "elsewhere" / "w.caffemodel")
    for pair in ((path, weights), (weights, path)):
        with Session(pair, device="cpu") as session:
            assert np.array_equal(session.run(numbers((1, 2, 5, 5)))["y"], expected)
    shown = CliRunner().invoke(main, ["check", "--device", "cpu", os.pathsep.join(map(str, pair))])
    assert shown.exit_code == 0, shown.output
    with pytest.raises(InputError, match=r"one \.prototxt and one \.caffemodel"):
        Session((path, path), device="cpu")
    with pytest.raises(InputError, match="cannot open"):
        Session((path, tmp_path / "missing.caffemodel"), device="cpu")


def test_does_not_use_weights_of_another_network(tmp_path: Path) -> None:
    write_net(tmp_path, NET, BLOBS)
    other = tmp_path / "other.prototxt"
    other.write_text(NET)
    with pytest.raises(ModelError, match="has no weights"):
        read_model(other)


def test_rejects_folders_with_two_networks(tmp_path: Path) -> None:
    path = write_net(tmp_path, NET, BLOBS)
    (tmp_path / "other.prototxt").write_text(NET)
    with pytest.raises(ModelError, match=r"holds more than one network[\s\S]*net\.prototxt"):
        read_model(path.parent)


def test_weights_file_without_inputs_is_rejected(tmp_path: Path) -> None:
    path = write_net(tmp_path, NET, BLOBS)
    path.unlink()
    with pytest.raises(ModelError, match="has no inputs"):
        read_model(path.with_suffix(".caffemodel"))


OLD_INPUTS = 'input: "x" input_dim: 1 input_dim: 2 input_dim: 5 input_dim: 5\n'
NEW_INPUTS = 'input: "x" input_shape { dim: [1, 2, 5, 5] }\n'
V1 = 'layers { name: "y" type: CONVOLUTION bottom: "x" top: "y" ' + CONV + " }"
V0 = """layers { layer { name: "pad" type: "padding" pad: 1 } bottom: "x" top: "p" }
layers { layer { name: "y" type: "conv" num_output: 3 kernelsize: 3 } bottom: "p" top: "y" }"""


@pytest.mark.parametrize("inputs", [OLD_INPUTS, NEW_INPUTS])
@pytest.mark.parametrize("old", [False, True])
def test_reads_old_input_and_layer_formats(tmp_path: Path, inputs: str, old: bool) -> None:
    (expected,) = run(read_model(write_net(tmp_path, NET, BLOBS)))
    (result,) = run(read_model(write_net(tmp_path, inputs + V1, BLOBS, old)))
    assert np.array_equal(result, expected)


def test_reads_v0_padding_layers(tmp_path: Path) -> None:
    padded = INPUT + layer_text("Convolution", CONV.replace("kernel_size", "pad: 1 kernel_size"))
    (expected,) = run(read_model(write_net(tmp_path, padded, BLOBS)))
    (result,) = run(read_model(write_net(tmp_path, INPUT + V0, BLOBS)))
    assert expected.shape == (1, 3, 5, 5)
    assert np.array_equal(result, expected)


def test_skips_training_layers(tmp_path: Path) -> None:
    train = layer_text("Data", "include { phase: TRAIN }", bottoms="", tops="x label")
    loss = layer_text("SoftmaxWithLoss", "exclude { phase: TEST }", "y label", "loss")
    staged = layer_text("Accuracy", 'include { stage: "judge" }', "y label", "accuracy")
    model = read_model(
        write_net(tmp_path, INPUT + train + NET[len(INPUT) :] + loss + staged, BLOBS)
    )
    assert model.output_names == ("y",)


def test_error_for_training_layers_suggests_a_deploy_file(tmp_path: Path) -> None:
    text = NET + layer_text("Accuracy", bottoms="y x", tops="accuracy")
    with pytest.raises(UnsupportedError, match=r"Accuracy 'accuracy': .*deploy"):
        read_model(write_net(tmp_path, text, BLOBS))


def test_in_place_layers_create_new_values(tmp_path: Path) -> None:
    text = NET + layer_text("ReLU", bottoms="y", tops="y", name="relu")
    model = read_model(write_net(tmp_path, text, BLOBS))
    assert model.output_names == ("y",)
    plain = run(read_model(write_net(tmp_path, NET, BLOBS)))[0]
    assert np.array_equal(run(model)[0], np.maximum(plain, 0))


def test_reshapes_follow_the_batch(tmp_path: Path) -> None:
    shape = "reshape_param { shape { dim: 1 dim: -1 dim: 3 } }"
    text = NET + layer_text("Reshape", shape, "y", "r") + layer_text("Softmax", "", "r", "s")
    path = write_net(tmp_path, text, BLOBS)
    x = numbers((3, 2, 5, 5))
    batched = run(read_model(path, ReadOptions({"x": (3, 2, 5, 5)})), x=x)[0]
    alone = [run(read_model(path), x=x[i : i + 1])[0] for i in range(3)]
    assert batched.shape == (3, 9, 3)
    assert np.allclose(batched, np.concatenate(alone), atol=1e-6)


def test_error_names_the_layer_that_mixes_images(tmp_path: Path) -> None:
    text = NET + layer_text("Reduction", "reduction_param { axis: 0 }", "y", "sum")
    path = write_net(tmp_path, text, BLOBS)
    with pytest.raises(InputError, match="Reduction 'sum' does not treat each image"):
        read_model(path, ReadOptions({"x": (2, 2, 5, 5)}))


def test_reads_fp16_weights(tmp_path: Path) -> None:
    path = write_net(tmp_path, NET, BLOBS)
    (expected,) = run(read_model(path))
    layer = MessageWriter().text(1, "y")
    for array in BLOBS["y"]:
        raw = MessageWriter().integer(10, 2).block(12, array.astype(np.float16).tobytes())
        layer.message(7, raw.message(7, MessageWriter().integers(1, array.shape)))
    path.with_suffix(".caffemodel").write_bytes(MessageWriter().message(100, layer).finish())
    (result,) = run(read_model(path))
    assert 0 < np.abs(result - expected).max() < 0.01


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (layer_text("Convolution", CONV, "nothing"), "reads 'nothing'"),
        (layer_text("Convolution", CONV, name="other"), "no weights for this layer"),
        (layer_text("Convolution", "convolution_param { num_output: 3 }"), "out of range"),
        (layer_text("Convolution", CONV.replace("3 k", "4 k")), r"expected \[4, 2, 3, 3\]"),
        (layer_text("Pooling", "pooling_param { kernel_size: 9 }"), "larger than the padded"),
        (layer_text("Concat", "concat_param { axis: 7 }"), "axis 7 is not one"),
        (layer_text("Reshape", "reshape_param { shape { dim: 7 dim: -1 } }"), "do not fill"),
        (layer_text("ReLU", bottoms=""), "input 0 is missing"),
    ],
)
def test_rejects_invalid_layers(layers: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=words):
        read_model(write_net(tmp_path, INPUT + layers, BLOBS))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("layer {", "the end in place of"),
        ("layer { name }", "in place of a value"),
        ("layer: 5", "'layer' is not a message"),
        ('name { a: "b" }', "'name' is a message"),
        ("layer { blobs { num: x } }", "'num' is 'x'"),
        ("name: $", "line 1 has"),
        ("layer { " * (MAX_DEPTH + 5), "nested more than"),
        ('input: "x"', "1 inputs have 0 shapes"),
    ],
)
def test_rejects_invalid_prototxt(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=words):
        read_model(write_net(tmp_path, text, BLOBS))


def test_parses_all_prototxt_syntax() -> None:
    text = rb"""
    # a comment
    name: "a\"b\n\x41\101" 'c' ; list: [1, 2.5] , list: -3e-2f
    inner < flag: true > inner: { word: MAX } empty {}
    """
    fields = parse_text(text).fields
    assert fields["name"] == ['a"b\nAAc']
    assert fields["list"] == ["1", "2.5", "-3e-2f"]
    assert fields["inner"] == [TextMessage({"flag": ["true"]}), TextMessage({"word": ["MAX"]})]
    assert fields["empty"] == [TextMessage()]


def test_rejects_damaged_weights(tmp_path: Path) -> None:
    path = write_net(tmp_path, NET, BLOBS)
    content = weights_file(BLOBS)
    path.with_suffix(".caffemodel").write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match="not a valid Caffe network"):
        read_model(path)
