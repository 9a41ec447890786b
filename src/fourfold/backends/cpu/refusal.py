"""Error for a part that a CPU engine cannot open."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.errors import Refusal, UnsupportedError
from fourfold.plan.tensor_binding import TensorBinding


def first_line(error: Exception) -> str:
    """Return the first line of an error message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def refused_part(engine: str, outputs: Sequence[TensorBinding], reason: str) -> UnsupportedError:
    """Return the error for a part that an engine cannot open. The part is named after its first
    output.
    """
    refusals = [Refusal(binding.name, "output", reason) for binding in outputs[:1]]
    return UnsupportedError(
        f"{engine} cannot run its part of the model",
        refusals or [Refusal("all operators", "part", reason)],
        "see 'fourfold check' for which operators stay on the CPU, and why",
    )
