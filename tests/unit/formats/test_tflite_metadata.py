"""TFLite metadata are read completely, and damaged or malicious metadata do no harm."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import metadata_writer as about
import numpy as np
import pytest
import tflite_writer as writer
from model_collection import TFLITE, needs_models

from fourfold.formats import ReadOptions, read_model
from fourfold.formats.appended_files import MAX_FILE_BYTES
from fourfold.graph.metadata import (
    AssociatedFile,
    Labels,
    ModelMetadata,
    Normalization,
    ScoreCalibration,
    decode_metadata,
    encode_metadata,
)

LABELS = b"cat\ndog\n\nbird\n"


def classifier(metadata: bytes | None, files: bytes = b"", **more: Any) -> bytes:
    """Return a file of four scores with metadata in it and associated files behind it."""
    notes = {} if metadata is None else {"TFLITE_METADATA": metadata}
    tensors = [writer.Tensor("x", (1, 2, 2, 3)), writer.Tensor("y", (1, 2, 2, 3))]
    operators = [writer.Operator("RELU", ["x"], ["y"])]
    return writer.write(tensors, operators, ["x"], ["y"], metadata=notes, **more) + files


def described(
    inputs: list[about.Table], outputs: list[about.Table], files: bytes = b""
) -> ModelMetadata:
    data = classifier(about.flatbuffer(about.model("cats", inputs, outputs)), files)
    return read_model(data).metadata


def labelled(files: bytes, kind: int = about.AXIS_LABELS) -> ModelMetadata:
    outputs = [about.tensor("probability", files=[about.file("labels.txt", kind)])]
    return described([], outputs, files)


def test_reads_model_name_and_author() -> None:
    result = described([], [])
    assert (result.name, result.description) == ("cats", "all about cats")
    assert (result.version, result.author, result.licence) == ("v2", "the author", "a licence")
    assert result.problems == ()


def test_model_without_metadata() -> None:
    plain = writer.write_model(
        [writer.Subgraph([writer.Tensor("x", (1,))], [], ["x"], ["x"])], description=""
    )
    result = read_model(plain).metadata
    assert not result
    assert result == ModelMetadata()
    assert encode_metadata(result, {}) == b""
    assert decode_metadata(b"") == (result, {})


def test_reads_json_notes_behind_the_model() -> None:
    """Ultralytics exports have no metadata in the file, but a JSON file appended to it."""
    notes = b'{"task": "pose", "names": {"0": "cat"}, "kpt_shape": [5, 3], "end2end": false}'
    result = read_model(classifier(None, about.archive({"metadata.json": notes}))).metadata
    assert (result.properties["task"], result.properties["names"]) == ("pose", '{"0": "cat"}')
    assert (result.properties["kpt_shape"], result.properties["end2end"]) == ("[5, 3]", "false")
    data = about.flatbuffer(about.model("cats"))
    result = read_model(classifier(data, about.archive({"metadata.json": notes}))).metadata
    assert (result.name, result.properties["task"]) == ("cats", "pose")


@pytest.mark.parametrize("notes", [b"[1, 2]", b"{", b"\xff", b"[" * 100_000])
def test_reports_invalid_notes(notes: bytes) -> None:
    result = read_model(classifier(None, about.archive({"metadata.json": notes}))).metadata
    assert result.problems[0].startswith("metadata.json cannot be read")
    assert "task" not in result.properties


def test_reads_input_descriptions() -> None:
    units = [about.unit(about.NORMALIZATION, {0: [127.5, 1.0, 2.0], 1: [3.0]})]
    stats = {0: [1.0], 1: [-1.0]}
    picture = about.tensor(
        "picture",
        description="of a cat",
        dimensions=["batch", "height", "width", "color"],
        content=about.image(),
        units=units,
        stats=stats,
    )
    (result,) = described([picture], []).inputs
    assert (result.name, result.description) == ("picture", "of a cat")
    assert (result.content, result.color) == ("image", "rgb")
    assert result.normalization == Normalization((127.5, 1.0, 2.0), (3.0,))
    assert (result.minimum, result.maximum) == ((-1.0,), (1.0,))
    assert result.dimensions == ("batch", "height", "width", "color")


def test_reads_content_types() -> None:
    sound = about.tensor("clip", content={0: about.Byte(about.AUDIO), 1: {0: 16000, 1: 2}})
    boxes = about.tensor(
        "boxes",
        content={
            0: about.Byte(about.BOXES),
            1: {0: [1, 0, 3, 2], 1: about.Byte(1), 2: about.Byte(1)},
        },
    )
    result = described([sound], [boxes])
    assert result.inputs[0].properties == {"sample rate": "16000", "channels": "2"}
    assert result.outputs[0].content == "bounding boxes"
    corners = {"corners": "left top right bottom", "coordinates": "pixels", "order": "1 0 3 2"}
    assert result.outputs[0].properties == corners


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(("kind", "name"), [(2, "axis"), (3, "value"), (5, "vocabulary")])
def test_reads_labels_from_the_archive(method: int, kind: int, name: str) -> None:
    result = labelled(about.archive({"labels.txt": LABELS}, method), kind)
    assert result.problems == ()
    assert result.outputs[0].labels == (Labels(("cat", "dog", "", "bird"), name, "", "labels.txt"),)
    assert result.outputs[0].files == (
        AssociatedFile("labels.txt", name, "what labels.txt holds", size=len(LABELS)),
    )


def test_reads_labels_in_several_languages() -> None:
    files = [about.file(f"{one}.txt", about.AXIS_LABELS, one) for one in ("en", "de")]
    content = about.archive({"en.txt": b"cat", "de.txt": "Kätzchen\r\nHund\r\n".encode()})
    (result,) = described([], [about.tensor("p", files=files)], content).outputs
    assert result.label_texts() == result.label_texts("en") == ("cat",)
    assert result.label_texts("de") == ("Kätzchen", "Hund")
    assert result.label_texts("fr") == ("cat",)
    assert result.label_texts(kind="value") == ()


def test_archive_offsets_may_count_from_the_start_of_the_model(tmp_path: Path) -> None:
    """Python's zipfile writes such offsets when it appends to a file."""
    outputs = [about.tensor("p", files=[about.file("labels.txt", about.AXIS_LABELS)])]
    path = tmp_path / "m.tflite"
    path.write_bytes(classifier(about.flatbuffer(about.model("cats", [], outputs))))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels.txt", LABELS)
    assert read_model(path).metadata.outputs[0].label_texts()[:2] == ("cat", "dog")


def test_reads_score_thresholds_and_calibrations() -> None:
    units = [
        about.unit(about.THRESHOLD, {0: 0.25}),
        about.unit(about.SCORE_CALIBRATION, {0: about.Byte(1), 1: 0.125}),
    ]
    files = [about.file("curves.txt", about.CALIBRATION)]
    lines = b"1,2,0.5,0.1\n\n0.9,1,0\n"
    scores = about.tensor("scores", units=units, files=files)
    result = described([], [scores], about.archive({"curves.txt": lines})).outputs[0]
    assert result.threshold == 0.25
    least = -np.inf
    assert result.calibration == ScoreCalibration(
        "log", 0.125, ((1.0, 2.0, 0.5, 0.1), (), (0.9, 1.0, 0.0, least))
    )
    real = np.array([[0.5, 0.5, 0.5], [0.05, 0.5, 0.25]])
    by_hand = [
        [1 / (1 + np.exp(-(2 * np.log(0.5) + 0.5))), 0.125, 0.9 / (1 + np.exp(-np.log(0.5)))],
        [0.125, 0.125, 0.9 / (1 + np.exp(-np.log(0.25)))],
    ]
    np.testing.assert_allclose(result.calibration.apply(real), by_hand)


@pytest.mark.parametrize(
    ("transform", "moved"), [("identity", 0.25), ("inverse logistic", np.log(0.25 / 0.75))]
)
def test_applies_calibration_transforms(transform: str, moved: float) -> None:
    calibration = ScoreCalibration(transform, 0.0, ((2.0, 3.0, 1.0, -np.inf),))
    result = calibration.apply(np.array([0.25]))
    np.testing.assert_allclose(result, [2 / (1 + np.exp(-(3 * moved + 1)))])
    other = np.array([0.25, 0.5])
    # without curves, scores stay unchanged
    np.testing.assert_array_equal(calibration.apply(other), other)


def test_reads_tokenizer_vocabulary() -> None:
    units = [about.unit(about.REGEX, {0: r"\W+", 1: [about.file("v.txt", about.VOCABULARY)]})]
    result = described([about.tensor("ids", units=units)], [], about.archive({"v.txt": b"a\nb"}))
    assert result.inputs[0].label_texts(kind="vocabulary") == ("a", "b")


def test_metadata_record_round_trips() -> None:
    units = [about.unit(about.NORMALIZATION, {0: [1.5], 1: [2.5]}),
             about.unit(about.SCORE_CALIBRATION, {1: 0.5})]  # fmt: skip
    files = [about.file("labels.txt", 2), about.file("curves.txt", 4), about.file("gone.txt", 2)]
    content = about.archive({"labels.txt": LABELS, "curves.txt": b"1,2,3\n"})
    result = described([], [about.tensor("p", units=units, files=files)], content)
    assert result.problems == (
        "the labels in 'gone.txt' cannot be read: the file 'gone.txt' is missing",
    )
    again, signatures = decode_metadata(encode_metadata(result, {}))
    assert again == result
    assert signatures == {}


@pytest.mark.parametrize("record", [b"{", b"[]", b'{"signatures":{}}', b'{"signatures":{"a":3}}'])
def test_rejects_invalid_metadata_records(record: bytes) -> None:
    result, _ = decode_metadata(record)
    assert len(result.problems) == 1


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (b"", "its identifier"),
        (b"M001", "its identifier"),
        (b"\xff\xff\xff\xffM001", "is outside"),
        (about.flatbuffer({0: "x"}, b"M002"), "M002"),
        (bytes(MAX_FILE_BYTES + 1), "the limit is"),
    ],
)
def test_reports_invalid_metadata(metadata: bytes, reason: str) -> None:
    result = read_model(classifier(metadata)).metadata
    assert [reason in problem for problem in result.problems] == [True]
    assert result.properties == {"file description": "made for a test"}


def test_escapes_terminal_control_sequences() -> None:
    result = described([], [about.tensor("a\x1b[2Jb\x9bc", description="two\nlines")])
    assert result.outputs[0].name == "a\\x1b[2Jb\\x9bc"
    assert result.outputs[0].description == "two\nlines"


def test_file_names_in_metadata_are_not_opened_as_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    files = [about.file(name, 2) for name in ("secret.txt", "../../etc/passwd", "/etc/passwd")]
    content = about.archive({"../../etc/passwd": b"only\ntext"})
    (result,) = described([], [about.tensor("p", files=files)], content).outputs
    assert [labels.texts for labels in result.labels] == [("only", "text")]
    assert list(tmp_path.iterdir()) == [tmp_path / "secret.txt"]


def test_limits_decompressed_size() -> None:
    bomb = about.archive({"labels.txt": bytes(1 << 25)})
    tracemalloc.start()
    result = labelled(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "more than the limit" in result.problems[0]
    assert peak < 16 << 20


def test_limits_decompressed_size_with_a_forged_header() -> None:
    bomb = bytearray(about.archive({"labels.txt": bytes(1 << 25)}))
    offset = bomb.rfind(b"PK\x01\x02")
    struct.pack_into("<I", bomb, offset + 24, 1000)
    tracemalloc.start()
    result = labelled(bytes(bomb))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.outputs[0].labels == ()
    assert len(result.problems) == 1
    assert peak < 16 << 20


def test_limits_labels_shared_by_many_tensors() -> None:
    """Stored metadata must stay small, no matter how often a model references its files."""
    files = [about.file("labels.txt", about.AXIS_LABELS)] * 200
    content = about.archive({"labels.txt": b"label\n" * 100_000})
    result = described([], [about.tensor("p", files=files)], content)
    assert result.outputs[0].labels
    assert result.problems
    assert len(encode_metadata(result, {})) < 16 << 20


def test_rejects_too_many_labels() -> None:
    result = labelled(about.archive({"labels.txt": b"\n" * (1 << 18)}))
    assert result.outputs[0].labels == ()
    assert "lines" in result.problems[0]


def damaged(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 4))):
        offset = rng.randrange(len(changed))
        if rng.random() < 0.5:
            changed[offset] ^= 1 << rng.randrange(8)
        else:
            word = rng.choice((0, 1, 4, 255, 2**16, 2**31 - 1, 2**32 - 1))
            changed[offset : offset + 4] = struct.pack("<I", word)[: len(changed) - offset]
    return bytes(changed)


def test_damaged_metadata_never_prevent_reading() -> None:
    """Bits and words of the metadata and the archive are changed; the model stays readable."""
    units = [about.unit(about.NORMALIZATION, {0: [127.5], 1: [127.5]}),
             about.unit(about.SCORE_CALIBRATION, {1: 0.5}),
             about.unit(about.BERT, {0: [about.file("labels.txt", 5)]})]  # fmt: skip
    files = [about.file("labels.txt", 2), about.file("curves.txt", 4)]
    picture = about.tensor("image", content=about.image(), units=units, dimensions=["a", "b"])
    scores = about.tensor("scores", units=units, files=files, stats={0: [1.0], 1: [0.0]})
    sound = about.flatbuffer(about.model("cats", [picture], [scores]))
    ended = about.archive({"labels.txt": LABELS, "curves.txt": b"1,2,3\n"})
    whole, problems = classifier(sound), 0
    for number in range(2000):
        rng = random.Random(number)
        data = whole.replace(sound, damaged(sound, rng)) + ended
        if number % 2:
            data = whole + damaged(ended, rng)
        result = read_model(data).metadata
        again, _ = decode_metadata(encode_metadata(result, {}))
        assert again.problems == result.problems
        problems += bool(result.problems)
    assert problems > 200


def test_truncated_archives_never_prevent_reading() -> None:
    ended = about.archive({"labels.txt": LABELS})
    for length in range(len(ended)):
        result = labelled(ended[:length])
        assert result.outputs[0].labels == ()
        assert result.problems


def test_reads_only_referenced_files(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "fourfold.formats.tflite.reader.read_metadata", lambda *given: asked.append("metadata")
    )
    model = read_model(classifier(b"M001"))
    assert asked == []
    assert model.metadata is None
    assert asked == ["metadata"]


KNOWN = {
    "deeplab_v3_257_float": ("DeepLabV3", 127.5, (21, "background", "tv")),
    "face_detection_short_range": ("Short Range Face Detection", 127.5, None),
    "mobilenet_v1_0.25_128_quant": ("ImageClassifier", 127.5, (1001, "background", None)),
    "mobilenet_v2_035_96_embedder_with_metadata": ("ImageEmbedder", 127.5, None),
    "mobilenet_v2_1.0_224_quant": ("ImageClassifier", 127.5, (1001, "background", None)),
    "ssd_mobilenet_v1_uint8": ("Coco SSD MobileNetV1", 127.5, (90, "person", "toothbrush")),
    "tf2_mobilenet_v2_1.0_224_ptq": ("ImageClassifier", 127.5, (1001, "background", None)),
    "yamnet_audio_classifier_with_metadata": (
        "yamnet/classification", None, (521, "Speech", "Field recording")
    ),
}  # fmt: skip


@needs_models
@pytest.mark.parametrize("name", KNOWN)
def test_reads_metadata_of_published_models(name: str) -> None:
    path = TFLITE / f"{name}.tflite"
    title, mean, expected = KNOWN[name]
    result = read_model(path, ReadOptions(keep_unsupported=True)).metadata
    assert (result.name, result.problems) == (title, ())
    scaled = result.inputs[0].normalization
    assert scaled == (None if mean is None else Normalization((mean,), (mean,)))
    labels = [
        texts for one in result.outputs for texts in (one.labels and one.labels[0].texts,) if texts
    ]
    if expected is None:
        assert labels == []
        return
    count, first, last = expected
    assert (len(labels[0]), labels[0][0]) == (count, first)
    assert last in (None, labels[0][-1])
    with zipfile.ZipFile(path) as archive:  # compare with Python's zip reader
        (info,) = archive.infolist()
        assert list(labels[0]) == archive.read(info).decode().splitlines()
        assert result.outputs[
            [*map(bool, (o.labels for o in result.outputs))].index(True)
        ].files == (
            AssociatedFile(
                info.filename,
                "value" if "ssd" in name else "axis",
                next(o.files[0].description for o in result.outputs if o.files),
                size=info.file_size,
            ),
        )
