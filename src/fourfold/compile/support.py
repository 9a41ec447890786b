"""Where each unit of a model can run, and if not there, why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fourfold.cpu.litert import make_interpreter, runtime
from fourfold.custom import how_to_register
from fourfold.errors import Refusal, UnsupportedError
from fourfold.formats import Model
from fourfold.ops.custom import Custom
from fourfold.split import GPU, LITERT, NUMPY, Unit, UnitSupport, find_units

NOT_INSTALLED = "LiteRT is not installed"


@dataclass
class SupportCheck:
    """What is known of a model's units; `refused` grows as lowering says what it cannot take."""

    model: Model
    refused: dict[str, str] = field(default_factory=dict)
    _customs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.units: tuple[Unit, ...] = find_units(self.model.main, self.model.source_graph)
        self._read = self._read_by_others()

    def by_unit(self) -> Mapping[str, UnitSupport]:
        return {unit.name: self._support(unit) for unit in self.units}

    def _support(self, unit: Unit) -> UnitSupport:
        foreign = unit.foreign
        gpu = foreign.reason if foreign else self.refused.get(unit.name, "")
        numpy = "it has no definition in NumPy" if foreign else self._without_arrays(unit)
        return UnitSupport(unit.name, {GPU: gpu, LITERT: self._litert(unit), NUMPY: numpy})

    def _without_arrays(self, unit: Unit) -> str:
        types = self.model.main.types
        values = (value for value in (*unit.reads, *unit.writes) if value in types)
        strange = next((value for value in values if not types[value].dtype.has_numpy), None)
        return "" if strange is None else f"'{strange}' holds what NumPy has no arrays for"

    def _litert(self, unit: Unit) -> str:
        if not unit.in_file:
            return "it is no operator of the file"
        if runtime() is None:
            return NOT_INSTALLED
        if any(isinstance(node.attributes, Custom) for node in unit.nodes):
            return "it was registered by the caller"
        hidden = self._read[unit.name] - set(unit.writes_in_file)
        if hidden:
            return f"'{min(hidden)}' is a value that the file does not have"
        return self._custom(unit) if unit.title.startswith("CUSTOM") else ""

    def _custom(self, unit: Unit) -> str:
        """Whether LiteRT knows a custom op: asked by giving it that operator alone."""
        if unit.title not in self._customs:
            origin = self.model.source_graph
            assert origin is not None
            content = origin.write([unit.name], origin.reads(unit.name), origin.writes(unit.name))
            try:
                make_interpreter(content, 1).allocate_tensors()
                self._customs[unit.title] = ""
            except (ValueError, RuntimeError) as error:
                reason = str(error).strip().splitlines()[0] if str(error).strip() else "it failed"
                self._customs[unit.title] = f"LiteRT cannot run it: {reason}"
        return self._customs[unit.title]

    def _read_by_others(self) -> Mapping[str, set[str]]:
        """For each unit, those of its values that others or the caller want."""
        wanted: dict[str, set[str]] = {value: {""} for value in self.model.main.results}
        for unit in self.units:
            for value in unit.reads:
                wanted.setdefault(value, set()).add(unit.name)
        return {
            unit.name: {value for value in unit.writes if wanted.get(value, set()) - {unit.name}}
            for unit in self.units
        }

    def refuse(self, refusals: Sequence[Refusal], part: Sequence[str]) -> None:
        """Notes what lowering refused; a node that no unit owns takes all of its part with it."""
        known = {value: unit.name for unit in self.units for value in unit.writes}
        names = {unit.name for unit in self.units}
        for refusal in refusals:
            name = refusal.node if refusal.node in names else known.get(refusal.node)
            fresh = name is not None and name not in self.refused
            for unit in [name] if name is not None and fresh else part:
                self.refused.setdefault(unit, f"{refusal.op}: {refusal.reason}")

    def check(self, title: str) -> None:
        """Raises for units that can run nowhere, with what to do about it."""
        support = self.by_unit()
        lost = [unit for unit in self.units if not any(_allowed(support[unit.name]))]
        if lost:
            refusals = [Refusal(u.name, u.title, _reasons(support[u.name])) for u in lost]
            count = "an operator" if len(lost) == 1 else f"{len(lost)} operators"
            what = f"{title} has {count} that can run nowhere"
            raise UnsupportedError(what, refusals, _fix(lost))


def _allowed(support: UnitSupport) -> Iterator[bool]:
    return (support.allows(target) for target in (GPU, LITERT, NUMPY))


def _reasons(support: UnitSupport) -> str:
    return f"{support.reasons[GPU]}; {support.reasons[LITERT]}"


def _fix(lost: Sequence[Unit]) -> str:
    for unit in lost:
        if unit.foreign is not None and unit.title.startswith("CUSTOM "):
            name = unit.title.removeprefix("CUSTOM ")
            return how_to_register(name, unit.foreign.inputs, unit.foreign.types)
    return (
        "install LiteRT, which runs most of what is not known here: pip install 'fourfold[litert]'"
    )
