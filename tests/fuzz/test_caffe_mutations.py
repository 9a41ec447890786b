"""Damaged Caffe networks: only a FourfoldError comes out, soon and at little cost."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from caffe_cases import CASES
from caffe_writer import input_text, layer_text, weights_file

from fourfold.errors import FourfoldError
from fourfold.formats import read_model

ROUNDS = 2500  # of the text, and of the weights
SECONDS = 3.0  # for one file: a loop that trusts a length takes far longer
WORDS = (
    b"-1",
    b"0",
    b"2147483648",
    b"99999999999999",
    b"{",
    b"}",
    b'"',
    b"1e39",
    b"nan",
    b"[",
    b"x",
)
NUMBERS = (0, 1, 5, 8, 10, 127, 128, 200, 255)


def names() -> list[str]:
    return ["conv_groups", "deconv_groups", "detection", "batch_norm", "pool_average_pad", "inner"]


def mutate_text(source: random.Random, text: bytes) -> bytes:
    """Some words are other ones, cut off, doubled or put elsewhere."""
    words = text.split(b" ")
    for _ in range(source.randrange(1, 4)):
        at = source.randrange(len(words))
        kind = source.randrange(4)
        if kind == 0:
            words[at] = source.choice(WORDS)
        elif kind == 1:
            del words[at : at + source.randrange(1, 6)]
        elif kind == 2:
            words.insert(at, source.choice(words or [b"x"]))
        else:
            words = words[: max(at, 1)]
        words = words or [b""]
    return b" ".join(words)


def mutate_bytes(source: random.Random, content: bytes) -> bytes:
    """Some bytes are other ones, or the end is missing. Most numbers of weights stay."""
    found = bytearray(content)
    for _ in range(source.randrange(1, 5)):
        at = source.randrange(min(len(found), 60) if source.random() < 0.7 else len(found))
        found[at] = source.choice(NUMBERS)
    return bytes(found[: source.randrange(len(found))]) if source.random() < 0.1 else bytes(found)


def read(folder: Path, text: bytes, weights: bytes) -> bool:
    """Whether a network is read; FourfoldErrors alone come out, and soon."""
    path = folder / "net.prototxt"
    path.write_bytes(text)
    path.with_suffix(".caffemodel").write_bytes(weights)
    start = time.perf_counter()
    try:
        read_model(path)
    except FourfoldError:
        return False
    finally:
        assert time.perf_counter() - start < SECONDS
    return True


@pytest.mark.parametrize("name", names())
def test_mutated_texts(name: str, tmp_path: Path) -> None:
    source, case = random.Random(name), CASES[name]
    text, weights = case.text.encode(), weights_file(case.blobs)
    assert read(tmp_path, text, weights)
    found = [
        read(tmp_path, mutate_text(source, text), weights) for _ in range(ROUNDS // len(names()))
    ]
    assert 0 < sum(found) < len(found)


@pytest.mark.parametrize("name", ["conv_groups", "batch_norm", "inner"])
def test_mutated_weights(name: str, tmp_path: Path) -> None:
    source, case = random.Random(name), CASES[name]
    text, weights = case.text.encode(), weights_file(case.blobs)
    found = [read(tmp_path, text, mutate_bytes(source, weights)) for _ in range(ROUNDS // 3)]
    assert 0 < sum(found) < len(found)


@pytest.mark.parametrize(
    "text",
    [
        b"layer { " * 100_000,
        b"a: [" * 100_000,
        b"x <" * 100_000,
        b'name: "' + b"\\x41" * 100_000,
        input_text(1, 2**31, 2**31, 4).encode(),
        (input_text(1, 3, 100000, 100000) + layer_text("ReLU")).encode(),
        (input_text(1, 1, 1, 1) + layer_text("Tile", "tile_param { tiles: 1000000000 }")).encode(),
        (
            input_text(1, 1, 20000, 20000)
            + layer_text("PriorBox", "prior_box_param { min_size: 3 }", bottoms="x x")
        ).encode(),
    ],
)
def test_hostile_texts(text: bytes, tmp_path: Path) -> None:
    assert not read(tmp_path, text, b"")
