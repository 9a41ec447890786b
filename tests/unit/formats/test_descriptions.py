"""Metadata of formats without metadata tables."""

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
    result = onnx.load_from_string(writer.small_model("Relu", {"x": (2, 3)}))
    result.doc_string, result.model_version = "turns \x1b[31mred", 7
    result.producer_name, result.producer_version = "a test", "1.0"
    onnx.helper.set_model_props(result, properties)
    content: bytes = result.SerializeToString()
    return content


def test_reads_onnx_properties() -> None:
    result = read_model(onnx_model({"author": "me", "names": "{0: 'cat'}"})).metadata
    assert (result.name, result.version) == ("main", "7")
    assert result.description == "turns \\x1b[31mred"
    assert result.properties == {"producer": "a test 1.0", "author": "me", "names": "{0: 'cat'}"}


def test_limits_number_and_length_of_properties() -> None:
    properties = {f"{number}": "x" * 100_000 for number in range(300)}
    result = read_model(onnx_model(properties)).metadata.properties
    assert len(result) == 256
    assert max(map(len, result.values())) == 2**16


def test_reads_caffe_network_name(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    assert read_model(path).metadata.name == "a small net"
    with pytest.raises(InputError, match="Caffe models have no signatures"):
        read_model(path, ReadOptions(signature="s"))


def test_rejects_signatures_of_onnx_models() -> None:
    with pytest.raises(InputError, match="ONNX models have no signatures"):
        read_model(onnx_model({}), ReadOptions(signature="s"))
