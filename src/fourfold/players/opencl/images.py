"""Images of a plan's constants, through which kernels read weights."""

from __future__ import annotations

from fourfold.device import DeviceInfo
from fourfold.plan import BufferUse
from fourfold.players.opencl import binding as cl
from fourfold.types import DType


class Images:
    """Images of buffers on one device: each is created once, as long as possible."""

    def __init__(self, context: cl.Context, info: DeviceInfo) -> None:
        self._context, self._info = context, info
        self._images: dict[tuple[int, int, DType], cl.Image] = {}

    def of(self, use: BufferUse, buffer: cl.Buffer, size: int) -> tuple[cl.Image, int]:
        """Return an image that covers what a kernel reads, and the number of texels to skip."""
        assert use.image is not None
        dtype, texel = use.image.dtype, 4 * use.image.dtype.size
        first, limit, start = use.offset // 4, self._info.image_texels, 0
        if use.end_of_image > limit:
            start = first * texel // self._info.alignment * self._info.alignment
        key = (use.buffer, start, dtype)
        if key not in self._images:
            count = min(limit, (size - start) // texel)
            part = buffer.part(start, count * texel) if start else buffer
            self._images[key] = cl.Image(self._context, part, count, half=dtype is DType.F16)
        return self._images[key], first - start // texel

    def close(self) -> None:
        for image in self._images.values():
            image.release()
