"""Class scores, embeddings, and outputs of unknown meaning."""

from __future__ import annotations

import numpy as np
import pytest
from described_models import described, labelled, tensor

from fourfold.errors import InputError
from fourfold.graph.metadata import Labels, ModelMetadata, ScoreCalibration, TensorMetadata
from fourfold.types import Quantization
from fourfold.vision import read_answer
from fourfold.vision.meaning import METADATA

ANIMALS = ("cat", "dog", "bird", "fish")
SCORES = np.array([[0.2, 0.5, 0.25, 0.05]], np.float32)


def test_labels_of_metadata_make_scores_of_numbers() -> None:
    model = described([tensor("y", (1, 4), said=labelled(*ANIMALS))])
    answer = read_answer(model, {"y": np.float32([[-3, 7, 0, 2]])}, top=2)
    assert (answer.told_by, answer.kinds) == (METADATA, ("classes",))
    assert [(one.number, one.name, one.score) for one in answer.classes] == [
        (1, "dog", 7.0),
        (3, "fish", 2.0),
    ]


def test_quantised_scores_are_real_numbers() -> None:
    said = TensorMetadata(labels=(Labels(ANIMALS),), threshold=0.25)
    model = described([tensor("y", (1, 4), "u1", Quantization((1 / 256,), (0,)), said)])
    answer = read_answer(model, {"y": np.array([[64, 128, 0, 32]], np.uint8)})
    assert [(one.label, one.score) for one in answer.classes] == [("dog", 0.5), ("cat", 0.25)]


def test_a_tensor_goes_between_integers_and_real_numbers() -> None:
    info = tensor("y", (1, 3), "i1", Quantization((0.5,), (-3,)))
    integers = info.quantize(np.float32([[1.0, -0.6, 1000.0]]))
    assert (integers.dtype, integers.tolist()) == (np.int8, [[-1, -4, 127]])
    assert info.dequantize(integers).tolist() == [[1.0, -0.5, 65.0]]
    plain = np.float32([[1.5, 2.5, 3.5]])
    assert tensor("y", (1, 3)).quantize(plain) is plain
    assert tensor("y", (1, 3)).dequantize(plain) is plain


def test_scores_are_calibrated() -> None:
    curves = ((1.0, 1.0, 0.0, -np.inf),) * 3 + ((),)
    calibration = ScoreCalibration("identity", 0.75, curves)
    said = TensorMetadata(labels=(Labels(ANIMALS),), calibration=calibration)
    answer = read_answer(described([tensor("y", (1, 4), said=said)]), {"y": np.zeros((1, 4))})
    assert [(one.label, one.score) for one in answer.classes[:2]] == [("fish", 0.75), ("cat", 0.5)]


def test_probabilities_are_recognized_by_value_with_a_note() -> None:
    answer = read_answer(described({"y": (1, 4)}), {"y": SCORES}, top=1)
    assert [(one.name, one.score) for one in answer.classes] == [("class 1", 0.5)]
    assert answer.notes == ("assumed to be class scores: the values are from 0 to 1 and sum to 1",)


@pytest.mark.parametrize(
    "numbers", [np.float32([[3, -1, 2, 9]]), np.float32([[0.5, 0.5, 0.5, 0.5]])]
)
def test_unknown_outputs_are_not_guessed(numbers: np.ndarray) -> None:
    answer = read_answer(described({"y": (1, 4)}), {"y": numbers})
    assert not answer.known
    assert (answer.classes, answer.unknown) == ((), ("y",))
    assert "the meaning of the outputs is unknown" in str(answer)


def test_labels_of_a_caller_make_classes_of_a_row() -> None:
    model, numbers = described({"y": (1, 4)}), {"y": np.float32([[3, -1, 2, 9]])}
    answer = read_answer(model, numbers, ANIMALS, top=1)
    assert answer.classes[0].label == "fish"
    answer = read_answer(model, numbers, ("background", *ANIMALS), top=1)
    assert answer.classes[0].label == "fish"
    with pytest.raises(InputError, match="3 labels do not fit 4 classes"):
        read_answer(model, numbers, ANIMALS[:3])


def test_labels_of_metadata_that_do_not_fit_are_not_used() -> None:
    model = described([tensor("y", (1, 4), said=labelled("a", "b"))])
    assert read_answer(model, {"y": SCORES}).classes[0].label == ""


def test_names_that_ultralytics_write_are_labels() -> None:
    about = ModelMetadata(properties={"names": "{0: 'cat', 1: 'dog', 2: 'bird', 3: 'fish'}"})
    answer = read_answer(described({"y": (1, 4)}, metadata=about), {"y": SCORES})
    assert (answer.told_by, answer.classes[0].label) == (METADATA, "dog")
    for text in ("{0: 'cat', 2: 'dog'}", "{0: ", "__import__('os')"):
        about = ModelMetadata(properties={"names": text})
        answer = read_answer(described({"y": (1, 4)}, metadata=about), {"y": SCORES})
        assert answer.classes[0].label == ""


def test_an_embedding_is_recognized_by_name() -> None:
    about = ModelMetadata(name="ImageEmbedder")
    answer = read_answer(described({"y": (1, 4)}, metadata=about), {"y": SCORES})
    assert (answer.kinds, answer.classes) == (("embedding",), ())
    assert "4 numbers: compare embeddings by cosine similarity" in answer.notes


def test_the_best_of_post_processing() -> None:
    outputs = [tensor("scores", (1, 2)), tensor("classes", (1, 2), "i4", said=labelled(*ANIMALS))]
    found = {"scores": np.float32([[0.5, 0.25]]), "classes": np.int32([[3, 0]])}
    answer = read_answer(described(outputs), found)
    assert [(one.label, one.score) for one in answer.classes] == [("fish", 0.5), ("cat", 0.25)]
    answer = read_answer(described(outputs), found, ("background", *ANIMALS))
    assert [one.label for one in answer.classes] == ["bird", "background"]  # by the numbers


def test_an_output_that_is_missing_is_an_error() -> None:
    model = described([tensor("y", (1, 4), said=labelled(*ANIMALS))])
    with pytest.raises(InputError, match="output 'y' is missing"):
        read_answer(model, {})
