"""Writes small model files whose constants would take long, or much memory, to compute."""

from __future__ import annotations

import numpy as np
from hostile_models import FLOAT, GIANT, HostileFile, case, node, number_tensor, onnx_file


@case
def shared_weights(scale: float) -> HostileFile:
    """300 convolutions with the same 16 MB of weights, each with another scale after it."""
    nodes = [node("ConstantOfShape", ["s"], ["w"], value=number_tensor(0.5))]
    constants, last = {"s": np.array([2048, 2048, 1, 1])}, "x"
    for number in range(int(300 * scale)):
        constants[f"c{number}"] = np.full((1, 2048, 1, 1), 1 + number, np.float32)
        nodes.append(node("Conv", [last, "w"], [f"v{number}"]))
        nodes.append(node("Mul", [f"v{number}", f"c{number}"], [f"m{number}"]))
        last = f"m{number}"
    return onnx_file(nodes, [last], constants, inputs={"x": (1, 2048, 4, 4)})


@case
def constant_convolutions(scale: float) -> HostileFile:
    """100 convolutions of constants, each of 60 bytes in the file."""
    nodes = [
        node("ConstantOfShape", ["sx"], ["a"], value=number_tensor(0.5)),
        node("ConstantOfShape", ["sw"], ["w"], value=number_tensor(0.5)),
    ]
    nodes += [
        node("Conv", ["a", "w"], [f"v{number}"], pads=[number, 1, 1, 1])
        for number in range(int(100 * scale))
    ]
    constants = {"sx": np.array([1, 8, 32, 32]), "sw": np.array([4, 8, 3, 3])}
    names = [f"v{number}" for number in range(int(100 * scale))]
    return onnx_file(nodes, names, constants)


@case
def constant_products(scale: float) -> HostileFile:
    """100 products of constant matrices of 1024 x 1024."""
    nodes, last = [node("ConstantOfShape", ["s"], ["w"], value=number_tensor(0.5))], "w"
    for number in range(int(100 * scale)):
        nodes.append(node("MatMul", [last, "w"], [f"m{number}"]))
        last = f"m{number}"
    return onnx_file(nodes, [last], {"s": np.array([1024, 1024])})


@case
def constant_reductions(scale: float) -> HostileFile:
    """2 000 pointwise and running sums of a constant of 4 million numbers."""
    nodes = [
        node("ConstantOfShape", ["s"], ["w"], value=number_tensor(0.5)),
        node("Constant", [], ["axis"], value_int=0),
    ]
    names = [f"m{number}" for number in range(int(1000 * scale))]
    for number, name in enumerate(names):
        nodes.append(node("LeakyRelu", ["w"], [f"c{number}"], alpha=number / 5000))
        nodes.append(node("ReduceSum", [f"c{number}"], [name], keepdims=0))
    return onnx_file(nodes, names, {"s": np.array([4096, 1024])})


@case
def gigantic_constants(scale: float) -> HostileFile:
    """100 ConstantOfShape, Expand and Range of gigantic sizes."""
    nodes, names = [], []
    for number in range(int(100 * scale)):
        nodes.append(node("ConstantOfShape", ["s"], [f"c{number}"], value=number_tensor(number)))
        nodes.append(node("Expand", ["one", "s"], [f"e{number}"]))
        nodes.append(node("Range", ["zero", "end", "step"], [f"r{number}"]))
        names += [f"c{number}", f"e{number}", f"r{number}"]
    numbers = {"zero": 0.0, "end": float(2**31), "step": 1.0}
    constants: dict[str, np.ndarray] = {"s": np.array([GIANT])}
    constants |= {name: np.array(value, np.float32) for name, value in numbers.items()}
    constants["one"] = np.ones(1, np.float32)
    return onnx_file(nodes, names, constants)


@case
def large_constants(scale: float) -> HostileFile:
    """100 ConstantOfShape of 60 MB, each an output."""
    names = [f"c{number}" for number in range(int(100 * scale))]
    nodes = [
        node("ConstantOfShape", ["s"], [name], value=number_tensor(number))
        for number, name in enumerate(names)
    ]
    return onnx_file(nodes, names, {"s": np.array([15_000_000])})


@case
def large_sums(scale: float) -> HostileFile:
    """ConstantOfShape of 60 MB, 8 times, added to an input of the same size."""
    nodes, last = [], "x"
    for number in range(int(8 * scale)):
        value = number_tensor(number)
        nodes.append(node("ConstantOfShape", ["s"], [f"c{number}"], value=value))
        nodes.append(node("Add", [last, f"c{number}"], [f"a{number}"]))
        last = f"a{number}"
    shape = {"x": (15_000_000,)}
    return onnx_file(nodes, [last], {"s": np.array([15_000_000])}, shape)


@case
def gigantic_tiles(scale: float) -> HostileFile:
    """100 Tiles and Pads of an input to gigantic sizes."""
    nodes, names = [], []
    for number in range(int(100 * scale)):
        nodes.append(node("Tile", ["x", "t"], [f"t{number}"]))
        nodes.append(node("Pad", ["x", "p"], [f"p{number}"]))
        names += [f"t{number}", f"p{number}"]
    constants = {"t": np.array([1, 1, 1, 2**24]), "p": np.array([0, 0, 0, 0, 0, 0, 0, 2**27 - 8])}
    return onnx_file(nodes, names, constants)


@case
def windows(scale: float) -> HostileFile:
    """1 000 one-hot tables, identity matrices and Hann windows of large sizes."""
    nodes, names = [], []
    for number in range(int(300 * scale)):
        nodes.append(node("HannWindow", ["n"], [f"h{number}"]))
        nodes.append(node("EyeLike", ["x"], [f"e{number}"], dtype=FLOAT, k=number))
        names += [f"h{number}", f"e{number}"]
    return onnx_file(nodes, names, {"n": np.array(2**24)}, {"x": (4096, 4096)})


@case
def scaled_weights(scale: float) -> HostileFile:
    """One convolution with 16 MB of weights, and 5 000 scales and shifts after it."""
    nodes = [
        node("ConstantOfShape", ["s"], ["w"], value=number_tensor(0.5)),
        node("Conv", ["x", "w"], ["v"]),
    ]
    last = "v"
    for number in range(int(5000 * scale)):
        nodes.append(node("Add" if number % 2 else "Mul", [last, "c"], [f"m{number}"]))
        last = f"m{number}"
    constants = {"s": np.array([2048, 2048, 1, 1]), "c": np.full((1, 2048, 1, 1), 0.9, np.float32)}
    return onnx_file(nodes, [last], constants, inputs={"x": (1, 2048, 4, 4)})
