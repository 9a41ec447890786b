"""Answer: the decoded outputs of a model, printable, drawable and convertible to JSON."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fourfold.errors import InputError
from fourfold.support.display import html_table, shown
from fourfold.vision.drawing import draw_results, drawing_as_png
from fourfold.vision.found import Found, Size
from fourfold.vision.words import result_lines, result_rows, results_to_data

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Answer(Found):
    """Decoded outputs of a model, and how their meaning was determined.

    Attributes:
        family: The model family that the decoder assumes, such as "DeepLab".
        told_by: The source of that assumption, such as "the model's metadata".
        kinds: What such a model can find: 'classes', 'boxes', 'masks', 'key points', 'pictures' or
            'embedding'.
        size: Height and width of the photograph, or None without one.
        photograph: The photograph that `ask` was called with, as it was passed, or None.
    """

    family: str = ""
    told_by: str = ""
    kinds: tuple[str, ...] = ()
    size: Size | None = None
    photograph: Any = field(default=None, repr=False, compare=False)

    @property
    def known(self) -> bool:
        """True if the meaning of any output is known, even if nothing was detected."""
        return bool(self.kinds)

    def draw(self, photograph: Any = None) -> Image:
        """Draw the results on the photograph. A model that makes a picture returns that picture.

        Args:
            photograph: A path, a Pillow image, or a uint8 array [height, width, 3]; by default the
                photograph that `ask` was called with.
        """
        return draw_results(self, self.photograph if photograph is None else photograph)

    def to_json(self) -> dict[str, Any]:
        """Return the results as plain data, with the class shares of masks instead of their pixels.

        Coordinates are also given in pixels if the size of the photograph is known.
        """
        summary = {"known": self.known, "family": self.family, "told_by": self.told_by}
        size = None if self.size is None else list(self.size)
        return {
            **summary,
            "kinds": list(self.kinds),
            "size": size,
            **results_to_data(self, self.size),
        }

    @shown
    def __str__(self) -> str:
        return "\n".join([self._head(), *result_lines(self, self.size)])

    def _repr_html_(self) -> str:
        """Return the results as a table, below the drawing if there is a photograph and Pillow."""
        table = html_table(self._head(), (), result_rows(self, self.size))
        if self.photograph is None and not self.pictures:
            return table
        try:
            png = base64.b64encode(drawing_as_png(self, self.photograph)).decode()
        except InputError:  # no Pillow, or the file of the photograph is gone
            return table
        return f'<img src="data:image/png;base64,{png}">{table}'

    def _head(self) -> str:
        source = f"{self.family}, identified by {self.told_by}"
        return source if self.known else "the meaning of the outputs is unknown"
