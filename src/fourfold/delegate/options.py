"""The options of TFLite's GPU delegate, and what they mean here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, get_args

from fourfold.config import Precision
from fourfold.errors import InputError, nearest

Preference = Literal["fast_single_answer", "balanced", "sustained_speed"]
Priority = Literal["auto", "max_precision", "min_latency", "min_memory"]
PRIORITIES: tuple[str, ...] = get_args(Priority)
AUTO, MAX_PRECISION = "auto", "max_precision"
# Seconds that may be spent to find the best kernels of a partition.
PREFERENCES = {"fast_single_answer": 0.0, "balanced": 5.0, "sustained_speed": 45.0}


@dataclass(frozen=True)
class GpuOptions:
    """TFLite's options by TFLite's names.

    `precision_loss_allowed` decides the precision, or where it is None the priorities do: what
    comes before 'max_precision' may cost precision. `inference_preference` says how long the best
    kernels may be looked for. `first_delegate_node` and `last_delegate_node` limit what is claimed,
    to find a node that is at fault. `allow_buffer_handle_output`, which TFLite has as an option of
    interpreters in C++, leaves outputs in the device's memory.
    """

    precision_loss_allowed: bool | None = None
    quantized_models_allowed: bool = True
    inference_preference: str = "fast_single_answer"
    inference_priority1: str = MAX_PRECISION
    inference_priority2: str = AUTO
    inference_priority3: str = AUTO
    serialization_dir: str | os.PathLike[str] | None = None
    model_token: str | None = None
    max_delegated_partitions: int = 1
    first_delegate_node: int = 0
    last_delegate_node: int | None = None
    allow_buffer_handle_output: bool = False

    def __post_init__(self) -> None:
        _one_of("inference_preference", self.inference_preference, tuple(PREFERENCES))
        for number, priority in enumerate(self._priorities, 1):
            _one_of(f"inference_priority{number}", priority, PRIORITIES)
        _check_order(self._priorities)
        if self.max_delegated_partitions < 1:
            what = f"max_delegated_partitions is {self.max_delegated_partitions}"
            raise InputError(what, "it counts partitions on the GPU", "pass 1 or more")

    @property
    def _priorities(self) -> tuple[str, str, str]:
        return self.inference_priority1, self.inference_priority2, self.inference_priority3

    @property
    def precision(self) -> Precision:
        """'fp32', or 'mixed' where something comes before precision.

        Mixed keeps halves in memory and computes in floats: nearly all of the speed of halves, and
        none of their overflow between additions.
        """
        if self.precision_loss_allowed is not None:
            return "mixed" if self.precision_loss_allowed else "fp32"
        return "fp32" if self.inference_priority1 == MAX_PRECISION else "mixed"

    @property
    def tuning_seconds(self) -> float:
        return PREFERENCES[self.inference_preference]

    def covers(self, node: int) -> bool:
        """Whether a node is in the range that may be claimed."""
        last = self.last_delegate_node
        return node >= self.first_delegate_node and (last is None or node <= last)


def _check_order(priorities: tuple[str, str, str]) -> None:
    given = [priority for priority in priorities if priority != AUTO]
    gaps = priorities[: len(given)] != tuple(given)
    if not given or gaps or len(set(given)) != len(given):
        raise InputError(
            f"the priorities are {', '.join(priorities)}",
            "each may come once, the first must be given, and 'auto' is last",
            "set inference_priority1 alone, or two or all three to different priorities",
        )


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        why = f"it must be one of {', '.join(known)}"
        raise InputError(f"{name} is {value!r}", why, nearest(str(value), known))
