"""Prepared files: compiled models for any number of devices, in one mapped file."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from fourfold.config import ALL, BY_EXTENSION, DATA
from fourfold.device import DeviceInfo, Fact, is_fact
from fourfold.errors import (
    MALFORMED,
    DeviceError,
    FourfoldError,
    InputError,
    ModelError,
    cannot_open,
    nearest,
)
from fourfold.options import CompileOptions
from fourfold.plan import CompiledModel, Container, Program, read_compiled_model
from fourfold.plan.compiled_record import ABOUT, read_section
from fourfold.plan.container import EXTENSION, IN_MEMORY, MAGIC, open_regular
from fourfold.plan.record import check_index, device_bytes, read_requirements
from fourfold.store.keys import key_of, loadable_parts
from fourfold.support.lazy import lazy_import
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.store import trust as trusts
    from fourfold.support import display
else:
    trusts = lazy_import("fourfold.store.trust")
    display = lazy_import("fourfold.support.display")

LISTS = ("models", "plans", "binaries", "choices")
AskFacts = Callable[[DeviceInfo, Collection[str]], DeviceInfo]
_IDENTITY = ("api", "name", "platform", "driver", "version", "compute_units")


def ask_no_facts(device: DeviceInfo, names: Collection[str]) -> DeviceInfo:
    """Return the device unchanged: unknown facts count as absent."""
    return device


def has_own_name(source: str | bytes) -> bool:
    """Return whether the extension of a file is that of prepared files; False for bytes."""
    return isinstance(source, str) and source.lower().endswith(EXTENSION)


def is_prepared(source: str | bytes) -> bool:
    """Return whether a file, or the bytes of one, is a prepared file."""
    if isinstance(source, bytes):
        return source.startswith(MAGIC)
    try:
        with open_regular(source) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


ANYTHING = CompileOptions(any_precision=True)


class Relation(IntEnum):
    """How the device that a plan was compiled for relates to the device that is to run it."""

    SAME_DEVICE = 0
    SAME_KIND = 1  # another device of the same kind, with at most `most_units` compute units
    LARGER_DEVICE = 2  # of the same kind, with more compute units than the plan keeps busy
    OTHER_KIND = 3


def plan_ranks(*, generic: bool, changed: int) -> list[int]:
    """Return the rank of a plan for each `Relation`: the plan with the lowest rank is chosen.

    This is the only place that ranks plans; files hold the ranks, and players compare them. Plans
    for the model's own inputs come first: `changed` counts whether shapes and pixels differ. A plan
    for another device of the same kind suits such devices better than a generic one, but keeps no
    more compute units busy than that device has.
    """
    ranks = [0, 2, 2, 4] if generic else [0, 1, 3, 4]
    return [5 * changed + rank for rank in ranks]


class Prepared:
    """A prepared file, open for reading. With trust='data' it has no binaries and no facts."""

    def __init__(self, file: Container, trust: str = ALL) -> None:
        self.file = file
        try:
            self.index: dict[str, Any] = json.loads(bytes(file.section(0, "index")))
            if any(not isinstance(self.index[name], list) for name in LISTS):
                raise TypeError("a table is not a list")
            check_index(self.index, len(file.names))
            self.models: tuple[str, ...] = tuple(one["name"] for one in self.index["models"])
            if trust == DATA:
                self.index["binaries"] = []
                self.index["plans"] = [{**one, "facts": {}} for one in self.index["plans"]]
        except MALFORMED as error:
            raise self._damaged(error) from error

    def __repr__(self) -> str:
        return _line(self)

    def _repr_html_(self) -> str:
        return _table(self)

    @staticmethod
    def open(source: str | bytes, trust: str = BY_EXTENSION) -> Prepared:
        """Open a file, if a level of trust allows it (see `config.checked_trust`)."""
        if trust not in (DATA, ALL) and (trust != BY_EXTENSION or not has_own_name(source)):
            return Prepared(trusts.open_trusted(source, trust))
        if isinstance(source, bytes):
            return Prepared(Container(source, IN_MEMORY), trust)
        try:
            return Prepared(Container.open(source), trust)
        except OSError as error:
            raise cannot_open(source, error) from error

    def source(self, model: int) -> bytes | None:
        """Return the file of a model; None if it was prepared without its model."""
        row = self.index["models"][model]
        return bytes(self.file.section(row["section"], "source")) if "section" in row else None

    def choose_model(self, name: str | None) -> int:
        """Return the number of the model with this name, or of the only model."""
        if name is None and len(self.models) == 1:
            return 0
        if name in self.models:
            return self.models.index(name)
        what = f"{self.file.title} has no model {name!r}"
        if name is None:
            what = f"{self.file.title} has {len(self.models)} models"
        fix = nearest(name or "", self.models)
        raise InputError(what, "a model is selected by name", f"pass model=, or --model; {fix}")

    def best(
        self,
        model: int,
        device: DeviceInfo,
        options: CompileOptions = ANYTHING,
        ask: AskFacts = ask_no_facts,
    ) -> Mapping[str, Any]:
        """Return the row of the index that fits a device and the options best.

        `ask` probes the device for facts that the decision needs and that are not known yet.
        """
        precision = None if options.any_precision else options.precision
        try:
            rows = [one for one in self.rows if one["model"] == model]
            rows = self._for_signature(rows, options.signature or "")
            rows = self._for_pixels(rows, options.pixels_text)
            rows = self._for_postprocess(rows, options.postprocess_text)
            rows = self._suitable(rows, precision, options.shapes or None)
            rows.sort(key=lambda one: _rank(one, device, options.precision))
            rows = self._within(rows, options.memory_limit)
            return self._first_playable(rows, device, ask)
        except FourfoldError:
            raise
        except MALFORMED as error:
            raise self._damaged(error) from error

    def _first_playable(
        self, rows: list[Any], device: DeviceInfo, ask: AskFacts
    ) -> Mapping[str, Any]:
        refusals: dict[str, str] = {}
        for row in rows:
            requirements = read_requirements(row["requirements"])
            able = _with_facts_of(row, device)
            unknown = requirements.undecided(able)
            if unknown:
                device = able = ask(able, unknown)
            unmet = requirements.unmet(able)
            if not unmet:
                playable: Mapping[str, Any] = row
                return playable
            refusals[str(row["device"])] = ", and ".join(unmet)
        raise _none_fits(self.file.title, device, refusals)

    @property
    def rows(self) -> list[Any]:
        """The rows of all compiled models."""
        rows: list[Any] = self.index["plans"]
        return rows

    def model(self, row: Mapping[str, Any]) -> CompiledModel:
        """Return the compiled model of a row."""
        try:
            return read_compiled_model(self.file, row["sections"])
        except MALFORMED as error:
            raise self._damaged(error) from error

    def about(self, row: Mapping[str, Any]) -> bytes:
        """Return the metadata of the model of a row, as `fourfold.graph.metadata` writes it."""
        return read_section(self.file, row["sections"], ABOUT)

    def _for_signature(self, rows: list[Any], signature: str) -> list[Any]:
        """Return the rows for a signature; without one, rows prepared without one or with the only
        one.
        """
        signatures = sorted({_signature(one) for one in rows})
        if signature not in signatures and not (len(signatures) == 1 and not signature):
            names = ", ".join(f"'{one}'" for one in signatures if one) or "no signature"
            what = f"{self.file.title} was not prepared for the signature '{signature}'"
            fix = "pass signature= with one of these, or add it with 'fourfold prepare --add'"
            if not signature:
                what = f"{self.file.title} has {len(signatures)} signatures"
            raise InputError(what, f"it was prepared for {names}", fix)
        return [one for one in rows if _signature(one) in (signature or signatures[0], signature)]

    def _for_pixels(self, rows: list[Any], pixels: str) -> list[Any]:
        # 'auto' selects any pixels that the file was prepared for.
        matching = [one for one in rows if not pixels or pixels in ("auto", *_pixel_texts(one))]
        matching = [one for one in matching if pixels != "auto" or one["pixels"]]
        if not matching:
            prepared = sorted(
                {_pixel_texts(one)[-1] or "arrays in the model's types" for one in rows}
            )
            what = f"{self.file.title} was not prepared for pixels {pixels}"
            fix = "leave pixels= out, add it with 'fourfold prepare --add', or open the model"
            raise InputError(what, f"it was prepared for: {' | '.join(prepared)}", fix)
        return matching

    def _for_postprocess(self, rows: list[Any], postprocess: str) -> list[Any]:
        """Return the rows for a postprocessing; without one, rows with the model's own outputs or
        the only ones.
        """
        prepared = sorted({_postprocess(one) for one in rows})
        if postprocess not in prepared and not (len(prepared) == 1 and not postprocess):
            texts = " | ".join(one or "the model's own outputs" for one in prepared)
            what = f"{self.file.title} was not prepared for the postprocessing '{postprocess}'"
            if not postprocess:
                what = f"{self.file.title} has {len(prepared)} postprocessings"
            fix = "pass postprocess= as one of these, add it with 'fourfold prepare --add', or open"
            raise InputError(what, f"it was prepared for: {texts}", f"{fix} the model")
        return [
            one for one in rows if _postprocess(one) in (postprocess or prepared[0], postprocess)
        ]

    def _suitable(
        self, plans: list[Any], precision: str | None, shapes: Mapping[str, Shape] | None
    ) -> list[Any]:
        sizes = None if shapes is None else {name: list(size) for name, size in shapes.items()}
        suitable = [
            one
            for one in plans
            if precision in (None, one["precision"]) and (sizes is None or one["shapes"] == sizes)
        ]
        if not suitable:
            prepared = sorted(
                {f"{one['precision']} {one['shapes'] or ''}".strip() for one in plans}
            )
            what = f"{self.file.title} has no plan for precision {precision} and shapes {shapes}"
            fix = "add one with 'fourfold prepare --add', or open the original model"
            raise InputError(what, f"it was prepared for: {'; '.join(prepared)}", fix)
        return suitable

    def _within(self, rows: list[Any], limit: int | None) -> list[Any]:
        """Return the rows whose plans fit into a limit of device memory."""
        if limit is None:
            return rows
        needed = [device_bytes(self.file, one["sections"]) for one in rows]
        fitting = [row for row, size in zip(rows, needed, strict=True) if size <= limit]
        if not fitting:
            raise DeviceError(
                f"no plan in {self.file.title} fits into memory_limit={limit}",
                f"the smallest one needs {min(needed)} bytes on the device",
                f"pass memory_limit={min(needed)} or more, or add a plan in precision 'mixed' or"
                " of smaller shapes with 'fourfold prepare --add'",
            )
        return fitting

    def binary(self, parts: Mapping[str, str]) -> bytes | None:
        """Return the binary with these key parts; None if there is none."""
        key = key_of(parts)
        try:
            for one in self.index["binaries"]:
                if key_of(one["parts"]) == key:
                    return bytes(self.file.section(one["section"], "binary"))
        except MALFORMED as error:
            raise self._damaged(error) from error
        return None

    def binary_for(self, program: Program, device: DeviceInfo) -> bytes | None:
        """Return a binary of the program that a device can load, preferably its own."""
        binaries = (self.binary(parts) for parts in loadable_parts(program, device))
        return next((binary for binary in binaries if binary is not None), None)

    def choices(self, device: str) -> dict[str, str]:
        """Return the tuned choices in the file for a device."""
        try:
            for one in self.index["choices"]:
                if one["device"] == device:
                    data = json.loads(bytes(self.file.section(one["section"], "choices")))
                    return {str(key): str(value) for key, value in data.items()}
        except MALFORMED as error:
            raise self._damaged(error) from error
        return {}

    def _damaged(self, error: Exception) -> ModelError:
        why = f"its index is invalid: {error!r}"
        fix = "copy it again, or prepare the model again"
        return ModelError(f"{self.file.title} is damaged", why, fix)


def _none_fits(title: str, device: DeviceInfo, refusals: Mapping[str, str]) -> InputError:
    return InputError(
        f"no plan in {title} can run on {device.name}",
        "; ".join(f"the one for {name}: {why}" for name, why in refusals.items()),
        "prepare the model on this device with 'fourfold prepare --add'",
    )


def _line(prepared: Prepared) -> str:
    devices = dict.fromkeys(device for _, device, _ in _listed(prepared))
    models, plans = ", ".join(prepared.models), display.count_text(len(prepared.rows), "plan")
    text = f"<Prepared {prepared.file.title}: {models}; {plans} for {', '.join(devices)}>"
    return str(display.visible(text))


def _table(prepared: Prepared) -> str:
    title = f"{prepared.file.title}: {display.count_text(len(prepared.rows), 'plan')}"
    return str(display.html_table(title, ("model", "device", "precision"), _listed(prepared)))


def _listed(prepared: Prepared) -> list[tuple[str, str, str]]:
    """Return model, device and precision of every plan."""
    return [
        (prepared.models[one["model"]], str(one["device"]), str(one["precision"]))
        for one in prepared.rows
    ]


def languages_of(prepared: Prepared) -> set[str]:
    """Return the kernel languages of the plans in a file."""
    return {read_requirements(one["requirements"]).language for one in prepared.rows}


def describe_device(device: DeviceInfo) -> dict[str, Any]:
    """Return the description of a device that is written to files."""
    return {name: getattr(device, name) for name in ("kind", *_IDENTITY)}


def describe_facts(device: DeviceInfo) -> dict[str, Fact]:
    """Return the probed facts of a device."""
    return {name: getattr(device, name) for name in device.probed}


def facts_in_row(row: Mapping[str, Any], device: DeviceInfo) -> dict[str, Fact]:
    """Return the facts of a row if it was compiled on this device with its current driver."""
    if any(row["made_for"][name] != getattr(device, name) for name in _IDENTITY):
        return {}
    return {name: fact for name, fact in row["facts"].items() if is_fact(name, fact)}


def _with_facts_of(row: Mapping[str, Any], device: DeviceInfo) -> DeviceInfo:
    facts = facts_in_row(row, device)
    return device.with_facts({name: facts[name] for name in facts if not device.knows(name)})


def _rank(row: Mapping[str, Any], device: DeviceInfo, precision: str) -> tuple[int, bool]:
    """Return the rank of a plan for a device; of two equal ones, the preferred precision wins."""
    rank: int = row["ranks"][_relation(row, device)]
    return rank, row["precision"] != precision


def _relation(row: Mapping[str, Any], device: DeviceInfo) -> Relation:
    if is_for(row, device):
        return Relation.SAME_DEVICE
    if row["made_for"]["kind"] != device.kind:
        return Relation.OTHER_KIND
    enough = row["most_units"] >= device.compute_units
    return Relation.SAME_KIND if enough else Relation.LARGER_DEVICE


def _signature(row: Mapping[str, Any]) -> str:
    return str(row["signature"])


def _postprocess(row: Mapping[str, Any]) -> str:
    return str(row["postprocess"])


def _pixel_texts(row: Mapping[str, Any]) -> list[str]:
    """Return the text forms of a plan's pixels: with input names, and for one input also
    without.
    """
    pixels: dict[str, str] = row["pixels"]
    named = "; ".join(f"{name}: {words}" for name, words in sorted(pixels.items()))
    return [named, *(pixels.values() if len(pixels) == 1 else ())]


def is_for(row: Mapping[str, Any], device: DeviceInfo) -> bool:
    """Return whether a row was compiled for this device."""
    target = row["made_for"]
    return bool(target["name"] == device.name and target["platform"] == device.platform)
