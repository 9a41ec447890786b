"""ONNX operators composed of several ops: cases that the official ONNX tests do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import FourfoldError
from fourfold.formats import read_model

onnx = pytest.importorskip("onnx")

EQUATIONS = [
    ("ij->ji", [(3, 5)]),
    ("ij->", [(3, 5)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("iij->j", [(3, 3, 5)]),
    ("i,i", [(7,), (7,)]),
    ("i,j->ij", [(3,), (5,)]),
    ("bij,bjk->bik", [(2, 3, 5), (2, 5, 7)]),
    ("bhid,bhjd->bhij", [(2, 3, 5, 4), (2, 3, 7, 4)]),
    ("...ij,jk->...ik", [(2, 3, 5), (5, 7)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 5), (4, 5, 7)]),
    ("ab,cb,cd->ad", [(3, 5), (7, 5), (7, 2)]),
    ("ijk,jl->il", [(2, 3, 5), (3, 4)]),
    ("bnc,c->bn", [(2, 3, 5), (5,)]),
]


def run(
    op: str, arrays: list[np.ndarray], outputs: int = 1, constants: int = 0, **attributes: object
) -> list[np.ndarray]:
    """Run a model of one operator; the last arrays are its constants."""
    names = [f"x{index}" for index in range(len(arrays))]
    results = [f"y{index}" for index in range(outputs)]
    node = onnx.helper.make_node(op, names, results, **attributes)
    free = len(arrays) - constants
    types = [onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for array in arrays]
    ports = [
        onnx.helper.make_tensor_value_info(name, type, array.shape)
        for name, type, array in zip(names[:free], types[:free], arrays[:free], strict=True)
    ]
    initializers = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in zip(names[free:], arrays[free:], strict=True)
    ]
    output_infos = [onnx.helper.make_empty_tensor_value_info(name) for name in results]
    graph = onnx.helper.make_graph([node], "one", ports, output_infos, initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    main = read_model(model.SerializeToString()).main
    result = evaluate(main, dict(zip(names[:free], arrays[:free], strict=True)))
    return [result[name] for name in main.results]


def random_floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum_matches_numpy(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [random_floats(*shape, seed=number) for number, shape in enumerate(shapes)]
    (result,) = run("Einsum", arrays, equation=equation)
    np.testing.assert_allclose(result, np.einsum(equation, *arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("equation", ["ij,jk", "i->j", "abc->abc"])
def test_rejects_invalid_einsum_equations(equation: str) -> None:
    with pytest.raises(FourfoldError, match="Einsum"):
        run("Einsum", [random_floats(3, 5)], equation=equation)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_supports_the_first_axis(largest: int, dtype: type) -> None:
    x = np.array([[3, -1], [3, 7], [-5, 7], [0, 2]], dtype)
    values, indices = run("TopK", [x, np.array([3])], 2, 1, axis=0, largest=largest)
    order = np.argsort(-x if largest else x, axis=0, kind="stable")[:3]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 0))


@pytest.mark.parametrize("length", [7, 12])
def test_dft_truncates_or_pads_the_signal(length: int) -> None:
    x = random_floats(2, 10, 2)
    (result,) = run("DFT", [x, np.array(length), np.array(1)], constants=2)
    expected = np.fft.fft(x[..., 0] + 1j * x[..., 1], length, axis=1)
    np.testing.assert_allclose(result[..., 0] + 1j * result[..., 1], expected, atol=1e-4)


def test_one_dimensional_average_pool_counts_padding() -> None:
    x = np.array([[[1, 2, 3, 4]]], np.float32)
    settings = {"kernel_shape": [3], "strides": [3], "pads": [1, 1]}
    (plain,) = run("AveragePool", [x], **settings)
    (counted,) = run("AveragePool", [x], count_include_pad=1, **settings)
    np.testing.assert_allclose(plain, [[[1.5, 3.5]]])
    np.testing.assert_allclose(counted, [[[1, 7 / 3]]])


def test_max_pool_indices_count_through_all_channels() -> None:
    x = np.array([[[[1, 9], [3, 4]], [[7, 6], [5, 8]]]], np.float32)
    largest, indices = run("MaxPool", [x], 2, kernel_shape=[2, 2])
    assert largest.tolist() == [[[[9]], [[8]]]]
    assert indices.tolist() == [[[[1]], [[7]]]]


def test_rejects_integer_matmul_that_is_inexact_in_float32() -> None:
    x = np.zeros((2, 300), np.uint8)
    with pytest.raises(FourfoldError, match="not exact in float32"):
        run("MatMulInteger", [x, x.T.copy()])


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 3)])
def test_affine_grid_of_one_element_is_centered(shape: tuple[int, int]) -> None:
    size = np.array([1, 1, *shape])
    turn = np.array([[[1, 0, 0], [0, 1, 0]]], np.float32)
    (result,) = run("AffineGrid", [turn, size], constants=1, align_corners=1)
    middle = [axis for axis, length in enumerate(reversed(shape)) if length == 1]
    assert result.shape == (1, *shape, 2)
    assert not result[..., middle].any()


@pytest.mark.parametrize(("kind", "expected"), [("INT4", [-8, -1, 0, 7]), ("UINT4", [0, 0, 0, 15])])
def test_quantizes_to_the_range_of_four_bits(kind: str, expected: list[int]) -> None:
    x, scale = np.array([-90, -1.2, 0.4, 90], np.float32), np.array(1.0, np.float32)
    to = getattr(onnx.TensorProto, kind)
    (result,) = run("QuantizeLinear", [x, scale], constants=1, output_dtype=to)
    assert result.tolist() == expected
