"""Writes small model files that would take long, or much memory, in a careless compiler."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
SHAPE = (1, 4, 4, 4)
GIANT = 2**31 - 1


@dataclass(frozen=True)
class HostileFile:
    """The bytes of a file, and the bytes of its inputs, outputs and stored tensors."""

    content: bytes
    extension: str = "onnx"
    tensor_bytes: int = 0


Make = Callable[[float], HostileFile]
CASES: dict[str, Make] = {}


def case(make: Make) -> Make:
    """Register a function that writes a file; its argument scales the counts."""
    CASES[make.__name__] = make
    return make


def onnx_file(
    nodes: Sequence[Any],
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, np.ndarray] | None = None,
    inputs: Mapping[str, Sequence[int]] | None = None,
    functions: Sequence[Any] = (),
) -> HostileFile:
    inputs = {"x": SHAPE} if inputs is None else inputs
    ports = [helper.make_tensor_value_info(n, FLOAT, shape) for n, shape in inputs.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    stored = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "main", ports, results, initializer=stored)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid("f", 1)] if functions else [])]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)
    size = sum(array.nbytes for array in (constants or {}).values())
    return HostileFile(model.SerializeToString(), tensor_bytes=size)


node = helper.make_node


def chain(op: str, count: int, **attributes: Any) -> list[Any]:
    names = ["x", *(str(number) for number in range(count - 1)), "y"]
    return [node(op, [a, a] if op == "Add" else [a], [b], **attributes) for a, b in pairwise(names)]


def number_tensor(value: float) -> Any:
    return numpy_helper.from_array(np.array([value], np.float32))


@case
def concat_of_one(scale: float) -> HostileFile:
    """One Concat that reads the same value 20 000 times."""
    return onnx_file([node("Concat", ["x"] * int(20_000 * scale), ["y"], axis=1)])


@case
def concat_of_many(scale: float) -> HostileFile:
    """One Concat that reads 10 000 different values."""
    names = [f"r{number}" for number in range(int(10_000 * scale))]
    bias = {f"c{name}": np.full(1, number, np.float32) for number, name in enumerate(names)}
    nodes = [node("Mul", ["x", f"c{name}"], [name]) for name in names]
    return onnx_file([*nodes, node("Concat", names, ["y"], axis=1)], constants=bias)


@case
def concat_of_inputs(scale: float) -> HostileFile:
    """One Concat of 10 000 inputs of the model."""
    names = [f"x{number}" for number in range(int(10_000 * scale))]
    return onnx_file(
        [node("Concat", names, ["y"], axis=1)], inputs=dict.fromkeys(names, (1, 1, 1, 1))
    )


@case
def sum_of_many(scale: float) -> HostileFile:
    """One Sum that reads the same value 20 000 times."""
    return onnx_file([node("Sum", ["x"] * int(20_000 * scale), ["y"])])


@case
def adds(scale: float) -> HostileFile:
    """A chain of 20 000 Adds."""
    return onnx_file(chain("Add", int(20_000 * scale)))


@case
def many_nodes(scale: float) -> HostileFile:
    """A chain of 100 000 Adds."""
    return onnx_file(chain("Add", int(100_000 * scale)))


@case
def pools(scale: float) -> HostileFile:
    """A chain of 20 000 MaxPools, which cannot be fused."""
    return onnx_file(chain("MaxPool", int(20_000 * scale), kernel_shape=[3, 3], pads=[1, 1, 1, 1]))


@case
def distinct_kernels(scale: float) -> HostileFile:
    """20 000 LeakyRelus and MaxPools in turn, each with another number in its kernel."""
    nodes, last = [], "x"
    for number in range(int(10_000 * scale)):
        pool = node("MaxPool", [last], [f"p{number}"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        leaky = node("LeakyRelu", [f"p{number}"], [f"l{number}"], alpha=number / 30_000)
        nodes += [pool, leaky]
        last = f"l{number}"
    return onnx_file(nodes, [last])


@case
def transposes(scale: float) -> HostileFile:
    """A chain of 20 000 transposes with pointwise nodes between them."""
    nodes, last = [], "x"
    for number in range(int(10_000 * scale)):
        nodes.append(node("Transpose", [last], [f"t{number}"], perm=[0, 2, 3, 1]))
        nodes.append(node("Sigmoid", [f"t{number}"], [f"s{number}"]))
        last = f"s{number}"
    return onnx_file(nodes, [last])


@case
def reshapes(scale: float) -> HostileFile:
    """A chain of 20 000 reshapes and pointwise nodes."""
    nodes, last = [], "x"
    for number in range(int(10_000 * scale)):
        nodes.append(node("Reshape", [last, f"shape{number % 2}"], [f"t{number}"]))
        nodes.append(node("Sigmoid", [f"t{number}"], [f"s{number}"]))
        last = f"s{number}"
    shapes = {"shape0": np.array([1, 16, 4]), "shape1": np.array([1, 4, 4, 4])}
    return onnx_file(nodes, [last], shapes)


@case
def identities(scale: float) -> HostileFile:
    """A chain of 50 000 Identities."""
    return onnx_file(chain("Identity", int(50_000 * scale)))


@case
def fan_out(scale: float) -> HostileFile:
    """One value that 20 000 nodes read, each the producer of an output."""
    names = [f"y{number}" for number in range(int(20_000 * scale))]
    nodes = [node("LeakyRelu", ["x"], [name], alpha=n / 3e4) for n, name in enumerate(names)]
    return onnx_file(nodes, names)


@case
def fan_out_and_in(scale: float) -> HostileFile:
    """One value that 20 000 nodes read, and a chain of Adds that joins them."""
    nodes, last = [node("Softmax", ["x"], ["s"])], "s"
    for number in range(int(20_000 * scale)):
        nodes.append(node("LeakyRelu", ["s"], [f"r{number}"], alpha=number / 30_000))
        nodes.append(node("Add", [last, f"r{number}"], [f"a{number}"]))
        last = f"a{number}"
    return onnx_file(nodes, [last])


@case
def same_output(scale: float) -> HostileFile:
    """One value that is an output 20 000 times."""
    return onnx_file([node("Relu", ["x"], ["y"])], ["y"] * int(20_000 * scale))


@case
def split_outputs(scale: float) -> HostileFile:
    """One Split with 20 000 results."""
    names = [f"y{number}" for number in range(int(20_000 * scale))]
    return onnx_file([node("Split", ["x"], names, axis=1)], names, inputs={"x": (1, len(names))})


@case
def small_constants(scale: float) -> HostileFile:
    """20 000 Muls and MaxPools with a constant each."""
    nodes, last, constants = [], "x", {}
    for number in range(int(20_000 * scale)):
        constants[f"c{number}"] = np.full((1, 1, 1, 4), number, np.float32)
        nodes.append(node("Mul", [last, f"c{number}"], [f"m{number}"]))
        nodes.append(node("MaxPool", [f"m{number}"], [f"p{number}"], kernel_shape=[1, 1]))
        last = f"p{number}"
    return onnx_file(nodes, [last], constants)


@case
def recurrent(scale: float) -> HostileFile:
    """300 LSTMs of 256 steps, which are unrolled."""
    nodes, last = [node("ConstantOfShape", ["s"], ["w"], value=number_tensor(0.5))], "x"
    for number in range(int(300 * scale)):
        nodes.append(node("LSTM", [last, "w", "w"], [f"l{number}"], hidden_size=4))
        nodes.append(node("Squeeze", [f"l{number}", "one"], [f"q{number}"]))
        last = f"q{number}"
    constants = {"s": np.array([1, 16, 4]), "one": np.array([1])}
    return onnx_file(nodes, [last], constants, inputs={"x": (256, 1, 4)})


@case
def loops(scale: float) -> HostileFile:
    """1 000 Loops of 2**31 iterations, whose bodies have 20 nodes."""
    body = helper.make_graph(
        chain("Add", 20),
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", FLOAT, SHAPE),
        ],
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_empty_tensor_value_info("y"),
        ],
    )
    nodes, last = [], "x"
    for number in range(int(1000 * scale)):
        nodes.append(node("Loop", ["n", "", last], [f"l{number}"], body=body))
        last = f"l{number}"
    return onnx_file(nodes, [last], {"n": np.array(GIANT)})


@case
def functions(scale: float) -> HostileFile:
    """Eight functions that call the next one ten times each."""
    made = []
    for level in range(8):
        called = [node(f"f{level + 1}", ["x"], [f"r{n}"], domain="f") for n in range(9)]
        if level == 7:
            called = [node("Relu", ["x"], [f"r{n}"]) for n in range(9)]
        total = node("Sum", [f"r{n}" for n in range(9)], ["y"])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
        made.append(helper.make_function("f", f"f{level}", ["x"], ["y"], [*called, total], opsets))
    count = max(1, int(100 * scale))
    calls = [node("f0", ["x"], [f"y{n}"], domain="f") for n in range(count)]
    return onnx_file(calls, [f"y{n}" for n in range(count)], functions=made)


@case
def nested_branches(scale: float) -> HostileFile:
    """Ifs nested 30 deep, each reading 300 outer values."""
    inner = [*chain("Add", 300)]
    for _ in range(max(1, int(30 * scale))):
        result = [helper.make_empty_tensor_value_info("y")]
        branch = helper.make_graph(inner, "branch", [], result)
        other = helper.make_graph(chain("Relu", 300), "other", [], result)
        inner = [node("If", ["c"], ["y"], then_branch=branch, else_branch=other)]
    return onnx_file(inner, constants={"c": np.array(True)})


@case
def diamonds(scale: float) -> HostileFile:
    """1 000 values that are each added to a function of themselves, then a transpose."""
    nodes, last = [], "x"
    for number in range(int(1000 * scale)):
        nodes.append(node("Sigmoid", [last], [f"s{number}"]))
        nodes.append(node("Add", [last, f"s{number}"], [f"a{number}"]))
        last = f"a{number}"
    nodes.append(node("Transpose", [last], ["y"], perm=[0, 2, 3, 1]))
    return onnx_file(nodes)


@case
def nested_concats(scale: float) -> HostileFile:
    """10 000 Concats that each read the one before."""
    nodes, last = [], "x"
    for number in range(int(10_000 * scale)):
        nodes.append(node("Concat", [last, "x"], [f"c{number}"], axis=1))
        last = f"c{number}"
    return onnx_file(nodes, [last])


@case
def cut_convolutions(scale: float) -> HostileFile:
    """1 000 large convolutions with an operator that only the CPU runs after each."""
    nodes, last = [], "x"
    for number in range(int(1000 * scale)):
        nodes.append(node("Conv", [last, "w"], [f"v{number}"]))
        nodes.append(node("Det", [f"v{number}"], [f"d{number}"]))
        nodes.append(node("Reshape", [f"d{number}", "s"], [f"r{number}"]))
        nodes.append(node("Add", [f"v{number}", f"r{number}"], [f"a{number}"]))
        last = f"a{number}"
    constants = {"w": np.full((256, 256, 1, 1), 0.01, np.float32), "s": np.array([1, 256, 1, 1])}
    return onnx_file(nodes, [last], constants, {"x": (1, 256, 64, 64)})


@case
def alternating(scale: float) -> HostileFile:
    """2 000 operators that only the CPU runs, each between two that the device runs."""
    nodes, last = [], "x"
    for number in range(int(2000 * scale)):
        nodes.append(node("MaxPool", [last], [f"p{number}"], kernel_shape=[1, 1]))
        nodes.append(node("Det", [f"p{number}"], [f"d{number}"]))
        nodes.append(node("Add", ["x", f"d{number}"], [f"a{number}"]))
        last = f"a{number}"
    return onnx_file([*nodes], [last])


@case
def unknown_operators(scale: float) -> HostileFile:
    """20 000 operators that nothing can run."""
    names = [f"y{number}" for number in range(int(20_000 * scale))]
    return onnx_file([node("Nothing", ["x"], [name]) for name in names], names)


@case
def long_names(scale: float) -> HostileFile:
    """A chain of 2 000 nodes with names of 10 000 characters."""
    names = ["x", *(f"{number:09}" + "n" * 10_000 for number in range(int(2000 * scale)))]
    pairs = pairwise(names)
    nodes = [node("Sigmoid", [a], [b]) for a, b in pairs]
    return onnx_file(nodes, [names[-1]])


@case
def equal_names(scale: float) -> HostileFile:
    """20 000 inputs whose names differ only in a number that fourfold would add."""
    names = [f"x:{number}" for number in range(int(20_000 * scale))]
    return onnx_file([node("Relu", [names[0]], ["y"])], inputs=dict.fromkeys(names, (1,)))


@case
def archive(scale: float) -> HostileFile:
    """A zip archive of 200 000 names."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for number in range(int(200_000 * scale)):
            file.writestr(zipfile.ZipInfo(str(number)), b"")
    return HostileFile(content.getvalue(), "zip")
