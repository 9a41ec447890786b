"""Decode model outputs into classes, boxes, masks, key points and pictures.

    from fourfold import vision

    answer = vision.ask(session, "cats_and_dogs.jpg")
    for box in answer.boxes:
        print(box.name, box.score, box.corners)
    answer.draw().save("answer.png")

`ask` preprocesses a photograph as the model expects, runs the session and decodes its outputs.
`read_answer` decodes arrays that any run returned. The meaning of outputs follows from the model's
metadata, from shapes, and from known model families. An answer names its source, its assumptions,
and the outputs that could not be decoded.
"""

from __future__ import annotations

from fourfold.processing.pixels.stated import StatedPixels
from fourfold.vision.answer import Answer
from fourfold.vision.found import (
    Box,
    ClassScore,
    ClassShare,
    KeyPoint,
    KeyPoints,
    MadePicture,
    Mask,
)
from fourfold.vision.labels import read_labels
from fourfold.vision.meaning import Meaning
from fourfold.vision.photographs import ask
from fourfold.vision.preprocessing import PictureInput, find_picture_input
from fourfold.vision.read import find_meaning, read_answer

__all__ = [
    "Answer",
    "Box",
    "ClassScore",
    "ClassShare",
    "KeyPoint",
    "KeyPoints",
    "MadePicture",
    "Mask",
    "Meaning",
    "PictureInput",
    "StatedPixels",
    "ask",
    "find_meaning",
    "find_picture_input",
    "read_answer",
    "read_labels",
]
