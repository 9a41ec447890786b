"""What TFLite's metadata say of a model, and that nothing in them can do harm."""

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
    """A file of four scores, with metadata in it and files behind it."""
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


def test_a_model_says_who_made_it() -> None:
    found = described([], [])
    assert (found.name, found.description) == ("cats", "all about cats")
    assert (found.version, found.author, found.licence) == ("v2", "the author", "a licence")
    assert found.problems == ()


def test_a_model_without_metadata() -> None:
    plain = writer.write_model(
        [writer.Subgraph([writer.Tensor("x", (1,))], [], ["x"], ["x"])], description=""
    )
    found = read_model(plain).metadata
    assert not found
    assert found == ModelMetadata()
    assert encode_metadata(found, {}) == b""
    assert decode_metadata(b"") == (found, {})


def test_notes_in_a_file_behind_the_model() -> None:
    """As Ultralytics write them: no metadata in the file, but a file of JSON at its end."""
    notes = b'{"task": "pose", "names": {"0": "cat"}, "kpt_shape": [5, 3], "end2end": false}'
    found = read_model(classifier(None, about.archive({"metadata.json": notes}))).metadata
    assert (found.properties["task"], found.properties["names"]) == ("pose", '{"0": "cat"}')
    assert (found.properties["kpt_shape"], found.properties["end2end"]) == ("[5, 3]", "false")
    data = about.flatbuffer(about.model("cats"))
    found = read_model(classifier(data, about.archive({"metadata.json": notes}))).metadata
    assert (found.name, found.properties["task"]) == ("cats", "pose")


@pytest.mark.parametrize("notes", [b"[1, 2]", b"{", b"\xff", b"[" * 100_000])
def test_notes_that_make_no_sense_are_a_problem(notes: bytes) -> None:
    found = read_model(classifier(None, about.archive({"metadata.json": notes}))).metadata
    assert found.problems[0].startswith("metadata.json cannot be read")
    assert "task" not in found.properties


def test_inputs_are_described() -> None:
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
    (found,) = described([picture], []).inputs
    assert (found.name, found.description) == ("picture", "of a cat")
    assert (found.content, found.color) == ("image", "rgb")
    assert found.normalization == Normalization((127.5, 1.0, 2.0), (3.0,))
    assert (found.minimum, found.maximum) == ((-1.0,), (1.0,))
    assert found.dimensions == ("batch", "height", "width", "color")


def test_contents_are_named() -> None:
    sound = about.tensor("clip", content={0: about.Byte(about.AUDIO), 1: {0: 16000, 1: 2}})
    boxes = about.tensor(
        "boxes",
        content={
            0: about.Byte(about.BOXES),
            1: {0: [1, 0, 3, 2], 1: about.Byte(1), 2: about.Byte(1)},
        },
    )
    found = described([sound], [boxes])
    assert found.inputs[0].properties == {"sample rate": "16000", "channels": "2"}
    assert found.outputs[0].content == "bounding boxes"
    corners = {"corners": "left top right bottom", "coordinates": "pixels", "order": "1 0 3 2"}
    assert found.outputs[0].properties == corners


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(("kind", "name"), [(2, "axis"), (3, "value"), (5, "vocabulary")])
def test_labels_come_from_the_archive(method: int, kind: int, name: str) -> None:
    found = labelled(about.archive({"labels.txt": LABELS}, method), kind)
    assert found.problems == ()
    assert found.outputs[0].labels == (Labels(("cat", "dog", "", "bird"), name, "", "labels.txt"),)
    assert found.outputs[0].files == (
        AssociatedFile("labels.txt", name, "what labels.txt holds", size=len(LABELS)),
    )


def test_labels_in_several_languages() -> None:
    files = [about.file(f"{one}.txt", about.AXIS_LABELS, one) for one in ("en", "de")]
    content = about.archive({"en.txt": b"cat", "de.txt": "Kätzchen\r\nHund\r\n".encode()})
    (found,) = described([], [about.tensor("p", files=files)], content).outputs
    assert found.label_texts() == found.label_texts("en") == ("cat",)
    assert found.label_texts("de") == ("Kätzchen", "Hund")
    assert found.label_texts("fr") == ("cat",)
    assert found.label_texts(kind="value") == ()


def test_places_of_files_may_count_from_the_start_of_the_model(tmp_path: Path) -> None:
    """As Python's own zipfile writes them where it appends to a file."""
    outputs = [about.tensor("p", files=[about.file("labels.txt", about.AXIS_LABELS)])]
    path = tmp_path / "m.tflite"
    path.write_bytes(classifier(about.flatbuffer(about.model("cats", [], outputs))))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels.txt", LABELS)
    assert read_model(path).metadata.outputs[0].label_texts()[:2] == ("cat", "dog")


def test_scores_have_thresholds_and_calibrations() -> None:
    units = [
        about.unit(about.THRESHOLD, {0: 0.25}),
        about.unit(about.SCORE_CALIBRATION, {0: about.Byte(1), 1: 0.125}),
    ]
    files = [about.file("curves.txt", about.CALIBRATION)]
    lines = b"1,2,0.5,0.1\n\n0.9,1,0\n"
    scores = about.tensor("scores", units=units, files=files)
    found = described([], [scores], about.archive({"curves.txt": lines})).outputs[0]
    assert found.threshold == 0.25
    least = -np.inf
    assert found.calibration == ScoreCalibration(
        "log", 0.125, ((1.0, 2.0, 0.5, 0.1), (), (0.9, 1.0, 0.0, least))
    )
    real = np.array([[0.5, 0.5, 0.5], [0.05, 0.5, 0.25]])
    by_hand = [
        [1 / (1 + np.exp(-(2 * np.log(0.5) + 0.5))), 0.125, 0.9 / (1 + np.exp(-np.log(0.5)))],
        [0.125, 0.125, 0.9 / (1 + np.exp(-np.log(0.25)))],
    ]
    np.testing.assert_allclose(found.calibration.apply(real), by_hand)


@pytest.mark.parametrize(
    ("transform", "moved"), [("identity", 0.25), ("inverse logistic", np.log(0.25 / 0.75))]
)
def test_transforms_of_calibrations(transform: str, moved: float) -> None:
    calibration = ScoreCalibration(transform, 0.0, ((2.0, 3.0, 1.0, -np.inf),))
    found = calibration.apply(np.array([0.25]))
    np.testing.assert_allclose(found, [2 / (1 + np.exp(-(3 * moved + 1)))])
    other = np.array([0.25, 0.5])
    np.testing.assert_array_equal(calibration.apply(other), other)  # it has no curves for these


def test_words_of_a_tokenizer() -> None:
    units = [about.unit(about.REGEX, {0: r"\W+", 1: [about.file("v.txt", about.VOCABULARY)]})]
    found = described([about.tensor("ids", units=units)], [], about.archive({"v.txt": b"a\nb"}))
    assert found.inputs[0].label_texts(kind="vocabulary") == ("a", "b")


def test_a_record_keeps_everything() -> None:
    units = [about.unit(about.NORMALIZATION, {0: [1.5], 1: [2.5]}),
             about.unit(about.SCORE_CALIBRATION, {1: 0.5})]  # fmt: skip
    files = [about.file("labels.txt", 2), about.file("curves.txt", 4), about.file("gone.txt", 2)]
    content = about.archive({"labels.txt": LABELS, "curves.txt": b"1,2,3\n"})
    found = described([], [about.tensor("p", units=units, files=files)], content)
    assert found.problems == (
        "the labels in 'gone.txt' cannot be read: the file 'gone.txt' is missing",
    )
    again, signatures = decode_metadata(encode_metadata(found, {}))
    assert again == found
    assert signatures == {}


@pytest.mark.parametrize("record", [b"{", b"[]", b'{"signatures":{}}', b'{"signatures":{"a":3}}'])
def test_a_record_that_is_none(record: bytes) -> None:
    found, _ = decode_metadata(record)
    assert len(found.problems) == 1


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
def test_metadata_that_are_none(metadata: bytes, reason: str) -> None:
    found = read_model(classifier(metadata)).metadata
    assert [reason in problem for problem in found.problems] == [True]
    assert found.properties == {"file description": "made for a test"}


def test_what_a_terminal_would_obey_is_escaped() -> None:
    found = described([], [about.tensor("a\x1b[2Jb\x9bc", description="two\nlines")])
    assert found.outputs[0].name == "a\\x1b[2Jb\\x9bc"
    assert found.outputs[0].description == "two\nlines"


def test_names_of_files_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    files = [about.file(name, 2) for name in ("secret.txt", "../../etc/passwd", "/etc/passwd")]
    content = about.archive({"../../etc/passwd": b"only\ntext"})
    (found,) = described([], [about.tensor("p", files=files)], content).outputs
    assert [labels.texts for labels in found.labels] == [("only", "text")]
    assert list(tmp_path.iterdir()) == [tmp_path / "secret.txt"]


def test_a_bomb_does_not_go_off() -> None:
    bomb = about.archive({"labels.txt": bytes(1 << 25)})
    tracemalloc.start()
    found = labelled(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "more than the limit" in found.problems[0]
    assert peak < 16 << 20


def test_a_bomb_that_lies_about_its_size_does_not_go_off() -> None:
    bomb = bytearray(about.archive({"labels.txt": bytes(1 << 25)}))
    place = bomb.rfind(b"PK\x01\x02")
    struct.pack_into("<I", bomb, place + 24, 1000)
    tracemalloc.start()
    found = labelled(bytes(bomb))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.outputs[0].labels == ()
    assert len(found.problems) == 1
    assert peak < 16 << 20


def test_one_file_for_very_many_tensors_is_bounded() -> None:
    """What is kept of a model must stay small, however often it names its files."""
    files = [about.file("labels.txt", about.AXIS_LABELS)] * 200
    content = about.archive({"labels.txt": b"label\n" * 100_000})
    found = described([], [about.tensor("p", files=files)], content)
    assert found.outputs[0].labels
    assert found.problems
    assert len(encode_metadata(found, {})) < 16 << 20


def test_too_many_labels_are_refused() -> None:
    found = labelled(about.archive({"labels.txt": b"\n" * (1 << 18)}))
    assert found.outputs[0].labels == ()
    assert "lines" in found.problems[0]


def damaged(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 4))):
        place = rng.randrange(len(changed))
        if rng.random() < 0.5:
            changed[place] ^= 1 << rng.randrange(8)
        else:
            word = rng.choice((0, 1, 4, 255, 2**16, 2**31 - 1, 2**32 - 1))
            changed[place : place + 4] = struct.pack("<I", word)[: len(changed) - place]
    return bytes(changed)


def test_no_damage_is_an_error() -> None:
    """Bits and words of metadata and of the archive are changed; the model is read all the same."""
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
        found = read_model(data).metadata
        again, _ = decode_metadata(encode_metadata(found, {}))
        assert again.problems == found.problems
        problems += bool(found.problems)
    assert problems > 200


def test_every_truncation_of_the_archive() -> None:
    ended = about.archive({"labels.txt": LABELS})
    for length in range(len(ended)):
        found = labelled(ended[:length])
        assert found.outputs[0].labels == ()
        assert found.problems


def test_only_what_is_asked_for_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_models_that_have_metadata(name: str) -> None:
    path = TFLITE / f"{name}.tflite"
    title, mean, expected = KNOWN[name]
    found = read_model(path, ReadOptions(keep_unsupported=True)).metadata
    assert (found.name, found.problems) == (title, ())
    scaled = found.inputs[0].normalization
    assert scaled == (None if mean is None else Normalization((mean,), (mean,)))
    labels = [
        texts for one in found.outputs for texts in (one.labels and one.labels[0].texts,) if texts
    ]
    if expected is None:
        assert labels == []
        return
    count, first, last = expected
    assert (len(labels[0]), labels[0][0]) == (count, first)
    assert last in (None, labels[0][-1])
    with zipfile.ZipFile(path) as archive:  # another reader of the same file
        (info,) = archive.infolist()
        assert list(labels[0]) == archive.read(info).decode().splitlines()
        assert found.outputs[[*map(bool, (o.labels for o in found.outputs))].index(True)].files == (
            AssociatedFile(
                info.filename,
                "value" if "ssd" in name else "axis",
                next(o.files[0].description for o in found.outputs if o.files),
                size=info.file_size,
            ),
        )
