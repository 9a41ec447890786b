"""ONNX's operators that are made of several ops: what ONNX's own tests do not ask of them."""

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
    """What a model of one operator gives; the last arrays are its constants."""
    names = [f"x{index}" for index in range(len(arrays))]
    results = [f"y{index}" for index in range(outputs)]
    node = onnx.helper.make_node(op, names, results, **attributes)
    free = len(arrays) - constants
    types = [onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for array in arrays]
    ports = [
        onnx.helper.make_tensor_value_info(name, type, array.shape)
        for name, type, array in zip(names[:free], types[:free], arrays[:free], strict=True)
    ]
    known = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in zip(names[free:], arrays[free:], strict=True)
    ]
    ends = [onnx.helper.make_empty_tensor_value_info(name) for name in results]
    graph = onnx.helper.make_graph([node], "one", ports, ends, known)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    main = read_model(model.SerializeToString()).main
    found = evaluate(main, dict(zip(names[:free], arrays[:free], strict=True)))
    return [found[name] for name in main.results]


def reals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [reals(*shape, seed=number) for number, shape in enumerate(shapes)]
    (found,) = run("Einsum", arrays, equation=equation)
    np.testing.assert_allclose(found, np.einsum(equation, *arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("equation", ["ij,jk", "i->j", "abc->abc"])
def test_an_equation_that_does_not_fit_is_damage(equation: str) -> None:
    with pytest.raises(FourfoldError, match="Einsum"):
        run("Einsum", [reals(3, 5)], equation=equation)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_along_the_first_axis(largest: int, dtype: type) -> None:
    x = np.array([[3, -1], [3, 7], [-5, 7], [0, 2]], dtype)
    values, places = run("TopK", [x, np.array([3])], 2, 1, axis=0, largest=largest)
    order = np.argsort(-x if largest else x, axis=0, kind="stable")[:3]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 0))


@pytest.mark.parametrize("length", [7, 12])
def test_a_transform_may_cut_or_fill_up(length: int) -> None:
    x = reals(2, 10, 2)
    (found,) = run("DFT", [x, np.array(length), np.array(1)], constants=2)
    wanted = np.fft.fft(x[..., 0] + 1j * x[..., 1], length, axis=1)
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], wanted, atol=1e-4)


def test_a_pool_of_a_row_counts_its_padding() -> None:
    x = np.array([[[1, 2, 3, 4]]], np.float32)
    settings = {"kernel_shape": [3], "strides": [3], "pads": [1, 1]}
    (plain,) = run("AveragePool", [x], **settings)
    (counted,) = run("AveragePool", [x], count_include_pad=1, **settings)
    np.testing.assert_allclose(plain, [[[1.5, 3.5]]])
    np.testing.assert_allclose(counted, [[[1, 7 / 3]]])


def test_places_of_the_largest_count_through_all_planes() -> None:
    x = np.array([[[[1, 9], [3, 4]], [[7, 6], [5, 8]]]], np.float32)
    largest, places = run("MaxPool", [x], 2, kernel_shape=[2, 2])
    assert largest.tolist() == [[[[9]], [[8]]]]
    assert places.tolist() == [[[[1]], [[7]]]]


def test_a_long_sum_of_products_of_bytes_is_left_to_others() -> None:
    x = np.zeros((2, 300), np.uint8)
    with pytest.raises(FourfoldError, match="not exact in float32"):
        run("MatMulInteger", [x, x.T.copy()])


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 3)])
def test_an_affine_grid_of_single_elements_is_in_the_middle(shape: tuple[int, int]) -> None:
    size = np.array([1, 1, *shape])
    turn = np.array([[[1, 0, 0], [0, 1, 0]]], np.float32)
    (found,) = run("AffineGrid", [turn, size], constants=1, align_corners=1)
    middle = [axis for axis, length in enumerate(reversed(shape)) if length == 1]
    assert found.shape == (1, *shape, 2)
    assert not found[..., middle].any()


@pytest.mark.parametrize(("kind", "wanted"), [("INT4", [-8, -1, 0, 7]), ("UINT4", [0, 0, 0, 15])])
def test_numbers_of_four_bits_end_where_these_do(kind: str, wanted: list[int]) -> None:
    x, scale = np.array([-90, -1.2, 0.4, 90], np.float32), np.array(1.0, np.float32)
    to = getattr(onnx.TensorProto, kind)
    (found,) = run("QuantizeLinear", [x, scale], constants=1, output_dtype=to)
    assert found.tolist() == wanted
