"""QuantizeReport: how layers were stored, the loss, and the size."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fourfold.export.quantize.measure import Loss
from fourfold.support.display import html_table
from fourfold.vision.preprocessing import PictureInput

FLOAT = "float"


@dataclass(frozen=True)
class LayerStorage:
    """How one layer is stored, and the reason if it stays float."""

    name: str
    op: str
    stored: str
    reason: str = ""


@dataclass(frozen=True)
class QuantizeReport:
    """The result of quantization.

    Attributes:
        content: The quantized file.
        method: The quantization method.
        ranges: The range estimator.
        samples: Number of calibration samples.
        layers: How each layer is stored.
        loss: The measured loss, or None without samples.
        bytes_before: Size of the model's constants as floats.
        problem: Why the answers of the quantized model cannot be trusted; '' if they can.
        picture: How pictures among the samples were converted; None if there were none.
        path: The file that was written, if any.
        seconds: Duration of the whole procedure.
    """

    content: bytes
    method: str
    ranges: str
    samples: int
    layers: tuple[LayerStorage, ...]
    loss: Loss | None
    bytes_before: int
    problem: str = ""
    picture: PictureInput | None = None
    path: Path | None = None
    seconds: float = 0.0

    @property
    def bytes_after(self) -> int:
        """Size of the quantized file."""
        return len(self.content)

    @property
    def kept(self) -> tuple[LayerStorage, ...]:
        """The layers that stay float."""
        return tuple(layer for layer in self.layers if layer.stored == FLOAT)

    def to_json(self) -> dict[str, Any]:
        """Return the report without the file as plain data."""
        row = {key: value for key, value in vars(self).items() if key not in ("content", "layers")}
        picture = row.pop("picture")
        row["preprocessing"] = None if picture is None else picture.to_json()
        row["path"] = None if self.path is None else str(self.path)
        row["loss"] = None if self.loss is None else asdict(self.loss)
        row["layers"] = [asdict(layer) for layer in self.layers]
        return {**row, "bytes_after": self.bytes_after}

    def __repr__(self) -> str:
        size = f"{_size(self.bytes_before)} became {_size(self.bytes_after)}"
        return f"<QuantizeReport: {self.method}, {len(self.layers)} layers, {size}>"

    def _repr_html_(self) -> str:
        size = f"{_size(self.bytes_before)} became {_size(self.bytes_after)}"
        rows = [(layer.name, layer.op, layer.stored, layer.reason) for layer in self.layers]
        columns = ("layer", "op", "stored as", "reason")
        return html_table(f"Quantized: {self.method}, {size}", columns, rows)

    def __str__(self) -> str:
        counts = Counter(layer.stored for layer in self.layers)
        stored = ", ".join(f"{count} {stored}" for stored, count in counts.most_common())
        lines = [f"{self.method}: {len(self.layers)} layers, {stored}"]
        if self.samples:
            lines.append(f"ranges: {self.ranges} of {self.samples} samples")
        if self.picture is not None:
            lines.append(f"pictures: {self.picture}")
        before, after = _size(self.bytes_before), _size(self.bytes_after)
        lines.append(f"{before} of constants -> a file of {after} in {self.seconds:.1f} s")
        if self.loss is not None:
            lines.append(f"compared with the float model: {self.loss}")
        if self.problem:
            lines.append(f"warning: {self.problem}")
        lines += [f"  float: {layer.op} '{layer.name}': {layer.reason}" for layer in self.kept]
        return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"
