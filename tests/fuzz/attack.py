"""How damaged files of any format are read: only a FourfoldError comes out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from fourfold.errors import FourfoldError
from fourfold.formats import ReadOptions, read_model
from fourfold.formats.inputs import DEFAULTS
from fourfold.graph.metadata import decode_metadata, encode_metadata


def damage_found(model: Path | bytes, options: ReadOptions = DEFAULTS) -> FourfoldError | None:
    """The error of a model that is not read, with all that an error says; what a model that is
    read says of itself can be kept.
    """
    found: FourfoldError | None = None
    try:
        read = read_model(model, options)
        decode_metadata(encode_metadata(read.metadata, read.signatures))
    except FourfoldError as error:
        found = error
    assert found is None or (found.what and found.why and found.fix)
    return found


def attack(model: Path, damaged: Path, mutate: Callable[[], bytes], rounds: int) -> None:
    """Damages a file of a model again and again: some of that is read, and some is refused."""
    found = []
    for _ in range(rounds):
        damaged.write_bytes(mutate())
        found.append(damage_found(model) is None)
    assert 0 < sum(found) < len(found)


def mutate_bytes(
    rng: random.Random, content: bytes, numbers: Sequence[int], start: int | None = None
) -> bytes:
    """Some bytes are other numbers, most of them among the first where a `start` is given, behind
    which weights come; or the end is missing.
    """
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 5)):
        front = start is not None and rng.random() < 0.7
        end = min(len(changed), start) if front and start is not None else len(changed)
        changed[rng.randrange(end)] = rng.choice(numbers)
    return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.1 else changed)
