"""What a caller may ask of placement."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fourfold.config import PLACEMENTS
from fourfold.errors import InputError, nearest

if TYPE_CHECKING:
    from fourfold.split import Row


@dataclass(frozen=True)
class PlacementOptions:
    """What a caller may ask of placement; see Session."""

    placement: str = "auto"
    strict: bool = False
    max_partitions: int | None = None
    threads: int | None = None
    on_fallback: Callable[[Row], None] | None = None
    reason: str = ""  # why everything is to be on the CPU, where the caller did not ask for it

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            what, why = f"there is no placement {self.placement!r}", "placements have names"
            raise InputError(what, why, nearest(str(self.placement), PLACEMENTS))
        if self.max_partitions is not None and self.max_partitions < 0:
            what = f"max_partitions is {self.max_partitions}"
            raise InputError(what, "it counts parts on the GPU", "pass 0 or more, or leave it out")

    @property
    def workers(self) -> int:
        return self.threads or os.cpu_count() or 1
