"""What a model says, instead of arrays: classes, boxes, masks, key points, pictures.

    from fourfold import results

    answer = results.ask(session, "cats_and_dogs.jpg")
    for box in answer.boxes:
        print(box.name, box.score, box.corners)
    answer.draw("cats_and_dogs.jpg").save("answer.png")

`ask` puts a photograph into a session as its model wants it, and says what came out.
`read_answer` does so with arrays that came of any run. What outputs mean is told by the model's
metadata, by shapes, and by families of models that are known; an answer says which of these told
it, what had to be assumed, and of which outputs nothing is known.
"""

from __future__ import annotations

from fourfold.results.answer import Answer
from fourfold.results.found import (
    Box,
    ClassScore,
    ClassShare,
    KeyPoint,
    KeyPoints,
    MadePicture,
    Mask,
)
from fourfold.results.labels import read_labels
from fourfold.results.meaning import Meaning
from fourfold.results.photographs import ask, find_picture_input
from fourfold.results.read import find_meaning, read_answer

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
    "ask",
    "find_meaning",
    "find_picture_input",
    "read_answer",
    "read_labels",
]
