"""What a model says of itself, taken from a plan's record when somebody asks for it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.graph import metadata as descriptions
else:
    descriptions = lazy_import("fourfold.graph.metadata")


class About:
    """A model's metadata and signatures. It knows nothing of who plays the model, so that what
    describes an input can outlive a session.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content

    @cached_property
    def _found(self) -> tuple[descriptions.ModelMetadata, descriptions.Signatures]:
        return descriptions.decode_metadata(self._content)

    @property
    def metadata(self) -> descriptions.ModelMetadata:
        return self._found[0]

    @property
    def signatures(self) -> descriptions.Signatures:
        return self._found[1]

    def input(self, place: int) -> descriptions.TensorMetadata | None:
        return descriptions.tensor_at(self.metadata.inputs, place)

    def output(self, place: int) -> descriptions.TensorMetadata | None:
        return descriptions.tensor_at(self.metadata.outputs, place)
