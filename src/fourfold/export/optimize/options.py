"""Options of `optimize`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fourfold.errors import InputError, nearest
from fourfold.export.quantize.measure import MAX_CHANGED
from fourfold.export.quantize.method import find_method
from fourfold.export.quantize.quantizer import QuantizeOptions
from fourfold.export.quantize.samples import SamplePixels, SamplesOption
from fourfold.options import PlacementOptions
from fourfold.plan.targets import GPU
from fourfold.types import Shape

CPU = "cpu"
TARGETS = (GPU, CPU)


@dataclass(frozen=True)
class QuantizationRequest:
    """The quantization options, and the samples for calibration."""

    options: QuantizeOptions
    samples: SamplesOption | None

    @staticmethod
    def of(
        method: str | None,
        samples: SamplesOption | None,
        ranges: str | None,
        max_loss: float | None,
        keep: Collection[str],
        max_changed: float | None = None,
        strict: bool = False,
    ) -> QuantizationRequest | None:
        """Return the request, or None without a method. Raises InputError for options without
        effect.
        """
        if method is None:
            settings = {
                "calibrate": samples,
                "ranges": ranges,
                "max_loss": max_loss,
                "keep": keep or None,
                "max_changed": max_changed,
                "strict": strict or None,
            }
            stray = next((name for name, value in settings.items() if value is not None), None)
            if stray is not None:
                what, why = f"{stray} was set", "it is an option of quantization, which is off"
                raise InputError(what, why, "add quantize='int8', or leave it out")
            return None
        named = find_method(method)
        if samples is None and (named.calibrates or max_loss is not None):
            what = f"no samples were passed for '{method}'"
            why = "calibration and loss measurement need samples"
            raise InputError(what, why, "pass calibrate=: a folder of pictures or arrays")
        options = QuantizeOptions(
            named,
            ranges or "minmax",
            max_loss=max_loss,
            keep=keep,
            max_changed=MAX_CHANGED if max_changed is None else max_changed,
            strict=strict,
        )
        return QuantizationRequest(options, samples)


@dataclass(frozen=True)
class OptimizeOptions:
    """Targets of operators and changes of the graph; see `optimize`."""

    targets: tuple[str, ...] = TARGETS
    fold_batch: bool = True
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    quantization: QuantizationRequest | None = None
    pixels: SamplePixels | None = None  # scaling of pictures among the samples

    def __post_init__(self) -> None:
        for name in self.targets:
            if name not in TARGETS:
                why = f"targets are {' and '.join(TARGETS)}"
                raise InputError(f"there is no target {name!r}", why, nearest(name, TARGETS))
        if not self.targets:
            what, why = "there are no targets", "operators need a device to run on"
            raise InputError(what, why, f"pass some of {', '.join(TARGETS)}")

    @property
    def changes_graph(self) -> bool:
        """True if the resulting model differs from that of the file."""
        return bool(self.shapes or self.inputs or self.outputs or self.quantization)

    @property
    def placement(self) -> PlacementOptions:
        if CPU not in self.targets:
            return PlacementOptions(placement=GPU)
        return PlacementOptions() if GPU in self.targets else PlacementOptions(placement=CPU)
