"""QuantizeReport: what was stored in which way, what it cost, and what it saved."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fourfold.quantization.measure import Loss

FLOAT = "float"


@dataclass(frozen=True)
class LayerStorage:
    """How one layer is stored, and why not as integers if it is float."""

    name: str
    op: str
    stored: str
    reason: str = ""


@dataclass(frozen=True)
class QuantizeReport:
    """A model that was quantised. `content` is its file; `loss` is None where no samples told it.

    `bytes_before` are those of the constants of the model as floats, `bytes_after` the whole file.
    """

    content: bytes
    method: str
    ranges: str
    samples: int
    layers: tuple[LayerStorage, ...]
    loss: Loss | None
    bytes_before: int
    path: Path | None = None
    seconds: float = 0.0

    @property
    def bytes_after(self) -> int:
        return len(self.content)

    @property
    def kept(self) -> tuple[LayerStorage, ...]:
        """The layers that stayed float."""
        return tuple(layer for layer in self.layers if layer.stored == FLOAT)

    def to_json(self) -> dict[str, Any]:
        """All but the file itself, as plain data."""
        row = {key: value for key, value in vars(self).items() if key not in ("content", "layers")}
        row["path"] = None if self.path is None else str(self.path)
        row["loss"] = None if self.loss is None else asdict(self.loss)
        row["layers"] = [asdict(layer) for layer in self.layers]
        return {**row, "bytes_after": self.bytes_after}

    def __str__(self) -> str:
        counts = Counter(layer.stored for layer in self.layers)
        stored = ", ".join(f"{count} {stored}" for stored, count in counts.most_common())
        lines = [f"{self.method}: {len(self.layers)} layers, {stored}"]
        if self.samples:
            lines.append(f"ranges by {self.ranges} of {self.samples} samples")
        before, after = _size(self.bytes_before), _size(self.bytes_after)
        lines.append(f"{before} of constants became a file of {after} in {self.seconds:.1f} s")
        if self.loss is not None:
            lines.append(f"beside the float model: {self.loss}")
        lines += [f"  float: {layer.op} '{layer.name}': {layer.reason}" for layer in self.kept]
        return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"
