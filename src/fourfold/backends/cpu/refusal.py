"""What an engine says of a part that it cannot take, in one wording for all engines."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.errors import Refusal, UnsupportedError
from fourfold.plan.tensor_binding import TensorBinding


def first_line(error: Exception) -> str:
    """What a runtime said, in short."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def refused_part(engine: str, outputs: Sequence[TensorBinding], reason: str) -> UnsupportedError:
    """The error for a part that an engine, by its title, does not open; the part goes by the name
    of its first output, where only some are asked for.
    """
    refusals = [Refusal(binding.name, "output", reason) for binding in outputs[:1]]
    return UnsupportedError(
        f"{engine} cannot take its part of the model",
        refusals or [Refusal("all of it", "part", reason)],
        "see 'fourfold check' for which operators stay on the CPU, and why",
    )
