"""Damaged Caffe networks raise only a FourfoldError, quickly and with little memory."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from caffe_cases import CASES
from caffe_writer import input_text, layer_text, weights_file, write_net
from fuzz.attack import attack, damage_found, mutate_bytes

ROUNDS = 2500  # for the text, and for the weights
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
NAMES = ("conv_groups", "deconv_groups", "detection", "batch_norm", "pool_average_pad", "inner")
NUMBERS = (0, 1, 5, 8, 10, 127, 128, 200, 255)


def mutate_text(rng: random.Random, text: bytes) -> bytes:
    """Replace, truncate, double or move some words."""
    words = text.split(b" ")
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(words))
        kind = rng.randrange(4)
        if kind == 0:
            words[at] = rng.choice(WORDS)
        elif kind == 1:
            del words[at : at + rng.randrange(1, 6)]
        elif kind == 2:
            words.insert(at, rng.choice(words or [b"x"]))
        else:
            words = words[: max(at, 1)]
        words = words or [b""]
    return b" ".join(words)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_texts_raise_only_our_errors(name: str, tmp_path: Path) -> None:
    rng, case = random.Random(name), CASES[name]
    path = write_net(tmp_path, case.text, case.blobs)
    assert damage_found(path) is None
    attack(path, path, lambda: mutate_text(rng, case.text.encode()), ROUNDS // len(NAMES))


@pytest.mark.parametrize("name", ["conv_groups", "batch_norm", "inner"])
def test_damaged_weights_raise_only_our_errors(name: str, tmp_path: Path) -> None:
    rng, case = random.Random(name), CASES[name]
    path = write_net(tmp_path, case.text, case.blobs)
    weights, content = path.with_suffix(".caffemodel"), weights_file(case.blobs)
    attack(path, weights, lambda: mutate_bytes(rng, content, NUMBERS, start=60), ROUNDS // 3)


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
def test_malicious_texts_are_rejected(text: bytes, tmp_path: Path) -> None:
    path = write_net(tmp_path, text.decode(), {})
    assert damage_found(path) is not None
