"""Damaged files of any format raise only a FourfoldError."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from fourfold.errors import FourfoldError
from fourfold.formats import ReadOptions, read_model
from fourfold.formats.inputs import DEFAULTS
from fourfold.graph.metadata import decode_metadata, encode_metadata


def damage_found(model: Path | bytes, options: ReadOptions = DEFAULTS) -> FourfoldError | None:
    """Return the complete error of a model that cannot be read. Metadata of a readable model must
    be serializable.
    """
    result: FourfoldError | None = None
    try:
        read = read_model(model, options)
        decode_metadata(encode_metadata(read.metadata, read.signatures))
    except FourfoldError as error:
        result = error
    assert result is None or (result.what and result.why and result.fix)
    return result


def attack(model: Path, damaged: Path, mutate: Callable[[], bytes], rounds: int) -> None:
    """Damage a model file repeatedly: some versions are readable, and some are rejected."""
    results = []
    for _ in range(rounds):
        damaged.write_bytes(mutate())
        results.append(damage_found(model) is None)
    assert 0 < sum(results) < len(results)


def mutate_bytes(
    rng: random.Random, content: bytes, numbers: Sequence[int], start: int | None = None
) -> bytes:
    """Change some bytes, most of them before `start` if given, behind which weights follow; or
    truncate the end.
    """
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 5)):
        front = start is not None and rng.random() < 0.7
        end = min(len(changed), start) if front and start is not None else len(changed)
        changed[rng.randrange(end)] = rng.choice(numbers)
    return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.1 else changed)
