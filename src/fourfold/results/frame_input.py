"""How a photograph goes into a session that takes frames itself, as `pixels=` says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fourfold.errors import InputError
from fourfold.pictures import resize_picture
from fourfold.pixels import Pixels
from fourfold.pixels.frame_fit import FrameFit, fit_frame
from fourfold.results.found import Size
from fourfold.results.meaning import Described, Meaning, PictureScaling
from fourfold.results.shapes import before_frames, picture_input, picture_size

PLACES = {"letterbox": " in a letterbox", "crop": " of the photograph's middle"}
_STRETCHED = PictureScaling(0.0, 1.0)
_OPAQUE = 255


class FrameInput(NamedTuple):
    """The input of a session that takes frames. `size` is that of the model's picture. Where the
    session takes pictures of this size only, `scaling` says how photographs are fitted into them.
    """

    name: str
    batch: int
    size: Size
    pixels: Pixels
    scaling: PictureScaling

    @property
    def channels(self) -> int:
        """How many channels a photograph has to have before it becomes a frame."""
        return self.pixels.channels

    def array(self, photograph: np.ndarray) -> np.ndarray:
        """The frame that a photograph of bytes [height, width, channels] is, in a batch."""
        frame = self._fitted(photograph) if self.pixels.fit is None else photograph
        if self.pixels.order.startswith("bgr"):
            frame = frame[..., ::-1]
        if self.pixels.bytes > frame.shape[2]:
            opaque = np.full((*frame.shape[:2], 1), _OPAQUE, np.uint8)
            frame = np.concatenate([frame, opaque], 2)
        return np.ascontiguousarray(np.broadcast_to(frame, (self.batch, *frame.shape)))

    def _fitted(self, photograph: np.ndarray) -> np.ndarray:
        """A picture of the model's size: what has no place in the photograph are bars."""
        fit = self.fit(photograph)
        top, left, height, width = fit.box
        part = resize_picture(photograph[top : top + height, left : left + width], fit.size)
        found = np.full((*self.size, photograph.shape[2]), round(self.scaling.fill), np.uint8)
        down, along = fit.offset
        found[down : down + fit.size[0], along : along + fit.size[1]] = part
        return found

    def fit(self, photograph: np.ndarray) -> FrameFit:
        """Where the photograph lies in the model's picture."""
        frame = (photograph.shape[0], photograph.shape[1])
        if self.pixels.fit is None:
            return fit_frame(frame, self.size, self.scaling.fit)
        if self.pixels.size not in (None, frame):
            what = f"a photograph of {frame[0]}x{frame[1]} cannot go into the session"
            why = f"it was opened for frames of {self.pixels.size}"
            raise InputError(what, why, "resize the photograph, or leave size= of the pixels out")
        return self.pixels.fit_frame(frame, self.size)

    def __str__(self) -> str:
        fit = self.scaling.fit if self.pixels.fit is None else self.pixels.fit
        return f"pixels{PLACES.get(fit, '')}, as the session was opened: {self.pixels}"


def find_frame_input(model: Described, meaning: Meaning | None = None) -> FrameInput | None:
    """The only input of a session, where it takes frames; InputError where a photograph is none of
    these, or where it is not known how large the model's picture is.
    """
    info = picture_input(before_frames(model).inputs)
    if info is None or not info.pixels:
        return None
    pixels, size = Pixels.parse(info.pixels), picture_size(info)
    what, run = "the session cannot be asked", "run it, and pass the results to read_answer"
    if pixels.is_yuv:
        why = f"it takes frames of a camera, in {pixels.order}, and no photographs"
        raise InputError(what, why, f"open it with another order of pixels, or {run}")
    if size is None:
        why = "how large the model's picture is, is not known: frames have a size, or are cut"
        raise InputError(what, why, f"open it with Pixels(into=(640, 640), ...), or {run}")
    scaling = None if meaning is None else meaning.scaling
    return FrameInput(info.name, info.shape[0], size, pixels, scaling or _STRETCHED)
