"""take_pixels: a node converts the bytes of an image for the readers of the input."""

from __future__ import annotations

from random_graphs import brief, build

from fourfold.compiler.rewrite import check, rewrite
from fourfold.compiler.rewrite.take_pixels import take_pixels
from fourfold.graph import Graph
from fourfold.processing.pixels import Pixels
from fourfold.types import TensorType

TEXT = """
    input x: f32[1,7,5,3]
    input z: f32[1,7,5,3]
    const c: f32[3]
    a = mul(x, c)
    y = add(a, z) |> sub(x)
    output y
"""


def test_a_node_converts_bytes_for_readers() -> None:
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


def test_new_value_has_unused_name() -> None:
    graph: Graph = build(TEXT.replace("a = ", "x/real = ").replace("add(a", "add(x/real"))
    taken = take_pixels(graph, {"x": Pixels()})
    check(taken)
    assert brief(taken)[1:] == ["x/real = mul(x/real:1, c)", "y = add(x/real, z) |> sub(x/real:1)"]


def reading(pixels: Pixels, type_: str) -> list[str]:
    """Return the ops between the bytes and the model, and the type of the bytes."""
    count = TensorType.parse(type_).elements
    graph = build(f"""
        input x: {type_}
        y = reshape(x; shape=({count},))
        output y
    """)
    taken = take_pixels(graph, {"x": pixels})
    check(taken)
    check(rewrite(taken, verify=True))
    return [str(taken.types["x"]), *(node.op for node in taken.nodes[:-1])]


def test_frames_use_their_own_op() -> None:
    sized = Pixels(order="nv12", size=(8, 10), fit="letterbox")
    assert reading(sized, "f32[2,7,5,3]") == ["u8[2,12,10]", "frame"]
    assert reading(Pixels(order="yuv420"), "f32[2,6,4,3]") == ["u8[2,9,4]", "frame"]
    assert reading(Pixels(size=(7, 5), fit="crop"), "f32[1,7,5,3]") == ["u8[1,7,5,3]", "picture"]
    assert reading(Pixels(crop=(1, 1, 7, 5)), "f32[1,7,5,3]") == ["u8[1,8,6,3]", "frame"]


def test_channels_before_rows() -> None:
    result = ["u8[1,7,5,4]", "picture", "transpose"]
    assert reading(Pixels(order="bgra"), "f32[1,3,7,5]") == result
    assert reading(Pixels(size=(9, 9)), "f32[1,3,7,5]") == ["u8[1,9,9,3]", "frame", "transpose"]
    # Three columns of three channels have their channels last.
    assert reading(Pixels(), "f32[1,3,7,3]") == ["u8[1,3,7,3]", "picture"]


def test_bytes_are_rounded() -> None:
    result = ["u8[1,9,9,3]", "frame", "round", "cast"]
    assert reading(Pixels(size=(9, 9)), "u8[1,7,5,3]") == result
    assert reading(Pixels(size=(9, 9)), "i8[1,3,7,5]") == [*result, "transpose"]
