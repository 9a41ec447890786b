"""Targets on which each unit of a model can run, and reasons why it cannot run on others."""

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
    """Support of a model's units; lowering adds units that it cannot compile to `refused`."""

    model: Model
    refused: dict[str, str] = field(default_factory=dict)
    _answers: dict[str, str] = field(
        default_factory=dict
    )  # answers of the engine by operator title

    def __post_init__(self) -> None:
        self.units: tuple[Unit, ...] = find_units(self.model.main, self.model.source_graph)
        name = self.model.cpu_engine
        self.engine: CpuEngine | None = None if name is None else find_engine(name)
        self._read = self._read_by_others()

    def of_model(self, model: Model) -> SupportCheck:
        """Return the check for the same model read with other options."""
        return SupportCheck(model, self.refused)

    @property
    def device_runs_all(self) -> bool:
        """True if no unit is known that the device cannot run."""
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
        """Return why the engine of the model's format cannot run a unit; '' if it can."""
        if not unit.in_file:
            return "it is not an operator of the file"
        if not engine.installed():
            return f"{engine.title} is not installed"
        if any(isinstance(node.attributes, Custom) for node in unit.nodes):
            return "it was registered by the caller"
        hidden = self._read[unit.name] - set(unit.writes_in_file)
        if hidden:
            return f"'{min(hidden)}' is not a value of the file"
        if unit.title not in self._answers:
            self._answers[unit.title] = engine.refusal(self.model, unit)
        return self._answers[unit.title]

    def _read_by_others(self) -> Mapping[str, set[str]]:
        """Return the values of each unit that other units or the caller read."""
        readers: dict[str, set[str]] = {value: {""} for value in self.model.main.results}
        for unit in self.units:
            for value in unit.reads:
                readers.setdefault(value, set()).add(unit.name)
        return {
            unit.name: {value for value in unit.writes if readers.get(value, set()) - {unit.name}}
            for unit in self.units
        }

    def refuse(self, refusals: Sequence[Refusal], part: Sequence[str]) -> None:
        """Record refusals of lowering; a node that belongs to no unit refuses its whole part."""
        owners = {value: unit.name for unit in self.units for value in unit.writes}
        names = {unit.name for unit in self.units}
        for refusal in refusals:
            name = refusal.node if refusal.node in names else owners.get(refusal.node)
            fresh = name is not None and name not in self.refused
            for unit in [name] if name is not None and fresh else part:
                self.refused.setdefault(unit, f"{refusal.op}: {refusal.reason}")

    def check(self, title: str) -> None:
        """Raise UnsupportedError if some units cannot run on any target."""
        support, engine = self.by_unit(), self.model.cpu_engine or NUMPY
        unsupported = [unit for unit in self.units if not _runs_somewhere(support[unit.name])]
        if unsupported:
            reasons = {unit.name: support[unit.name].reasons for unit in unsupported}
            refusals = [
                Refusal(u.name, u.title, f"{reasons[u.name][GPU]}; {reasons[u.name][engine]}")
                for u in unsupported
            ]
            count = "an operator" if len(unsupported) == 1 else f"{len(unsupported)} operators"
            what = f"{title} has {count} that no target can run"
            raise UnsupportedError(what, refusals, _fix(unsupported, self.engine))


def _runs_somewhere(support: UnitSupport) -> bool:
    return any(support.allows(target) for target in support.reasons)


def _fix(unsupported: Sequence[Unit], engine: CpuEngine | None) -> str:
    for unit in unsupported:
        if unit.foreign is not None and unit.title.startswith("CUSTOM "):
            name = unit.title.removeprefix("CUSTOM ")
            return registration_example(name, unit.foreign.inputs, unit.foreign.types)
    if engine is None or engine.installed():
        return "export the model with other operators: 'fourfold ops' lists the supported ones"
    return f"install {engine.title}, which runs most other operators: {engine.install}"
