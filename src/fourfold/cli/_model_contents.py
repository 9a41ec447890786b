"""Contents of a model's file for `fourfold inspect`: inputs, outputs, operators, metadata."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fourfold.cli._metadata import about_as_data, show_about
from fourfold.cli._show import byte_count, shape_text, show_line, show_table
from fourfold.compiler.convert import make_readable_with_config
from fourfold.config import Config
from fourfold.formats import Model, ReadOptions, model_files, read_model
from fourfold.support.display import count_text


def read_contents(
    path: str, shapes: Mapping[str, tuple[int, ...]], config: Config
) -> tuple[Model, dict[str, Any]]:
    """Read a model, and return it with its contents as plain data."""
    content, origin = make_readable_with_config(config, path)
    model = read_model(content, ReadOptions(shapes=dict(shapes), keep_unsupported=True))
    graph = model.main
    open_sizes = dict(zip(graph.arguments, model.open_sizes, strict=False))
    inputs = [
        {**_port(model, value, name), "open": list(open_sizes.get(value, ()))}
        for value, name in zip(graph.arguments, model.input_names, strict=True)
    ]
    pairs = zip(graph.results, model.output_names, strict=True)
    weights = sum(array.nbytes for array in graph.constants.values())
    return model, {
        "bytes": sum(os.path.getsize(file) for file in model_files(path)),
        "format": model.format,
        "origin": origin,
        "inputs": inputs,
        "outputs": [_port(model, value, name) for value, name in pairs],
        "weights": weights,
        "nodes": len(graph.nodes),
        "ops": dict(Counter(node.op for node in graph.nodes).most_common()),
        **about_as_data(model.metadata, model.signatures),
    }


def _port(model: Model, value: str, name: str) -> dict[str, Any]:
    type = model.main.types[value]
    return {"name": name, "shape": list(type.shape), "dtype": type.dtype.value}


def show_contents(path: str, model: Model, contents: Mapping[str, Any]) -> None:
    """Print the contents of a model as tables."""
    size = f"{byte_count(contents['bytes'])}, {byte_count(contents['weights'])} of constants"
    show_line(f"{path}: {contents['format']}, {size}, {count_text(contents['nodes'], 'node')}")
    if contents["origin"]:
        show_line(contents["origin"])
    rows = [
        (
            end,
            port["name"],
            _sizes(port.get("open", ())) or shape_text(port["shape"]),
            port["dtype"],
        )
        for end in ("input", "output")
        for port in contents[f"{end}s"]
    ]
    show_table("inputs and outputs", ("", "name", ">shape", "type"), rows)
    ops = [(count, op) for op, count in contents["ops"].items()]
    show_table("ops of its graph", (">nodes", "op"), ops)
    show_about(model.metadata, model.signatures)


def _sizes(sizes: Sequence[int]) -> str:
    """Return the shape of an input with open sizes as text."""
    return "×".join("?" if size < 0 else str(size) for size in sizes)
