"""Interface for the spellings in which languages of the C family differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from string import Template

from fourfold.codegen.expression import Expression
from fourfold.types import DType


class Dialect(ABC):
    """Spellings in which C-like languages differ.

    `words` fills templates: 'global' and 'local' qualify what a pointer points to, 'array' a local
    memory array, 'function' and 'inline' a function; 'item', 'group' and 'groups' are indices along
    the first axis. `kinds` and `storages` name types; a vector type is the scalar name with the
    width appended.
    """

    words: Mapping[str, str]
    kinds: Mapping[str, str]
    storages: Mapping[DType, str]
    # True if fp16 values are loaded as floats with functions that take a plain pointer; False if
    # half is a type.
    loads_halves: bool = False
    # Function that selects by a vector of conditions, if ?: takes only scalars.
    choice_function: str = ""
    subgroup_size: str = ""  # expression for the sub-group size
    # Bytes of local memory that a kernel may declare itself, and the declaration of the array that
    # a launch allocates beyond that.
    declared_local_memory: int = 0
    launch_array: str = ""

    def asks_launch(self, local_bytes: int) -> bool:
        """Return whether the launch must allocate this much local memory."""
        return 0 < self.declared_local_memory < local_bytes

    def type_name(self, kind: str, width: int = 1) -> str:
        return self.kinds[kind] + ("" if width == 1 else str(width))

    def fill(self, template: str, **values: object) -> str:
        """Fill a template with the words of this language and with other values."""
        return Template(template).substitute(self.words, **values)

    @abstractmethod
    def entry(self, name: str, parameters: str, items: int) -> str:
        """Return the signature of an entry point whose groups have `items` work-items."""

    @abstractmethod
    def unit(self, text: str) -> str:
        """Wrap kernels and functions that belong together, as a program contains them."""

    @abstractmethod
    def vector(self, type_: str, lanes: str) -> str:
        """Return a vector of these lanes, or of one number in all lanes."""

    @abstractmethod
    def lane(self, text: str, width: int, number: int) -> str:
        """Return one element of a vector."""

    @abstractmethod
    def part(self, text: str, width: int, first: int, count: int) -> str:
        """Return some neighbouring elements of a vector."""

    @abstractmethod
    def convert(self, type_: str, text: str) -> str:
        """Convert to another type, lane by lane."""

    @abstractmethod
    def bitcast(self, type_: str, text: str) -> str:
        """Reinterpret the bits as another type."""

    @abstractmethod
    def truth(self, text: str, item: Expression) -> str:
        """Return a comparison as a vector of ints, the representation of truth values."""

    @abstractmethod
    def identifier(self, kind: str, axis: int) -> str:
        """Return this work-item's position along an axis: its 'global_id' or 'local_id'."""

    @abstractmethod
    def private_array(self, type_: str, name: str, size: int) -> str:
        """Declare a private array of one work-item."""

    def half_condition(self, condition: str, width: int) -> str:
        """Convert a vector of conditions to the form that a selection between halves takes."""
        return condition

    def image_parameter(self, name: str) -> str:
        raise NotImplementedError("this language does not support images")

    def texel(self, kind: str, name: str, place: str) -> str:
        """Read four numbers from an image."""
        raise NotImplementedError("this language does not support images")

    def load_half(self, width: int, index: str, pointer: str) -> str:
        """Load fp16 values as floats; used if `loads_halves` is set."""
        raise NotImplementedError("fp16 is a native type of this language")

    def store_half(self, width: int, value: str, index: str, pointer: str) -> str:
        raise NotImplementedError("fp16 is a native type of this language")
