"""Prepared files: models made ready for any number of devices, in one mapped file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from fourfold.device import DeviceInfo
from fourfold.errors import InputError, ModelError, nearest
from fourfold.plan import Compiled, Container, read_plan
from fourfold.plan.container import MAGIC
from fourfold.store.keys import key_of
from fourfold.types import Shape

LISTS = ("models", "plans", "placed", "binaries", "choices")
_WRONG = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError)


def is_prepared(source: str | bytes) -> bool:
    """Whether a file, or the bytes of one, is a prepared file."""
    if isinstance(source, bytes):
        return source.startswith(MAGIC)
    try:
        with open(source, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class Prepared:
    """A prepared file, open for reading."""

    def __init__(self, file: Container) -> None:
        self.file = file
        try:
            self.index: dict[str, Any] = json.loads(bytes(file.section(0, "index")))
            self.index.setdefault("placed", [])  # files have it since models can be in parts
            if any(not isinstance(self.index[name], list) for name in LISTS):
                raise TypeError("a table is no list")
            self.models: tuple[str, ...] = tuple(str(one["name"]) for one in self.index["models"])
        except _WRONG as error:
            raise self._damaged(error) from error

    @staticmethod
    def open(source: str | bytes) -> Prepared:
        if isinstance(source, bytes):
            return Prepared(Container(source, "the prepared model"))
        try:
            return Prepared(Container.open(source))
        except OSError as error:
            fix = "check the path and that the file may be read"
            raise InputError(f"cannot open '{source}'", str(error), fix) from error

    def choose_model(self, name: str | None) -> int:
        """The number of the model of this name, or of the only one."""
        if name is None and len(self.models) == 1:
            return 0
        if name in self.models:
            return self.models.index(name)
        what = f"{self.file.title} has no model {name!r}"
        if name is None:
            what = f"{self.file.title} has {len(self.models)} models"
        fix = nearest(name or "", self.models)
        raise InputError(what, "one is chosen by its name", f"pass model=...; {fix}")

    def best(
        self,
        model: int,
        device: DeviceInfo,
        precision: str | None,
        shapes: Mapping[str, Shape] | None,
        preferred: str = "fp32",
        pixels: str = "",
    ) -> Mapping[str, Any]:
        """The row of the index that fits a device best: of a plan, or of a model in parts.

        `pixels` says in words which inputs are to come as bytes; empty where that is left open.
        """
        try:
            rows = [*self.index["plans"], *self.index["placed"]]
            rows = [one for one in rows if one["model"] == model]
            rows = self._for_pixels(rows, pixels)
            found = self._suitable(rows, precision, shapes)
            found = [one for one in found if _can_play(device, one)]
            if not found:
                raise self._none_fits(device, rows)
            best: Mapping[str, Any] = min(found, key=lambda one: _distance(one, device, preferred))
        except _WRONG as error:
            raise self._damaged(error) from error
        return best

    def is_placed(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is of a model in parts."""
        return any(row is one for one in self.index["placed"])

    def plan(self, row: Mapping[str, Any]) -> Compiled:
        """The plan of a row."""
        try:
            return read_plan(self.file, *row["sections"])
        except _WRONG as error:
            raise self._damaged(error) from error

    def _for_pixels(self, rows: list[Any], pixels: str) -> list[Any]:
        found = [one for one in rows if not pixels or pixels in _pixels_words(one)]
        if not found:
            known = sorted({_pixels_words(one)[-1] or "arrays of its own types" for one in rows})
            what = f"{self.file.title} takes no pixels that are {pixels}"
            fix = "leave pixels= out, add it with 'fourfold prepare --add', or open the model"
            raise InputError(what, f"it was prepared for: {' | '.join(known)}", fix)
        return found

    def _suitable(
        self, plans: list[Any], precision: str | None, shapes: Mapping[str, Shape] | None
    ) -> list[Any]:
        wanted = None if shapes is None else {name: list(size) for name, size in shapes.items()}
        found = [
            one
            for one in plans
            if precision in (None, one["precision"]) and (wanted is None or one["shapes"] == wanted)
        ]
        if not found:
            known = sorted({f"{one['precision']} {one['shapes'] or ''}".strip() for one in plans})
            what = f"{self.file.title} has no plan for precision {precision} and shapes {shapes}"
            fix = "add one with 'fourfold prepare --add', or open the original model"
            raise InputError(what, f"it was prepared for: {'; '.join(known)}", fix)
        return found

    def binary(self, parts: Mapping[str, str]) -> bytes | None:
        """The program's binary for exactly this device and driver."""
        wanted = key_of(parts)
        try:
            for one in self.index["binaries"]:
                if key_of(one["parts"]) == wanted:
                    return bytes(self.file.section(one["section"], "binary"))
        except _WRONG as error:
            raise self._damaged(error) from error
        return None

    def choices(self, device: str) -> dict[str, str]:
        """The tuned choices that came with the file."""
        try:
            for one in self.index["choices"]:
                if one["device"] == device:
                    data = json.loads(bytes(self.file.section(one["section"], "choices")))
                    return {str(key): str(value) for key, value in data.items()}
        except _WRONG as error:
            raise self._damaged(error) from error
        return {}

    def _none_fits(self, device: DeviceInfo, plans: list[Any]) -> InputError:
        return InputError(
            f"no plan in {self.file.title} can run on {device.name}",
            f"its work-groups, buffers or arithmetic do not suffice: {plans[0]['needs']}",
            "prepare the model on this device with 'fourfold prepare --add'",
        )

    def _damaged(self, error: Exception) -> ModelError:
        why = f"its index does not fit: {error!r}"
        fix = "copy it again, or prepare the model again"
        return ModelError(f"{self.file.title} is damaged", why, fix)


def describe_device(device: DeviceInfo) -> dict[str, Any]:
    """What a file says of a device that something in it was made for."""
    names = ("name", "platform", "driver", "version", "kind", "compute_units")
    return {name: getattr(device, name) for name in names}


def _can_play(device: DeviceInfo, row: Mapping[str, Any]) -> bool:
    needs = row["needs"]
    return bool(
        needs["group"] <= device.max_work_group
        and needs["buffer"] <= device.max_allocation
        and (device.half_arithmetic or not needs["half"])
        and needs.get("dots") in (None, False, "", device.dot_products)
        and (needs.get("texels", 0) <= device.image_texels or is_for(row, device))
        and (not needs.get("subgroups") or device.subgroups == "khr")
        and (not needs.get("ptx") or "nvidia" in (device.vendor + device.platform).lower())
    )


def _distance(plan: Mapping[str, Any], device: DeviceInfo, preferred: str) -> tuple[int, ...]:
    """How far a plan is from what is wanted: made for the model's own inputs, for the device, for
    another of its kind, for another kind, in the precision.
    """
    kind = 1 if plan["made_for"]["kind"] == device.kind else 2
    place = 0 if is_for(plan, device) else kind
    changed = int(bool(plan["shapes"])) + int(bool(plan.get("pixels")))
    return (changed, place, int(plan["precision"] != preferred))


def _pixels_words(row: Mapping[str, Any]) -> list[str]:
    """What a plan takes as bytes: by name, and where there is one such input, without it."""
    found: dict[str, str] = row.get("pixels", {})  # files have it since inputs can come as bytes
    named = "; ".join(f"{name}: {words}" for name, words in sorted(found.items()))
    return [named, *(found.values() if len(found) == 1 else ())]


def is_for(row: Mapping[str, Any], device: DeviceInfo) -> bool:
    """Whether something in a file was made for this very device."""
    made = row["made_for"]
    return bool(made["name"] == device.name and made["platform"] == device.platform)


def source_text(source: str | os.PathLike[str] | bytes) -> str | bytes:
    return source if isinstance(source, bytes) else os.fspath(source)
