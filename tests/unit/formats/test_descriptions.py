"""What models of formats without metadata of their own say of themselves."""

from __future__ import annotations

from pathlib import Path

import onnx_writer as writer
import pytest
from onnx_writer import onnx

from fourfold.errors import InputError
from fourfold.formats import ReadOptions, read_model

NET = """
name: "a small net"
input: "data" input_shape { dim: 1 dim: 3 dim: 4 dim: 5 }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
"""


def onnx_model(properties: dict[str, str]) -> bytes:
    made = onnx.load_from_string(writer.small_model("Relu", {"x": (2, 3)}))
    made.doc_string, made.model_version = "turns \x1b[31mred", 7
    made.producer_name, made.producer_version = "a test", "1.0"
    onnx.helper.set_model_props(made, properties)
    content: bytes = made.SerializeToString()
    return content


def test_onnx_has_properties() -> None:
    found = read_model(onnx_model({"author": "me", "names": "{0: 'cat'}"})).metadata
    assert (found.name, found.version) == ("main", "7")
    assert found.description == "turns \\x1b[31mred"
    assert found.properties == {"producer": "a test 1.0", "author": "me", "names": "{0: 'cat'}"}


def test_very_many_properties_are_cut() -> None:
    properties = {f"{number}": "x" * 100_000 for number in range(300)}
    found = read_model(onnx_model(properties)).metadata.properties
    assert len(found) == 256
    assert max(map(len, found.values())) == 2**16


def test_caffe_has_a_name(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    assert read_model(path).metadata.name == "a small net"
    with pytest.raises(InputError, match="Caffe models have no signatures"):
        read_model(path, ReadOptions(signature="s"))


def test_onnx_has_no_signatures() -> None:
    with pytest.raises(InputError, match="ONNX models have no signatures"):
        read_model(onnx_model({}), ReadOptions(signature="s"))
