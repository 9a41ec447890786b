"""Answer: what a model's outputs mean, how that is known, as words and as a drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fourfold.results.drawing import draw_found
from fourfold.results.found import Found, Size
from fourfold.results.words import found_as_data, found_lines

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Answer(Found):
    """What was found, and how it is known what the outputs mean.

    `family` is the kind of model that it was taken for, `told_by` what told so. `kinds` are what
    such a model can find: 'classes', 'boxes', 'masks', 'key points', 'pictures', or 'embedding'.
    `size` is the height and width of the photograph, where there is one.
    """

    family: str = ""
    told_by: str = ""
    kinds: tuple[str, ...] = ()
    size: Size | None = None

    @property
    def known(self) -> bool:
        """Whether it is known what any of the outputs mean, be there anything to see or not."""
        return bool(self.kinds)

    def draw(self, photograph: Any) -> Image:
        """The photograph with all of it drawn on: a path, bytes [height, width, 3] or an image of
        Pillow's. A model that makes a picture gives that picture.
        """
        return draw_found(self, photograph)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data; of masks the shares, and no pixels. Places are in pixels, too,
        where the photograph's size is known.
        """
        told = {"known": self.known, "family": self.family, "told_by": self.told_by}
        size = None if self.size is None else list(self.size)
        return {**told, "kinds": list(self.kinds), "size": size, **found_as_data(self, self.size)}

    def __str__(self) -> str:
        told = f"{self.family}, told by {self.told_by}"
        head = told if self.known else "nothing tells what the outputs mean"
        return "\n".join([head, *found_lines(self, self.size)])
