"""take_pixels: inputs that come as the bytes of pictures, and which cannot."""

from __future__ import annotations

import re

import pytest
from random_graphs import brief, build
from tflite_writer import Operator, Tensor, write

from fourfold.errors import InputError
from fourfold.formats import read_model
from fourfold.graph import Graph
from fourfold.pixels import Pixels
from fourfold.rewrite import check, rewrite
from fourfold.rewrite.take_pixels import byte_sizes, find_pictures, real_shapes, take_pixels

TEXT = """
    input x: f32[1,7,5,3]
    input z: f32[1,7,5,3]
    const c: f32[3]
    a = mul(x, c)
    y = add(a, z) |> sub(x)
    output y
"""


def test_a_node_stands_between_the_bytes_and_who_reads_them() -> None:
    graph = take_pixels(build(TEXT), {"x": Pixels(2.0, 4.0, "bgra")})
    check(graph)
    channels = "(Channel(byte=2, zero=2.0, scale=0.25), Channel(byte=1, zero=2.0, scale=0.25), "
    assert brief(graph) == [
        f"x/real = picture(x; channels={channels}Channel(byte=0, zero=2.0, scale=0.25)))",
        "a = mul(x/real, c)",
        "y = add(a, z) |> sub(x/real)",
    ]
    assert [str(graph.types[name]) for name in graph.inputs] == ["u8[1,7,5,4]", "f32[1,7,5,3]"]
    check(rewrite(graph, verify=True))


def test_inputs_that_a_graph_does_not_have_change_nothing() -> None:
    graph = build(TEXT)
    assert take_pixels(graph, {"elsewhere": Pixels()}) is graph


def test_a_new_value_takes_no_name_that_is_there() -> None:
    graph: Graph = build(TEXT.replace("a = ", "x/real = ").replace("add(a", "add(x/real"))
    taken = take_pixels(graph, {"x": Pixels()})
    check(taken)
    assert brief(taken)[1:] == ["x/real = mul(x/real:1, c)", "y = add(x/real, z) |> sub(x/real:1)"]


def test_shapes_as_the_caller_and_as_the_model_sees_them() -> None:
    pictures = {"x": Pixels(order="rgba"), "z": Pixels(order="bgr"), "other": Pixels()}
    given = {"x": (2, 5, 7, 4), "z": (2, 5, 7, 3), "n": (4, 4, 4, 4)}
    found = {"x": (2, 5, 7, 3), "z": (2, 5, 7, 3), "n": (4, 4, 4, 4)}
    assert real_shapes(given, pictures) == found
    assert byte_sizes((-1, -1, -1, 3), pictures["x"]) == (-1, -1, -1, 4)
    assert byte_sizes((), pictures["x"]) == ()
    assert byte_sizes((-1, 3), None) == (-1, 3)
    with pytest.raises(InputError, match=r"its pixels are rgba: \[batch, height, width, 4\]"):
        real_shapes({"x": (2, 5, 7, 3)}, pictures)


def two_inputs(
    first: tuple[int, ...], second: tuple[int, ...], dtype: str = "float32", **grid: list[float]
) -> bytes:
    """Each input negated, the first one of any type."""
    return write(
        [
            Tensor("image", first, dtype, **grid),
            Tensor("other", second),
            Tensor("y", first, dtype, **grid),
            Tensor("z", second),
        ],
        [
            Operator("RELU", ["image"], ["y"]),
            Operator("NEG", ["other"], ["z"]),
        ],
        inputs=["image", "other"],
        outputs=["y", "z"],
    )


def test_pixels_alone_belong_to_the_only_picture() -> None:
    model = read_model(two_inputs((1, 5, 7, 3), (1, 5, 7, 1)))
    for order, name in (("rgba", "image"), ("gray", "other")):
        pixels = Pixels(order=order)
        assert find_pictures(model, pixels) == {name: pixels}
    assert find_pictures(model, None) == {}


@pytest.mark.parametrize(
    ("shapes", "given", "part"),
    [
        (((1, 5, 7, 3), (1, 9, 9, 3)), Pixels(), "takes 2 pictures to go with them"),
        (((1, 5, 7, 2), (3, 3)), Pixels(), "takes no picture to go with them"),
        (((1, 5, 7, 3), (3, 3)), {"imag": Pixels()}, "did you mean 'image'"),
        (((1, 5, 7, 3), (3, 3)), {"other": Pixels()}, r"it is f32\[3,3\], and a picture is"),
        (((1, 5, 7, 2), (3, 3)), {"image": Pixels()}, "it has 2 channels, and .* make 3"),
        (((1, 5, 7, 3), (3, 3)), {"image": Pixels(order="gray")}, "order='gray' for one channel"),
    ],
)
def test_what_cannot_come_as_pixels(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], given: object, part: str
) -> None:
    with pytest.raises(InputError, match=part):
        find_pictures(read_model(two_inputs(*shapes)), given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "fix"),
    [("uint8", "pass the bytes as they are"), ("int8", r"\(bytes - 128\).astype\(np.int8\)")],
)
def test_a_quantised_input_takes_bytes_already(dtype: str, fix: str) -> None:
    content = two_inputs((1, 5, 7, 3), (3, 3), dtype, scale=[0.5], zero_point=[3])
    with pytest.raises(InputError, match=r"each for \(number - 3\) \* 0.5") as caught:
        find_pictures(read_model(content), {"image": Pixels()})
    assert re.search(fix, caught.value.fix)
