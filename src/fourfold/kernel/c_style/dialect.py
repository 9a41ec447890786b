"""Dialect: what one language of the C family writes in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from string import Template

from fourfold.kernel.expression import Expression
from fourfold.types import DType


class Dialect(ABC):
    """How a language that looks like C spells what such languages spell differently.

    `words` are those of templates: 'global' and 'local' go before what a pointer points to, 'array'
    before an array in local memory, 'function' and 'inline' before a function; 'item', 'group' and
    'groups' are numbers along the first axis. `kinds` and `storages` name types; that of a vector
    is a name with its width behind it.
    """

    words: Mapping[str, str]
    kinds: Mapping[str, str]
    storages: Mapping[DType, str]
    # Whether halves are loaded as floats by functions that take a plain pointer, or are a type.
    loads_halves: bool = False
    # The function for a choice by a vector of conditions, where ?: takes none.
    choice_function: str = ""
    subgroup_size: str = ""  # how a kernel asks for it
    # Bytes of local memory that a kernel may declare, and how it says that a launch gives it more.
    declared_local_memory: int = 0
    launch_array: str = ""

    def asks_launch(self, local_bytes: int) -> bool:
        """Whether so much local memory comes from the launch."""
        return 0 < self.declared_local_memory < local_bytes

    def type_name(self, kind: str, width: int = 1) -> str:
        return self.kinds[kind] + ("" if width == 1 else str(width))

    def fill(self, template: str, **values: object) -> str:
        """A template with the words of this language, and values of its own."""
        return Template(template).substitute(self.words, **values)

    @abstractmethod
    def entry(self, name: str, parameters: str, items: int) -> str:
        """The head of an entry point whose groups have so many work-items."""

    @abstractmethod
    def unit(self, text: str) -> str:
        """Kernels and functions that belong together, as they stand in a program."""

    @abstractmethod
    def vector(self, type_: str, lanes: str) -> str:
        """A vector of these lanes, or of one number in all of them."""

    @abstractmethod
    def lane(self, text: str, width: int, number: int) -> str:
        """One element of a vector."""

    @abstractmethod
    def part(self, text: str, width: int, first: int, count: int) -> str:
        """Some neighbouring elements of a vector."""

    @abstractmethod
    def convert(self, type_: str, text: str) -> str:
        """The same number as another type, lane by lane."""

    @abstractmethod
    def bitcast(self, type_: str, text: str) -> str:
        """The same bits as another type."""

    @abstractmethod
    def truth(self, text: str, item: Expression) -> str:
        """A comparison, as the vector of ints that truth is."""

    @abstractmethod
    def identifier(self, kind: str, axis: int) -> str:
        """This work-item's place along an axis: its 'global_id' or 'local_id'."""

    @abstractmethod
    def private_array(self, type_: str, name: str, size: int) -> str:
        """The declaration of an array of one work-item."""

    def half_condition(self, condition: str, width: int) -> str:
        """A vector of conditions, as a choice between halves takes it."""
        return condition

    def image_parameter(self, name: str) -> str:
        raise NotImplementedError("this language has no images")

    def texel(self, kind: str, name: str, place: str) -> str:
        """Four numbers of an image."""
        raise NotImplementedError("this language has no images")

    def load_half(self, width: int, index: str, pointer: str) -> str:
        """Halves as floats, where `loads_halves`."""
        raise NotImplementedError("halves of this language are a type")

    def store_half(self, width: int, value: str, index: str, pointer: str) -> str:
        raise NotImplementedError("halves of this language are a type")
