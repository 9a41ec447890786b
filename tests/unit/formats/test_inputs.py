"""Declared inputs: open sizes, requested shapes, and a batch that follows."""

from __future__ import annotations

import pytest

from fourfold.errors import InputError
from fourfold.formats.batch import (
    OwnTypes,
    axis_of_batch,
    batch_growth,
    check_batch,
    reshape_batch,
    reshape_literally,
)
from fourfold.formats.budget import Budget
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.inputs import DeclaredInput, ReadOptions, declare_inputs, open_sizes
from fourfold.graph import NONE
from fourfold.ops.concat import Concat
from fourfold.types import DType, Shape, TensorType

IMAGE = DeclaredInput.of("x", DType.F32, (1, 5, 7, 6))


def declare(*inputs: DeclaredInput, follow: bool = True, **shapes: Shape) -> GraphBuilder:
    builder = GraphBuilder(Budget(1 << 20))
    declare_inputs(builder, inputs, ReadOptions(shapes, follow_batch=follow))
    return builder


def test_open_sizes_default_to_one() -> None:
    one = DeclaredInput.of("x", DType.F32, (-1, 5, -1))
    assert one.type == TensorType.parse("f32[1,5,1]")
    assert one.open_sizes == (-1, 5, -1)
    assert declare(one, x=(2, 5, 9)).types["x"].shape == (2, 5, 9)
    assert open_sizes((2, 5)) == ()


@pytest.mark.parametrize("sizes", [(2, -3), (2.5,), ("2",), (2**40, 2)])
def test_rejects_invalid_sizes(sizes: tuple[int, ...]) -> None:
    with pytest.raises((ValueError, TypeError)):
        DeclaredInput.of("x", DType.F32, sizes)


@pytest.mark.parametrize("shapes", [{"x": (1, 5, 7)}, {"x": (0, 5, 7, 6)}, {"z": (1, 5, 7, 6)}])
def test_rejects_shapes_that_do_not_match_an_input(shapes: dict[str, Shape]) -> None:
    with pytest.raises(InputError):
        declare(IMAGE, **shapes)


@pytest.mark.parametrize(
    ("inputs", "shapes", "factor"),
    [
        ([IMAGE], {}, 1),
        ([IMAGE], {"x": (3, 5, 7, 6)}, 3),
        ([IMAGE], {"x": (3, 5, 9, 6)}, 1),
        ([DeclaredInput.of("x", DType.F32, (-1, 5))], {"x": (3, 5)}, 1),
        ([DeclaredInput.of(name, DType.F32, (2, 5)) for name in "xy"], {"x": (6, 5)}, 3),
        (
            [DeclaredInput.of(name, DType.F32, (2, 5)) for name in "xy"],
            {"x": (6, 5), "y": (4, 5)},
            1,
        ),
    ],
)
def test_computes_the_batch_factor(
    inputs: list[DeclaredInput], shapes: dict[str, Shape], factor: int
) -> None:
    builder = declare(*inputs, **shapes)
    assert (builder.batch_factor, builder.reshaped) == (factor, bool(shapes))
    assert declare(*inputs, follow=False, **shapes).batch_factor == 1


def test_computes_batch_growth_and_its_axis() -> None:
    assert batch_growth((2, 5), (6, 5)) == 3
    assert batch_growth((2, 5), (5, 5)) == 1
    assert axis_of_batch((4, 2, 5), (4, 6, 5), 3) == 1
    assert axis_of_batch((4, 2, 5), (4, 6, 5), 2) is None
    assert axis_of_batch((4, 2), (8, 4), 2) is None


@pytest.mark.parametrize(
    ("target", "shape", "changed"),
    [
        ((1, -1, 3), (4, 70, 3), (4, -1, 3)),
        ((35, 6), (140, 6), (140, 6)),
        ((-1, 6), (140, 6), (-1, 6)),
        ((1, 210), (4, 210), (4, 210)),
    ],
)
def test_reshape_follows_the_batch(target: Shape, shape: Shape, changed: Shape) -> None:
    x = TensorType.parse("f32[4,5,7,6]")
    result = reshape_batch(x, (1, 5, 7, 6), target, 4)
    assert (result.shape, result.target) == (shape, changed)


def test_literal_reshape() -> None:
    x = TensorType.parse("f32[4,5,7,6]")
    result = reshape_literally(x, (-1, 3))
    assert (result.shape, result.target) == ((280, 3), (-1, 3))
    for target in ((1, 210), (-1, -1), (-2, 5), (0, -1)):
        with pytest.raises(ValueError, match=r"do not fill|is not valid"):
            reshape_literally(x, target)


def test_error_names_the_operator_that_mixes_images() -> None:
    builder = declare(IMAGE, x=(3, 5, 7, 6))
    own = OwnTypes({"x": IMAGE.type}, {"y": IMAGE.type})
    builder.node("relu", ("x",), NONE, "y", "y")
    check_batch(builder, "RELU 'y'", own, builder.nodes)
    builder.node("concat", ("x", "x"), Concat(0), "z", "z")
    both = OwnTypes({"x": IMAGE.type}, {"z": TensorType.parse("f32[2,5,7,6]")})
    with pytest.raises(InputError, match="CONCAT 'z' does not treat each image"):
        check_batch(builder, "CONCAT 'z'", both, builder.nodes[1:])
    with pytest.raises(
        InputError, match=r"its result is f32\[3,5,7,6\], and f32\[3,5,7,6\] without"
    ):
        check_batch(builder, "ODD 'y'", OwnTypes(own.inputs, {"y": builder.types["y"]}), [])
