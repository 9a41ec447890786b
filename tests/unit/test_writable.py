"""Formats that are only read say so when they are asked to write."""

from __future__ import annotations

import pytest

from fourfold.errors import InputError
from fourfold.formats import formats
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph


def test_a_format_that_is_only_read_names_those_that_are_written() -> None:
    empty = WritableModel(Graph((), (), (), {}), (), ())
    with pytest.raises(InputError, match="as Caffe") as raised:
        formats()["caffe"].write(empty)
    assert ".tflite" in raised.value.fix
