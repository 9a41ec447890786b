"""Options of TFLite's GPU delegate, and their meaning in fourfold."""

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
# Time limit for tuning the kernels of a partition, in seconds.
PREFERENCES = {"fast_single_answer": 0.0, "balanced": 5.0, "sustained_speed": 45.0}


@dataclass(frozen=True)
class GpuOptions:
    """The options of TFLite's GPU delegate, under their TFLite names.

    Args:
        precision_loss_allowed: Use fp16 storage; None lets the priorities decide.
        quantized_models_allowed: Run quantized models on the GPU.
        inference_preference: How long kernels may be tuned: 'fast_single_answer', 'balanced' or
            'sustained_speed'.
        inference_priority1: First priority. Any other than 'max_precision' allows fp16 storage.
        inference_priority2: Second priority, or 'auto'.
        inference_priority3: Third priority, or 'auto'.
        serialization_dir: Cache folder; by default that of sessions.
        model_token: Name of the model in the cache.
        max_delegated_partitions: Maximum number of partitions on the GPU.
        first_delegate_node: First node that may be claimed, to isolate a faulty one.
        last_delegate_node: Last node that may be claimed.
        allow_buffer_handle_output: Leave outputs in device memory. In TFLite, this is an option of
            C++ interpreters.
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
            raise InputError(what, "it is the number of partitions on the GPU", "pass 1 or more")

    @property
    def _priorities(self) -> tuple[str, str, str]:
        return self.inference_priority1, self.inference_priority2, self.inference_priority3

    @property
    def precision(self) -> Precision:
        """'fp32', or 'mixed' if another priority precedes precision.

        'mixed' stores fp16 and accumulates in fp32. It is nearly as fast as fp16 without its
        overflow in sums.
        """
        if self.precision_loss_allowed is not None:
            return "mixed" if self.precision_loss_allowed else "fp32"
        return "fp32" if self.inference_priority1 == MAX_PRECISION else "mixed"

    @property
    def tuning_seconds(self) -> float:
        return PREFERENCES[self.inference_preference]

    def covers(self, node: int) -> bool:
        """Return True if a node is in the range that may be claimed."""
        last = self.last_delegate_node
        return node >= self.first_delegate_node and (last is None or node <= last)


def _check_order(priorities: tuple[str, str, str]) -> None:
    chosen = [priority for priority in priorities if priority != AUTO]
    gaps = priorities[: len(chosen)] != tuple(chosen)
    if not chosen or gaps or len(set(chosen)) != len(chosen):
        raise InputError(
            f"the priorities are {', '.join(priorities)}",
            "each priority may appear once, the first is required, and 'auto' comes last",
            "set inference_priority1 alone, or two or all three to different priorities",
        )


def _one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        why = f"it must be one of {', '.join(choices)}"
        raise InputError(f"{name} is {value!r}", why, nearest(str(value), choices))
