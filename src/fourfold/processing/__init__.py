"""Post-processing that runs on the device, so that little data is downloaded.

`Session(model, postprocess=...)` takes one of these options, or a dict of them by output name.
Classification: `TopK`, `ArgMax`, `Softmax`. Detection with non-maximum suppression: `SsdBoxes`,
`MediaPipeBoxes`, `YoloBoxes`, `YoloHeads`, and `DecodedBoxes` for models that decode boxes
themselves.

Detections are returned as `boxes` f32[batch,most,4] (top, left, bottom and right as fractions of
the model's input picture), `scores` and `classes` [batch,most], best first, and `count` [batch].
Rows after `count` are zeros.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fourfold.processing.anchors import SsdAnchors
    from fourfold.processing.boxes import (
        DecodedBoxes,
        MediaPipeBoxes,
        SsdBoxes,
        YoloBoxes,
        YoloHeads,
    )
    from fourfold.processing.classes import ArgMax, Softmax, TopK

__all__ = [
    "ArgMax",
    "DecodedBoxes",
    "MediaPipeBoxes",
    "Softmax",
    "SsdAnchors",
    "SsdBoxes",
    "TopK",
    "YoloBoxes",
    "YoloHeads",
]
_MODULES = {
    "ArgMax": "fourfold.processing.classes",
    "DecodedBoxes": "fourfold.processing.boxes",
    "MediaPipeBoxes": "fourfold.processing.boxes",
    "Softmax": "fourfold.processing.classes",
    "SsdAnchors": "fourfold.processing.anchors",
    "SsdBoxes": "fourfold.processing.boxes",
    "TopK": "fourfold.processing.classes",
    "YoloBoxes": "fourfold.processing.boxes",
    "YoloHeads": "fourfold.processing.boxes",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: most starts need none of them."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
