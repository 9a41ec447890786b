"""Where each unit of a model can run, and if not there, why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fourfold.backends.cpu.protocol import CpuEngine
from fourfold.backends.cpu.registry import find_engine
from fourfold.compiler.partition import Unit, UnitSupport, find_units
from fourfold.custom import registration_example
from fourfold.errors import Refusal, UnsupportedError
from fourfold.formats import Model
from fourfold.ops.custom import Custom
from fourfold.plan.targets import GPU, NUMPY


@dataclass
class SupportCheck:
    """What is known of a model's units; `refused` grows as lowering says what it cannot take."""

    model: Model
    refused: dict[str, str] = field(default_factory=dict)
    _answers: dict[str, str] = field(default_factory=dict)  # of the engine, by an operator's title

    def __post_init__(self) -> None:
        self.units: tuple[Unit, ...] = find_units(self.model.main, self.model.source_graph)
        name = self.model.cpu_engine
        self.engine: CpuEngine | None = None if name is None else find_engine(name)
        self._read = self._read_by_others()

    def of_model(self, model: Model) -> SupportCheck:
        """Return the check of the same model as it was read in another form."""
        return SupportCheck(model, self.refused)

    @property
    def device_runs_all(self) -> bool:
        """Whether nothing is known so far that the device cannot run."""
        return not self.refused and not any(unit.foreign for unit in self.units)

    def on_device(self) -> Mapping[str, UnitSupport]:
        """Return the support of a model that needs no CPU engine, without asking any engine."""
        engine = self.model.cpu_engine or NUMPY
        return {unit.name: UnitSupport(unit.name, {GPU: "", engine: ""}) for unit in self.units}

    def by_unit(self) -> Mapping[str, UnitSupport]:
        return {unit.name: self._support(unit) for unit in self.units}

    def _support(self, unit: Unit) -> UnitSupport:
        foreign = unit.foreign
        reasons = {GPU: foreign.reason if foreign else self.refused.get(unit.name, "")}
        if self.engine is not None:
            reasons[self.engine.name] = self._refusal(self.engine, unit)
        reasons[NUMPY] = find_engine(NUMPY).refusal(self.model, unit)
        return UnitSupport(unit.name, reasons)

    def _refusal(self, engine: CpuEngine, unit: Unit) -> str:
        """Why the engine of the model's format cannot run a unit."""
        if not unit.in_file:
            return "it is no operator of the file"
        if not engine.installed():
            return f"{engine.title} is not installed"
        if any(isinstance(node.attributes, Custom) for node in unit.nodes):
            return "it was registered by the caller"
        hidden = self._read[unit.name] - set(unit.writes_in_file)
        if hidden:
            return f"'{min(hidden)}' is a value that the file does not have"
        if unit.title not in self._answers:
            self._answers[unit.title] = engine.refusal(self.model, unit)
        return self._answers[unit.title]

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
        support, engine = self.by_unit(), self.model.cpu_engine or NUMPY
        lost = [unit for unit in self.units if not _runs_somewhere(support[unit.name])]
        if lost:
            reasons = {unit.name: support[unit.name].reasons for unit in lost}
            refusals = [
                Refusal(u.name, u.title, f"{reasons[u.name][GPU]}; {reasons[u.name][engine]}")
                for u in lost
            ]
            count = "an operator" if len(lost) == 1 else f"{len(lost)} operators"
            what = f"{title} has {count} that can run nowhere"
            raise UnsupportedError(what, refusals, _fix(lost, self.engine))


def _runs_somewhere(support: UnitSupport) -> bool:
    return any(support.allows(target) for target in support.reasons)


def _fix(lost: Sequence[Unit], engine: CpuEngine | None) -> str:
    for unit in lost:
        if unit.foreign is not None and unit.title.startswith("CUSTOM "):
            name = unit.title.removeprefix("CUSTOM ")
            return registration_example(name, unit.foreign.inputs, unit.foreign.types)
    if engine is None or engine.installed():
        return "export the model with other operators: 'fourfold ops' lists those that are known"
    return f"install {engine.title}, which runs most of what is not known here: {engine.install}"
