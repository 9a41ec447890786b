"""What a caller says of how a model is to be optimised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.errors import InputError, nearest
from fourfold.options import PlacementOptions
from fourfold.targets import GPU
from fourfold.types import Shape

CPU = "cpu"
TARGETS = (GPU, CPU)


@dataclass(frozen=True)
class OptimizeOptions:
    """Where operators may run, and what of the graph is changed; see `optimize`."""

    targets: tuple[str, ...] = TARGETS
    fold_batch: bool = True
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.targets:
            if name not in TARGETS:
                why = f"targets are {' and '.join(TARGETS)}"
                raise InputError(f"there is no target {name!r}", why, nearest(name, TARGETS))
        if not self.targets:
            what, why = "there are no targets", "operators must run somewhere"
            raise InputError(what, why, f"name some of {', '.join(TARGETS)}")

    @property
    def changes_graph(self) -> bool:
        """Whether the model that runs is another one than that of the file."""
        return bool(self.shapes or self.inputs or self.outputs)

    @property
    def placement(self) -> PlacementOptions:
        if CPU not in self.targets:
            return PlacementOptions(placement=GPU)
        return PlacementOptions() if GPU in self.targets else PlacementOptions(placement=CPU)
