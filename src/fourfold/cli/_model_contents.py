"""What a model's file holds, as 'fourfold inspect' shows it: inputs, outputs, ops, metadata."""

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


def read_contents(path: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Model, dict[str, Any]]:
    """A model, and what it holds as plain data."""
    content, origin = make_readable_with_config(Config.from_environment(), path)
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


def show_contents(path: str, model: Model, found: Mapping[str, Any]) -> None:
    size = f"{byte_count(found['bytes'])}, {byte_count(found['weights'])} of constants"
    show_line(f"{path}: {found['format']}, {size}, {count_text(found['nodes'], 'node')}")
    if found["origin"]:
        show_line(found["origin"])
    rows = [
        (
            end,
            port["name"],
            _sizes(port.get("open", ())) or shape_text(port["shape"]),
            port["dtype"],
        )
        for end in ("input", "output")
        for port in found[f"{end}s"]
    ]
    show_table("inputs and outputs", ("", "name", ">shape", "type"), rows)
    ops = [(count, op) for op, count in found["ops"].items()]
    show_table("ops that it becomes", (">nodes", "op"), ops)
    show_about(model.metadata, model.signatures)


def _sizes(sizes: Sequence[int]) -> str:
    """The shape of an input of which the file leaves sizes open."""
    return "×".join("?" if size < 0 else str(size) for size in sizes)
