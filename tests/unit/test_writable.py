"""Read-only formats reject writing."""

from __future__ import annotations

import pytest

from fourfold.errors import InputError
from fourfold.formats import formats
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph


def test_read_only_format_error_names_writable_formats() -> None:
    empty = WritableModel(Graph((), (), (), {}), (), ())
    with pytest.raises(InputError, match="as Caffe") as raised:
        formats()["caffe"].write(empty)
    assert ".tflite" in raised.value.fix
