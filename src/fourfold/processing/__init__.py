"""What is to be made of a model's outputs where they are computed, so that little is fetched.

`Session(model, postprocess=...)` takes one of these, or a dict of them by the names of outputs.
Classes: `TopK`, `ArgMax`, `Softmax`. Boxes of detectors, the best of those that overlap:
`SsdBoxes`, `MediaPipeBoxes`, `YoloBoxes`, `YoloHeads`, and `DecodedBoxes` for models that decode by
themselves.

Boxes come as `boxes` f32[batch,most,4], top, left, bottom and right as fractions of the picture
that the model sees, with `scores` and `classes` [batch,most], the best first, and `count` [batch]:
rows beyond it are zeros.
"""

from __future__ import annotations

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
