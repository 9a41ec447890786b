"""Views: arrays in the memory that kernels use, which the caller fills and reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fourfold.backends import Slot
from fourfold.runtime.in_flight import Flight, Results


class Views:
    """Arrays of at most two slots: while a run in one is in flight, the caller fills the other. Not
    thread-safe.
    """

    def __init__(
        self,
        open_slot: Callable[[], Slot],
        names: tuple[Sequence[str], Sequence[str]],
        after_run: Callable[[], None],
        check: Callable[[Sequence[np.ndarray]], None],
    ) -> None:
        """`check` is called with the input arrays before each run."""
        self._open_slot, self._after_run, self._check = open_slot, after_run, check
        self._inputs, self._outputs = map(list, names)
        self._slots = [open_slot()]
        self._flights: list[Flight | None] = [None, None]
        self._filled = 0  # the slot whose inputs the caller fills
        self._played = 0  # the slot with the latest outputs

    def input_array(self, name: str) -> np.ndarray:
        """Return the memory that the next run reads. If the current slot is in flight, the other
        slot is used and gets a copy of all inputs.
        """
        flight = self._flights[self._filled]
        if flight is not None and not flight.done:
            self._turn()
        return self._slots[self._filled].inputs[self._inputs.index(name)]

    def _turn(self) -> None:
        before = self._slots[self._filled]
        self._filled = 1 - self._filled
        if self._filled == len(self._slots):
            self._slots.append(self._open_slot())
        self._settle(self._filled)
        for mine, theirs in zip(self._slots[self._filled].inputs, before.inputs, strict=True):
            np.copyto(mine, theirs)

    def output_array(self, name: str) -> np.ndarray:
        """Return the array of an output of the latest run."""
        return self._slots[self._played].outputs[self._outputs.index(name)]

    def play(self) -> Results:
        """Run with the current inputs and return the output arrays."""
        self._start(spin=True)
        results = self._slots[self._played].end(spin=True)
        self._after_run()
        return dict(zip(self._outputs, results, strict=True))

    def begin(self) -> Flight:
        """Start a run with the current inputs."""
        slot = self._start(spin=False)
        flight = Flight(slot, self._outputs, lambda flight: self._after_run())
        self._flights[self._filled] = flight
        return flight

    def _start(self, spin: bool) -> Slot:
        self._settle(self._filled)
        self._check(self._slots[self._filled].inputs)
        self._played, slot = self._filled, self._slots[self._filled]
        slot.begin([None] * len(self._inputs), spin)
        return slot

    def _settle(self, number: int) -> None:
        """Wait for the run in a slot before its memory is used again."""
        flight, self._flights[number] = self._flights[number], None
        if flight is not None:
            flight.wait()

    def drain(self) -> None:
        for number in range(len(self._slots)):
            self._settle(number)

    def close(self) -> None:
        self.drain()
        for slot in self._slots:
            slot.close()
