"""Indices in models and inputs: constants are checked when a model is read, inputs before a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_writer import graph, model, node

import fourfold
from fourfold.backends.cpu.reference import evaluate
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError, InputError
from fourfold.formats import read_model

ROWS, COLUMNS, COUNT = 1000, 8, 5
TABLE = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
INT32 = 6  # ONNX's number of the element type


def embedding(step: str = "Identity", indices: np.ndarray | None = None) -> bytes:
    """Return a model that looks up rows of a table, with the indices as an input by default."""
    constants, attributes = {"table": TABLE}, {}
    inputs = [("ids", "int64", [COUNT])] if indices is None else []
    if indices is not None:
        constants["ids"] = indices
    names = ["ids"]
    if step == "Reshape":
        constants["shape"] = np.array([COUNT, 1], np.int64)
        names.append("shape")
    elif step == "Cast":
        attributes["to"] = INT32
    nodes = [
        node(step, names, ["found"], **attributes),
        node("Gather", ["table", "found"], ["y"], axis=0),
    ]
    return model(graph(nodes, inputs, [("y", "float", None)], constants))


def ids(*last: int) -> np.ndarray:
    return np.array([0, 3, -1, *last], np.int64)[-COUNT:]


@pytest.mark.parametrize("step", ["Identity", "Reshape", "Cast"])
def test_indices_from_the_end_are_valid(step: str, device: DeviceInfo) -> None:
    with fourfold.Session(embedding(step), device=device.address, cache=None) as session:
        assert session.inputs[0].limits == (-ROWS, ROWS - 1)
        result = session.run(ids(-ROWS, ROWS - 1))["y"]
    assert np.array_equal(result.reshape(COUNT, COLUMNS), TABLE[ids(-ROWS, ROWS - 1)])


@pytest.mark.parametrize("step", ["Identity", "Reshape", "Cast"])
@pytest.mark.parametrize("wrong", [ROWS, -ROWS - 1, 1500, 2**40, -(2**40), 2**63 - 1, -(2**63)])
def test_refuses_indices_out_of_range(step: str, wrong: int, device: DeviceInfo) -> None:
    with fourfold.Session(embedding(step), device=device.address, cache=None) as session:
        with pytest.raises(InputError, match=f"'ids' contains {wrong}"):
            session.run(ids(7, wrong))
        with pytest.raises(InputError, match="indices from -1000 to 999"):
            session.run_async(ids(7, wrong))
        session.input_array()[:] = ids(7, wrong)
        with pytest.raises(InputError, match=f"'ids' contains {wrong}"):
            session.run()
        session.input_array()[:] = ids(7, 8)
        assert np.array_equal(session.run()["y"].reshape(COUNT, COLUMNS), TABLE[ids(7, 8)])


def test_limits_are_stored(device: DeviceInfo, tmp_path: Path) -> None:
    for _ in range(2):  # compiled, then from the cache
        session = fourfold.Session(embedding(), device=device.address, cache=tmp_path)
        assert session.inputs[0].limits == (-ROWS, ROWS - 1)
        session.close()


@pytest.mark.parametrize("wrong", [ROWS, -ROWS - 1, 2**40])
def test_refuses_constant_indices_out_of_range(wrong: int, device: DeviceInfo) -> None:
    model = embedding(indices=np.array([0, wrong], np.int64))
    with pytest.raises(FourfoldError, match="ind"):
        fourfold.Session(model, device=device.address, cache=None).run()


def test_numpy_refuses_indices_out_of_range() -> None:
    main = read_model(embedding()).main
    with pytest.raises(InputError, match=f"looks up index {ROWS}"):
        evaluate(main, {"ids": ids(7, ROWS)})


@pytest.mark.parametrize("wrong", [2**31, -(2**31) - 1, 2**40])
def test_refuses_integers_of_more_than_32_bits(wrong: int, device: DeviceInfo) -> None:
    add = node("Add", ["x", "x"], ["y"])
    content = model(graph([add], [("x", "int64", [3])], [("y", "int64", [3])]))
    with fourfold.Session(
        content, device=device.address, cache=None, placement="gpu", strict=True
    ) as session:
        with pytest.raises(InputError, match="32 bits"):
            session.run(np.array([1, 2, wrong], np.int64))
        assert session.run(np.array([1, 2, 3], np.int64))["y"].tolist() == [2, 4, 6]
