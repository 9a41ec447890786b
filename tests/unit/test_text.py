"""Models with text inputs and outputs: string operators run in LiteRT, others on either target."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite_writer as writer
from click.testing import CliRunner
from runtimes import needs_litert

import fourfold
from fourfold.backends.cpu.litert import interpreter
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, ModelError, UnsupportedError
from fourfold.formats import ReadOptions, read_model
from fourfold.options import CompileOptions
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_model

pytestmark = needs_litert
STRING, INT64 = 5, 4
WORDS = ("good", "bad", "fine", "übel")
ANSWERS = ("negative", "positive")
EMBEDDING = np.array(
    [[0.1, 0.2, 0.3], [2, -1, 0.5], [-2, 1, 0.25], [1, -0.5, 0.5], [-1, 2, 1]], np.float32
)
WEIGHTS = np.array([[-1, 1, 0.5], [1, -1, 0.25]], np.float32)


def pack_strings(texts: Sequence[str]) -> np.ndarray:
    """Return strings in TFLite's layout: count, offsets of each start and end, then the bytes."""
    parts = [text.encode() for text in texts]
    offsets = np.cumsum([4 * (len(parts) + 2), *map(len, parts)])
    head = struct.pack(f"<{len(parts) + 2}i", len(parts), *offsets)
    return np.frombuffer(head + b"".join(parts), np.uint8)


def text_constant(name: str, texts: Sequence[str]) -> writer.Tensor:
    return writer.Tensor(name, (len(texts),), "str", data=pack_strings(texts))


def word_classifier() -> bytes:
    """Return a model that looks words up in a table, embeds and scores them, and names the best
    class.
    """
    hashtable = {"TableId": 3, "KeyDtype": STRING, "ValueDtype": INT64}
    hashtable_operator = writer.Operator("HASHTABLE", [], ["table"], "HashtableOptions", hashtable)
    setup = writer.Subgraph(
        [
            writer.Tensor("table", (1,), "resource"),
            text_constant("keys", WORDS),
            writer.constant("numbers", np.arange(1, 5), "int64"),
        ],
        [hashtable_operator, writer.Operator("HASHTABLE_IMPORT", ["table", "keys", "numbers"], [])],
        [],
        [],
        "start",
    )
    tensors = [
        writer.Tensor("words", (4,), "str", signature=(-1,)),
        writer.Tensor("table", (1,), "resource"),
        writer.constant("unknown", [0], "int64"),
        writer.Tensor("ids", (4,), "int64"),
        writer.Tensor("places", (4,), "int32"),
        writer.Tensor("embedding", EMBEDDING.shape, data=EMBEDDING),
        writer.Tensor("vectors", (4, 3)),
        writer.Tensor("weights", WEIGHTS.shape, data=WEIGHTS),
        writer.Tensor("scores", (4, 2)),
        writer.constant("axis", 1),
        writer.Tensor("best", (4,), "int32"),
        text_constant("answers", ANSWERS),
        writer.Tensor("answer", (4,), "str"),
    ]
    once = writer.Operator("CALL_ONCE", [], [], "CallOnceOptions", {"InitSubgraphIndex": 1})
    operators = [
        once,
        hashtable_operator,
        writer.Operator("HASHTABLE_FIND", ["table", "words", "unknown"], ["ids"]),
        writer.Operator("CAST", ["ids"], ["places"], "CastOptions",
                        {"InDataType": INT64, "OutDataType": 2}),
        writer.Operator("GATHER", ["embedding", "places"], ["vectors"], "GatherOptions"),
        writer.Operator("FULLY_CONNECTED", ["vectors", "weights", None], ["scores"],
                        "FullyConnectedOptions", {"KeepNumDims": True}),
        writer.Operator("ARG_MAX", ["scores", "axis"], ["best"], "ArgMaxOptions",
                        {"OutputType": 2}),
        writer.Operator("GATHER", ["answers", "best"], ["answer"], "GatherOptions"),
    ]  # fmt: skip
    main = writer.Subgraph(tensors, operators, ["words"], ["answer", "scores"])
    return writer.write_model([main, setup])


def word_equality_model() -> bytes:
    """Return a model that compares three words with 'yes' and computes exp of the result."""
    tensors = [
        writer.Tensor("words", (3,), "str"),
        text_constant("key", ["yes"]),
        writer.Tensor("same", (3,), "bool"),
        writer.Tensor("number", (3,)),
        writer.Tensor("y", (3,)),
    ]
    operators = [
        writer.Operator("EQUAL", ["words", "key"], ["same"], "EqualOptions"),
        writer.Operator("CAST", ["same"], ["number"], "CastOptions",
                        {"InDataType": 6, "OutDataType": 0}),
        writer.Operator("EXP", ["number"], ["y"]),
    ]  # fmt: skip
    return writer.write(tensors, operators, ["words"], ["y"])


def expected(words: Sequence[str]) -> tuple[list[bytes], np.ndarray]:
    indices = [WORDS.index(word) + 1 if word in WORDS else 0 for word in words]
    scores = EMBEDDING[indices] @ WEIGHTS.T
    return [ANSWERS[best].encode() for best in scores.argmax(1)], scores


INPUT_WORDS = ["good", "bad", "what", "übel"]


@pytest.mark.parametrize(
    "value",
    [
        np.array(INPUT_WORDS),
        np.array(INPUT_WORDS, object),
        np.array([word.encode() for word in INPUT_WORDS]),
        np.array([INPUT_WORDS[0].encode(), *INPUT_WORDS[1:]], object),
        {"words": np.array(INPUT_WORDS)},
        [INPUT_WORDS],
    ],
    ids=["str", "object", "bytes", "both", "by name", "list"],
)
def test_accepts_text_in_any_form(device: DeviceInfo, value: Any) -> None:
    with fourfold.Session(word_classifier(), device, cache=None) as session:
        assert session.inputs[0].dtype == session.outputs[0].dtype == object
        outputs = session.run(value)
    answers, scores = expected(INPUT_WORDS)
    assert outputs["answer"].tolist() == answers
    np.testing.assert_allclose(outputs["scores"], scores, rtol=1e-5)


def test_later_runs_do_not_overwrite_results(device: DeviceInfo) -> None:
    with fourfold.Session(word_classifier(), device, cache=None) as session:
        first = session.run(np.array(INPUT_WORDS))["answer"]
        copy = first.tolist()
        session.run(np.array(["bad"] * 4))
        assert first.tolist() == copy


def test_accepts_more_words_than_the_declared_shape(device: DeviceInfo) -> None:
    words = ["fine", "bad"] * 5
    with fourfold.Session(word_classifier(), device, cache=None) as session:
        outputs = session.run(np.array(words))
    assert outputs["answer"].tolist() == expected(words)[0]


def test_results_equal_litert() -> None:
    run = interpreter.open_file(word_classifier(), [np.array(INPUT_WORDS)], 1)
    answer, scores = run()
    with fourfold.Session(word_classifier(), "cpu", cache=None) as session:
        outputs = session.run(np.array(INPUT_WORDS))
    assert outputs["answer"].tolist() == answer.tolist()
    np.testing.assert_array_equal(outputs["scores"], scores)


def test_device_runs_the_numeric_operators(device: DeviceInfo) -> None:
    with fourfold.Session(word_equality_model(), device, placement="gpu", cache=None) as session:
        output = session.run(np.array(["yes", "no", "yes"]))["y"]
        on_cpu = {row.op for row in session.placement.fallbacks}
        assert len(session.placement.parts) == 2
    assert on_cpu == {"EQUAL"}
    np.testing.assert_allclose(output, np.exp([1, 0, 1]), rtol=1e-5)


def test_strict_rejects_string_operators(device: DeviceInfo) -> None:
    with pytest.raises(UnsupportedError, match="'key' holds string values"):
        fourfold.Session(word_equality_model(), device, strict=True, cache=None)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (np.zeros(3, np.float32), "is float, not text"),
        (np.array(["a", 3, None], object), "is int, not text"),
        (np.array(["a", "b"]), "has shape"),
    ],
)
def test_rejects_arrays_that_are_no_text(device: DeviceInfo, value: np.ndarray, what: str) -> None:
    with (
        fourfold.Session(word_equality_model(), device, cache=None) as session,
        pytest.raises(InputError, match=what),
    ):
        session.run(value)


def test_placement_measure_supports_text(device: DeviceInfo) -> None:
    with fourfold.Session(
        word_equality_model(), device, placement="measure", cache=None
    ) as session:
        np.testing.assert_allclose(
            session.run(np.array(["yes", "no", "no"]))["y"], np.exp([1, 0, 0]), rtol=1e-5
        )


def test_text_models_are_cached_and_prepared(device: DeviceInfo, tmp_path: Path) -> None:
    source, file = tmp_path / "m.tflite", tmp_path / "m.fourfold"
    source.write_bytes(word_classifier())
    for origin in ("model", "store"):
        with fourfold.Session(source, device, cache=tmp_path / "store") as session:
            assert session.origin == origin
            assert session.run(np.array(INPUT_WORDS))["answer"].tolist() == expected(INPUT_WORDS)[0]
    draft = Draft()
    prepare_model(draft, source, device, CompileOptions(), {})
    draft.write(file)
    source.unlink()
    with fourfold.Session(file, device, cache=None) as session:
        assert session.run(np.array(INPUT_WORDS))["answer"].tolist() == expected(INPUT_WORDS)[0]


@pytest.mark.parametrize("command", ["run", "verify", "check"])
def test_commands_support_text_models(tmp_path: Path, device: DeviceInfo, command: str) -> None:
    path, words = tmp_path / "m.tflite", tmp_path / "words.npy"
    path.write_bytes(word_classifier())
    np.save(words, np.array(INPUT_WORDS))
    more = {
        "run": ["--input", str(words), "--output", str(tmp_path / "out")],
        "verify": [],
        "check": [],
    }[command]
    result = CliRunner().invoke(
        main, [command, str(path), "--device", device.name, "--json", *more]
    )
    assert result.exit_code == 0, result.output
    if command == "run":
        saved = np.load(tmp_path / "out" / "answer.npy")
        assert saved.tolist() == expected(INPUT_WORDS)[0]
        report = json.loads(result.stdout)
        assert report["outputs"][0]["values"] == [one.decode() for one in expected(INPUT_WORDS)[0]]


def test_run_command_reads_a_text_file(tmp_path: Path, device: DeviceInfo) -> None:
    path, words = tmp_path / "m.tflite", tmp_path / "words.txt"
    path.write_bytes(word_classifier())
    words.write_text("\n".join(INPUT_WORDS) + "\n", encoding="utf-8")
    result = CliRunner().invoke(
        main, ["run", str(path), "--device", device.name, "--input", str(words)]
    )
    assert result.exit_code == 0, result.output
    assert "first of answer" in result.stdout
    assert "positive" in result.stdout


TEXT = pack_strings(["yes", "no"]).tobytes()


@pytest.mark.parametrize(
    "damaged",
    [
        b"\1\0\0",
        b"\xff\xff\xff\xff" + TEXT[4:],
        b"\3\0\0\0" + TEXT[4:],
        TEXT[:4] + b"\4\0\0\0" + TEXT[8:],
        TEXT[:8] + b"\0\0\0\x7f" + TEXT[12:],
        TEXT[:12] + b"\x7f\0\0\0" + TEXT[16:],
        TEXT[:-1],
    ],
)
def test_rejects_string_tensors_with_invalid_offsets(damaged: bytes) -> None:
    """LiteRT would read out of bounds."""

    def model(text: bytes) -> bytes:
        data = np.frombuffer(text, np.uint8)
        tensors = [
            writer.Tensor("words", (2,), "str"),
            writer.Tensor("key", (2,), "str", data=data),
            writer.Tensor("same", (2,), "bool"),
        ]
        compared = writer.Operator("EQUAL", ["words", "key"], ["same"], "EqualOptions")
        return writer.write(tensors, [compared], ["words"], ["same"])

    keep = ReadOptions(keep_unsupported=True)
    assert read_model(model(TEXT), keep).input_names == ("words",)
    with pytest.raises(ModelError, match="string"):
        read_model(model(damaged), keep)
