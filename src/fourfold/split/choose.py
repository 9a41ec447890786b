"""Where each unit runs: all that can on the GPU, then what does not pay there is taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fourfold.graph import Graph
from fourfold.split.cost import Costs
from fourfold.split.partitions import Partition, make_partitions
from fourfold.split.units import GPU, LITERT, NUMPY, Unit, Verdict

GAIN = 0.9  # a unit leaves the GPU for a clear gain only: the estimates are coarse


@dataclass(frozen=True)
class Limits:
    """What the caller asks for: 'auto', 'gpu' or 'cpu', and how many parts may be on the GPU."""

    placement: str = "auto"
    max_partitions: int | None = None
    reason: str = ""  # why placement is 'cpu', if the caller did not say so


@dataclass(frozen=True)
class Choice:
    """A target for every unit, why those that could be on the GPU are not, and the parts."""

    targets: Mapping[str, str]
    parts: tuple[Partition, ...]
    seconds: float
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """All that a choice depends on. `bound` are units that must stay together on the CPU."""

    graph: Graph
    units: Sequence[Unit]
    verdicts: Mapping[str, Verdict]
    costs: Costs
    bound: tuple[frozenset[str], ...] = ()

    def cpu(self, unit: Unit) -> str:
        """Who runs a unit on the CPU; '' if nobody can."""
        allowed = (target for target in (LITERT, NUMPY) if self.verdicts[unit.name].allows(target))
        return next(allowed, "")

    def choice(self, targets: Mapping[str, str], why: Mapping[str, str]) -> Choice:
        parts = make_partitions(self.graph, self.units, targets, self.bound)
        return Choice(targets, parts, self.costs.total(parts), why)


def assign_units(task: Task, limits: Limits) -> Choice:
    """The targets that cost least, by measured or estimated times."""
    on_cpu = {unit.name: task.cpu(unit) or GPU for unit in task.units}
    held = frozenset().union(*task.bound)
    on_gpu = {
        unit.name: GPU
        if task.verdicts[unit.name].allows(GPU) and unit.name not in held
        else on_cpu[unit.name]
        for unit in task.units
    }
    why = dict.fromkeys(held, "it lies between operators that share a state")
    if limits.placement == "cpu":
        reason = limits.reason or "placement is 'cpu'"
        return task.choice(on_cpu, dict.fromkeys(on_cpu, reason))
    choice = _limit(task, task.choice(on_gpu, why), on_cpu, limits.max_partitions)
    if limits.placement == "gpu" or all(part.target == GPU for part in choice.parts):
        return choice  # what needs no split is where the caller wanted it
    return _all_on_cpu(task, _improve(task, choice, on_cpu), on_cpu)


def _gpu_parts(choice: Choice) -> list[Partition]:
    return [part for part in choice.parts if part.target == GPU]


def _without(task: Task, choice: Choice, part: Partition, on_cpu: Mapping[str, str]) -> Choice:
    """The same choice with one part taken back to the CPU."""
    moved = {name: on_cpu[name] for name in part.names}
    return task.choice({**choice.targets, **moved}, choice.why)


def _explained(choice: Choice, names: Iterable[str], reason: str) -> Choice:
    left = [name for name in names if choice.targets[name] != GPU]
    return replace(choice, why={**choice.why, **dict.fromkeys(left, reason)})


def _limit(task: Task, choice: Choice, on_cpu: Mapping[str, str], most: int | None) -> Choice:
    """At most so many parts on the GPU: those go first whose loss costs least."""
    while most is not None and len(_gpu_parts(choice)) > most:
        parts = _gpu_parts(choice)
        options = [(part, _without(task, choice, part, on_cpu)) for part in parts]
        options = [(part, other) for part, other in options if other.targets != choice.targets]
        if not options:
            return choice
        part, best = min(options, key=lambda item: item[1].seconds)
        choice = _explained(best, part.names, f"max_partitions is {most}")
    return choice


def _improve(task: Task, choice: Choice, on_cpu: Mapping[str, str]) -> Choice:
    """Takes back parts, one after the other, that cost more on the GPU than on the CPU."""
    while len(choice.parts) > 1:
        options = [(part, _without(task, choice, part, on_cpu)) for part in _gpu_parts(choice)]
        if not options:
            return choice
        part, best = min(options, key=lambda item: item[1].seconds)
        if best.seconds >= choice.seconds or best.targets == choice.targets:
            return choice
        saved = (choice.seconds - best.seconds) * 1e3
        reason = f"the way to the GPU and back would not pay: about {saved:.3f} ms more"
        choice = _explained(best, part.names, reason)
    return choice


def _all_on_cpu(task: Task, choice: Choice, on_cpu: Mapping[str, str]) -> Choice:
    """Everything on the CPU, if that is clearly faster."""
    other = task.choice(on_cpu, choice.why)
    if not _gpu_parts(choice) or other.seconds >= GAIN * choice.seconds:
        return choice
    there, here = choice.seconds * 1e3, other.seconds * 1e3
    reason = f"the CPU alone is faster: about {here:.3f} ms against {there:.3f} ms"
    return _explained(other, [n for n, target in choice.targets.items() if target == GPU], reason)
