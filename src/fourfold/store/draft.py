"""A prepared file being written: equal sections are stored once, and the file is replaced
atomically.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fourfold.device import DeviceInfo
from fourfold.errors import InputError, ModelError
from fourfold.plan import CompiledModel, Section, compiled_sections, write_container
from fourfold.plan.container import flat_bytes
from fourfold.plan.encode_constants import WeightList
from fourfold.plan.requirements import requirements_record
from fourfold.store.keys import Parts, digest
from fourfold.store.prepared import LISTS, Prepared, describe_device, describe_facts, plan_ranks
from fourfold.support.version import VERSION
from fourfold.types import Shape

# Fields that identify a plan: a new plan with equal fields replaces the old one.
SAME_PLAN = ("model", "made_for", "precision", "shapes", "pixels", "signature", "postprocess")


class Draft:
    """Collects models, plans, binaries and choices, from an earlier file or new."""

    def __init__(self) -> None:
        self._sections: list[Section] = [Section("index", b"")]
        self._numbers: dict[str, int] = {}
        self._lists: dict[str, list[dict[str, Any]]] = {name: [] for name in LISTS}

    @staticmethod
    def of(prepared: Prepared) -> Draft:
        """Return a draft with everything in a file, verified."""
        draft = Draft()
        prepared.file.verify()
        names = prepared.file.names
        moved = [
            draft._section(Section(name, prepared.file.section(number, name))) if number else 0
            for number, name in enumerate(names)
        ]
        for name in LISTS:
            draft._lists[name] = [_renumbered(one, moved) for one in prepared.index[name]]
        return draft

    def add_model(self, name: str, content: str, size: int) -> int:
        """Return the number of the model with this name. If its content changed, its plans are
        dropped.
        """
        models = self._lists["models"]
        row = {"name": name, "digest": content, "bytes": size, "added": time.time()}
        for number, existing in enumerate(models):
            if existing["name"] == name:
                if existing["digest"] != content:
                    models[number] = row
                    self._drop_plans(number)
                return number
        models.append(row)
        return len(models) - 1

    def add_source(self, model: int, content: bytes) -> None:
        """Add the model file itself, from which plans can be made again."""
        self._lists["models"][model]["section"] = self._section(Section("source", content))

    def _drop_plans(self, model: int) -> None:
        self._lists["plans"] = [one for one in self._lists["plans"] if one["model"] != model]

    def add_compiled(
        self,
        model: int,
        device: DeviceInfo,
        compiled: CompiledModel,
        shapes: Mapping[str, Shape],
        generic: bool = False,
    ) -> None:
        """Add a model compiled for a device; a `generic` one runs on any device of its kind."""
        weights = WeightList()
        sections = compiled_sections(compiled, weights)
        row = {
            "model": model,
            "parts": [part.target for part in compiled.parts],
            "device": device.name,
            "made_for": describe_device(device),
            "facts": describe_facts(device),
            "generic": generic,
            "ranks": plan_ranks(generic=generic, changed=bool(shapes) + bool(compiled.pixels)),
            "most_units": 2 * device.compute_units,
            "precision": compiled.precision,
            "shapes": {one: list(size) for one, size in shapes.items()},
            "pixels": dict(compiled.pixels),
            "signature": compiled.signature,
            "postprocess": compiled.postprocess,
            "requirements": requirements_record(compiled.requirements),
            "sections": [self._section(one) for one in sections],
            "weights": [self._section(Section("weights", one)) for one in weights.arrays],
            "engine": VERSION,
            "added": time.time(),
        }
        self._replace("plans", row, SAME_PLAN)

    def add_binary(self, parts: Parts, binary: bytes) -> None:
        section = self._section(Section("binary", binary))
        row = {"parts": parts, "section": section, "added": time.time()}
        self._replace("binaries", row, ("parts",))

    def add_choices(self, device: str, choices: Mapping[str, str]) -> None:
        text = json.dumps(dict(sorted(choices.items())), ensure_ascii=False).encode()
        row = {"device": device, "section": self._section(Section("choices", text))}
        self._replace("choices", {**row, "added": time.time()}, ("device",))

    def _replace(self, name: str, row: dict[str, Any], same: tuple[str, ...]) -> None:
        rows = self._lists[name]
        self._lists[name] = [
            one for one in rows if any(one.get(key, "") != row[key] for key in same)
        ]
        self._lists[name].append(row)

    def _section(self, section: Section) -> int:
        """Return the number of a section; equal sections are stored once."""
        key = f"{section.name}:{digest(flat_bytes(section.data))}"
        if key not in self._numbers:
            self._numbers[key] = len(self._sections)
            self._sections.append(section)
        return self._numbers[key]

    def write(self, path: Path) -> int:
        """Write the file atomically, with a sync, and return its size."""
        moved, sections = self._used()
        lists = {
            name: [_renumbered(one, moved) for one in rows] for name, rows in self._lists.items()
        }
        index = {"made_by": f"fourfold {VERSION}", **lists}
        sections[0] = Section("index", json.dumps(index, ensure_ascii=False).encode())
        try:
            return write_container(path, sections, 0o644, sync=True, compress=True)
        except OSError as error:
            fix = "choose a writable path on a disk with enough free space"
            raise InputError(f"cannot write '{path}'", str(error), fix) from error

    def _used(self) -> tuple[list[int], list[Section]]:
        """Return the new number of every section, and the sections still in use."""
        used = {0}
        for rows in self._lists.values():
            for one in rows:
                used.update(one.get("sections", ()), one.get("weights", ()))
                used.update([one["section"]] if "section" in one else [])
        order = sorted(used)
        moved = [
            order.index(number) if number in used else 0 for number in range(len(self._sections))
        ]
        return moved, [self._sections[number] for number in order]


def _renumbered(row: Mapping[str, Any], moved: list[int]) -> dict[str, Any]:
    changed = dict(row)
    try:
        for key in ("sections", "weights"):
            if key in row:
                changed[key] = [moved[number] for number in row[key]]
        if "section" in row:
            changed["section"] = moved[row["section"]]
    except (IndexError, TypeError) as error:
        raise ModelError("the prepared file is damaged", repr(error), "prepare it again") from error
    return changed
