"""Each graph of a file runs under the names of its signature."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tflite_writer as writer
from click.testing import CliRunner
from runtimes import needs_litert

import fourfold
from fourfold.backends.cpu import litert
from fourfold.cli import main
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, UnsupportedError
from fourfold.formats import ReadOptions, read_model
from fourfold.options import CompileOptions
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_model

SHAPE = (2, 3)
X = np.arange(-3, 3, dtype=np.float32).reshape(SHAPE)


def graph(op: str, name: str) -> writer.Subgraph:
    """Return a graph of y = op(x) and z = exp(y) with both as outputs."""
    tensors = [writer.Tensor(one, SHAPE) for one in ("x", "y", "z")]
    operators = [writer.Operator(op, ["x"], ["y"]), writer.Operator("EXP", ["y"], ["z"])]
    return writer.Subgraph(tensors, operators, ["x"], ["z", "y"], name)


def two_graphs() -> bytes:
    return writer.write_model(
        [graph("ABS", "first"), graph("NEG", "second")],
        [
            writer.Signature("absolute", {"number": 0}, {"size": 1}, 0),
            writer.Signature("negative", {"number": 0}, {"b": 2, "a": 1, "again": 2}, 1),
        ],
    )


def unique_model() -> bytes:
    """Return a model of two graphs; the second has an operator that only LiteRT supports."""
    first = graph("ABS", "first")
    tensors = [
        writer.Tensor("x", (6,)),
        writer.Tensor("y", (6,)),
        writer.Tensor("index", (6,), "int32"),
        writer.Tensor("z", (6,)),
    ]
    operators = [
        writer.Operator("UNIQUE", ["x"], ["y", "index"], "UniqueOptions", {"IdxOutType": 2}),
        writer.Operator("NEG", ["y"], ["z"]),
    ]
    second = writer.Subgraph(tensors, operators, ["x"], ["z", "index"], "second")
    unique = writer.Signature("unique", {"number": 0}, {"values": 3, "places": 2}, 1)
    return writer.write_model([first, second], [unique])


def test_first_graph_runs_under_its_own_names_by_default(device: DeviceInfo) -> None:
    with fourfold.Session(two_graphs(), device, cache=None) as session:
        outputs = session.run(X)
    assert list(outputs) == ["z", "y"]
    np.testing.assert_allclose(outputs["y"], np.abs(X))


def test_signature_selects_names_and_outputs(device: DeviceInfo) -> None:
    with fourfold.Session(two_graphs(), device, cache=None, signature="absolute") as session:
        assert [one.name for one in session.inputs] == ["number"]
        outputs = session.run({"number": X})
        assert list(session.signatures) == ["absolute", "negative"]
        assert session.signatures["absolute"].inputs == {"number": "x"}
        assert session.signatures["negative"].outputs.keys() == {"a", "b", "again"}
    assert list(outputs) == ["size"]
    np.testing.assert_allclose(outputs["size"], np.abs(X))


@pytest.mark.parametrize("where", ["device", "cpu"])
def test_every_graph_can_run(device: DeviceInfo, where: str) -> None:
    if where == "cpu" and not litert.ENGINE.installed():
        pytest.skip("LiteRT is not installed")
    target = device if where == "device" else "cpu"
    with fourfold.Session(two_graphs(), target, cache=None, signature="negative") as session:
        outputs = session.run(X)
    assert list(outputs) == ["again", "b", "a"]  # in the order of the graph's outputs
    np.testing.assert_allclose(outputs["a"], -X)
    for name in ("b", "again"):
        np.testing.assert_allclose(outputs[name], np.exp(-X), rtol=1e-5)


def test_shapes_use_the_names_of_the_signature(device: DeviceInfo) -> None:
    x = np.ones((5, 3), np.float32)
    options = {"signature": "negative", "shapes": {"number": (5, 3)}}
    with fourfold.Session(two_graphs(), device, cache=None, **options) as session:  # type: ignore[arg-type]
        np.testing.assert_allclose(session.run(x)["a"], -x)
        session.resize(number=(1, 3))
        assert session.inputs[0].shape == (1, 3)
        np.testing.assert_allclose(session.run(x[:1])["a"], -x[:1])
        with pytest.raises(InputError, match="no input 'x'"):
            session.resize(x=(1, 3))


@needs_litert
def test_operators_of_a_later_graph_fall_back_to_litert(device: DeviceInfo) -> None:
    x = np.array([3, 5, 3, 3, 5, 7], np.float32)
    with fourfold.Session(unique_model(), device, cache=None, signature="unique") as session:
        outputs = session.run({"number": x})
        assert "UNIQUE" in {row.op for row in session.placement.fallbacks}
    np.testing.assert_array_equal(outputs["values"], [-3, -5, -7])
    np.testing.assert_array_equal(outputs["places"], [0, 1, 0, 0, 1, 2])


@needs_litert
def test_rejects_fallback_of_graphs_that_call_the_first_one() -> None:
    """The file of a part contains its graph in place of the first one."""
    tensors = [writer.Tensor("flag", (1,), "bool"), *(writer.Tensor(n, SHAPE) for n in "xy")]
    choose = {"ThenSubgraphIndex": 0, "ElseSubgraphIndex": 0}
    calling = writer.Operator("IF", ["flag", "x"], ["y"], "IfOptions", choose)
    second = writer.Subgraph(tensors, [calling], ["flag", "x"], ["y"], "second")
    called = writer.Signature("call", {"f": 0, "x": 1}, {"y": 2}, 1)
    data = writer.write_model([graph("ABS", "first"), second], [called])
    with pytest.raises(UnsupportedError, match="calls the first graph"):
        fourfold.Session(data, "cpu", cache=None, signature="call")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (two_graphs(), "its signatures are 'absolute', 'negative'"),
        (b"", "the model has no signatures"),
    ],
)
def test_rejects_unknown_signatures(data: bytes, why: str) -> None:
    data = data or writer.write_model([graph("ABS", "first")])
    with pytest.raises(InputError, match=why):
        read_model(data, ReadOptions(signature="absolut"))


def test_cache_separates_signatures(device: DeviceInfo, tmp_path: Path) -> None:
    for origin in ("model", "store"):
        for name, output in (("absolute", "size"), ("negative", "a")):
            new_session = fourfold.Session(two_graphs(), device, cache=tmp_path, signature=name)
            with new_session as session:
                assert session.origin == origin
                assert output in session.run(X)
                assert list(session.signatures) == ["absolute", "negative"]


def test_prepared_file_contains_several_signatures(device: DeviceInfo, tmp_path: Path) -> None:
    source, file = tmp_path / "m.tflite", tmp_path / "m.fourfold"
    source.write_bytes(two_graphs())
    draft = Draft()
    for name in ("absolute", "negative"):
        prepare_model(draft, source, device, CompileOptions(signature=name), {})
    draft.write(file)
    source.unlink()
    for name, outputs in (("absolute", ["size"]), ("negative", ["again", "b", "a"])):
        with fourfold.Session(file, device, cache=None, signature=name) as session:
            assert session.origin == "file"
            assert list(session.run(X)) == outputs
            assert list(session.signatures) == ["absolute", "negative"]
    shown = CliRunner().invoke(main, ["inspect", str(file)]).stdout
    assert "m, absolute" in shown
    assert "m, negative" in shown
    with pytest.raises(InputError, match="was prepared for 'absolute', 'negative'"):
        fourfold.Session(file, device, cache=None)
    with pytest.raises(InputError, match="not prepared for the signature 'other'"):
        fourfold.Session(file, device, cache=None, signature="other")


def test_single_signature_of_a_prepared_file_is_the_default(
    device: DeviceInfo, tmp_path: Path
) -> None:
    source, file = tmp_path / "m.tflite", tmp_path / "m.fourfold"
    source.write_bytes(two_graphs())
    draft = Draft()
    prepare_model(draft, source, device, CompileOptions(signature="absolute"), {})
    draft.write(file)
    with fourfold.Session(file, device, cache=None) as session:
        assert list(session.run(X)) == ["size"]


@needs_litert
@pytest.mark.parametrize("more", [[], ["--layers"]])
@pytest.mark.parametrize("name", ["absolute", "negative"])
def test_verify_command_compares_signatures_with_litert(
    device: DeviceInfo, tmp_path: Path, name: str, more: list[str]
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(two_graphs())
    words = ["verify", str(path), "--signature", name, "--device", device.name, "--json", *more]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["agrees"]
    (sample,) = report["samples"].values()
    names = {"absolute": ["size"], "negative": ["again", "b", "a"]}[name]
    assert [row["name"] for row in sample["outputs"]] == names
