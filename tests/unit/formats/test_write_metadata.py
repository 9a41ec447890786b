"""Written files keep the metadata of their model."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs.tiny_model import ANIMALS, tiny_described_model

import fourfold
from fourfold.formats import formats, read_model
from fourfold.formats.writable import WritableModel
from fourfold.graph.metadata import (
    Labels,
    ModelMetadata,
    Normalization,
    ScoreCalibration,
    TensorMetadata,
)

CURVES = ((1.0, 2.0, 3.0, 0.125), (), (1.0, 2.0, 3.0, -np.inf))
METADATA = ModelMetadata(
    name="animals",
    description="tells them apart",
    version="3",
    author="somebody",
    licence="as you like",
    inputs=(
        TensorMetadata(
            "picture",
            "of an animal",
            "image",
            "gray",
            dimensions=("batch", "height"),
            normalization=Normalization((1.0, 2.0, 3.0), (4.0,)),
            minimum=(-1.0,),
            maximum=(1.0,),
        ),
    ),
    outputs=(
        TensorMetadata(
            "animal",
            threshold=0.25,
            calibration=ScoreCalibration("log", 0.5, CURVES),
            labels=(
                Labels(("cat", "", "Löwe"), "axis", "en", "labels.txt"),
                Labels(("Katze",), "axis", "de", "labels.txt"),
                Labels(("cat", "", "Löwe"), "value", "", "labels.txt"),
                Labels(("a", "b"), "vocabulary", "", "v.txt"),
            ),
        ),
    ),
)  # fmt: skip


def write_model(form: str, metadata: ModelMetadata) -> bytes:
    model = read_model(tiny_described_model())
    arguments = (model.main, model.input_names, model.output_names)
    return formats()[form].write(WritableModel(*arguments, metadata=metadata))


def without_files(metadata: ModelMetadata) -> ModelMetadata:
    """Return metadata without file names and producer notes, which differ between files."""

    def plain(tensor: TensorMetadata) -> TensorMetadata:
        labels = tuple(replace(one, file="") for one in tensor.labels)
        return replace(tensor, files=(), labels=labels)

    ports = (tuple(map(plain, end)) for end in (metadata.inputs, metadata.outputs))
    inputs, outputs = ports
    return replace(metadata, inputs=inputs, outputs=outputs, properties={})


def test_tflite_keeps_all_metadata() -> None:
    result = read_model(write_model("tflite", METADATA)).metadata
    assert result.problems == ()
    assert without_files(result) == without_files(METADATA)
    names = [one.file for one in result.outputs[0].labels]
    assert names == ["labels.txt", "labels_2.txt", "labels.txt", "v.txt"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("audio", {"sample rate": "16000", "channels": "2"}),
        ("features", {}),
        (
            "bounding boxes",
            {"corners": "left top width height", "coordinates": "pixels", "order": "1 0 3 2"},
        ),
    ],
)
def test_tflite_keeps_content_types(content: str, said: dict[str, str]) -> None:
    tensor = TensorMetadata("x", content=content, properties=said)
    result = read_model(write_model("tflite", ModelMetadata("m", inputs=(tensor,)))).metadata
    assert result.inputs == (tensor,)


def test_zip_tools_can_read_associated_files(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(write_model("tflite", METADATA))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("labels.txt").decode() == "cat\n\nLöwe"
        assert archive.infolist()[0].header_offset > 1000  # counted from the start of the model


def test_writes_no_empty_metadata() -> None:
    plain = write_model("tflite", ModelMetadata(properties={"producer": "somebody"}))
    assert not zipfile.is_zipfile(io.BytesIO(plain))
    assert b"TFLITE_METADATA" not in plain


def test_onnx_keeps_text_metadata() -> None:
    result = read_model(write_model("onnx", replace(METADATA, properties={"note": "n"}))).metadata
    assert (result.description, result.version) == ("tells them apart", "3")
    own = {name: result.properties[name] for name in ("author", "licence", "note")}
    assert own == {"author": "somebody", "licence": "as you like", "note": "n"}


@pytest.mark.parametrize("ending", [".tflite", ".fourfold"])
@pytest.mark.parametrize("more", [{}, {"quantize": "fp16"}], ids=["float", "fp16"])
def test_optimized_models_keep_their_labels(
    tmp_path: Path, ending: str, more: dict[str, Any]
) -> None:
    source, path = tmp_path / "animals.tflite", tmp_path / f"out{ending}"
    source.write_bytes(tiny_described_model())
    fourfold.optimize(source, path, **more)
    with fourfold.Session(path, cache=None) as session:
        assert session.outputs[0].labels == tuple(ANIMALS)
        assert session.metadata.inputs[0].normalization == Normalization((127.5,), (127.5,))


def test_cut_model_keeps_remaining_metadata(tmp_path: Path) -> None:
    source, path = tmp_path / "animals.tflite", tmp_path / "cut.tflite"
    source.write_bytes(tiny_described_model())
    fourfold.optimize(source, path, outputs=["logits"])
    result = read_model(path).metadata
    assert result.name == "animals"
    assert result.inputs[0].content == "image"
    assert result.outputs in ((), (TensorMetadata(),))
