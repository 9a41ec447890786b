"""Explanation of a cache miss: the parts of a key compared with those of the most similar entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fourfold.device import MEASURED, PROBED
from fourfold.store.entry import Entry
from fourfold.store.keys import Parts, key_of

MEANING = {
    "driver": "the driver was changed",
    **dict.fromkeys((*PROBED, *MEASURED), "a probe of the device had another result"),
    "engine": "it was cached by another version of fourfold",
    "follow": "another follow_batch= was passed",
    "format": "it was cached in another format",
    "memory": "another memory_limit= was passed",
    "launches": "the setting FOURFOLD_LAUNCHES was different",
    "model": "the model file has other content",
    "name": "it was cached for another device",
    "pixels": "other pixels= were passed",
    "placement": "other placement options were passed",
    "postprocess": "another postprocess= was passed",
    "precision": "it was cached for another precision",
    "quantized": "another quantized= was passed",
    "shapes": "it was cached for other input shapes",
    "signature": "another signature= was passed",
    "sizes": "the setting FOURFOLD_SIZES was different",
    "sources": "fourfold's own files have changed",
    "token": "another model_token was passed",
}


@dataclass(frozen=True)
class Difference:
    """One part of the key: the requested value, the cached value, and the meaning of the
    difference.
    """

    label: str
    wanted: str
    kept: str
    meaning: str


@dataclass(frozen=True)
class Explanation:
    """The result of looking up a key: the entry, or the most similar entry and its differences."""

    hit: bool
    entry: Entry | None
    differences: tuple[Difference, ...] = ()


def explain(parts: Parts, entries: Sequence[Entry], title: str) -> Explanation:
    """Compare labelled parts with the entries of a store."""
    plans = [entry for entry in entries if entry.kind == parts["kind of entry"]]
    key = key_of(parts)
    for entry in plans:
        if entry.key == key:
            return Explanation(True, entry)
    # The same model with other options is closer than another model with the same options.
    near = [one for one in plans if one.parts.get("model") == parts["model"] or one.title == title]
    if not near:
        return Explanation(False, None)
    best = min(near, key=lambda one: len(differences(parts, one.parts)))
    return Explanation(False, best, tuple(differences(parts, best.parts)))


def differences(wanted: Mapping[str, str], kept: Mapping[str, str]) -> list[Difference]:
    labels = sorted({*wanted, *kept})
    return [
        Difference(
            label,
            wanted.get(label, "-"),
            kept.get(label, "-"),
            MEANING.get(label, "this fact of the device was different"),
        )
        for label in labels
        if wanted.get(label) != kept.get(label)
    ]
