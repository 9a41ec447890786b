"""Metadata and signatures of a model, decoded on first access."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.graph import metadata as descriptions
else:
    descriptions = lazy_import("fourfold.graph.metadata")


class About:
    """Metadata and signatures of a model. It holds no reference to a player, so that the
    description of an input can outlive its session.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content

    @cached_property
    def _decoded(self) -> tuple[descriptions.ModelMetadata, descriptions.Signatures]:
        return descriptions.decode_metadata(self._content)

    @property
    def metadata(self) -> descriptions.ModelMetadata:
        return self._decoded[0]

    @property
    def signatures(self) -> descriptions.Signatures:
        return self._decoded[1]

    def input(self, index: int) -> descriptions.TensorMetadata | None:
        return descriptions.tensor_at(self.metadata.inputs, index)

    def output(self, index: int) -> descriptions.TensorMetadata | None:
        return descriptions.tensor_at(self.metadata.outputs, index)
