"""The options of a command's help, in groups. One table says to which group an option belongs."""

from __future__ import annotations

from collections.abc import Mapping

import click

MIN_GROUPED_OPTIONS = 8  # shorter lists are read faster without headings
OTHER = "Other"

# Groups in the order of the help. Each option has an example of its value, or "" where its help is
# clear without one. An option with another meaning in one command is listed with that command too.
GROUPS: Mapping[str, Mapping[str, str]] = {
    "Model": {
        "--model": "encoder",
        "--signature": "",
        "--shape": "",
        "--trust": "",
        "optimize --inputs": "image",
        "optimize --outputs": "boxes,scores",
        "--fold-batch": "",
        "--stage": "",
    },
    "Device": {
        "--device": "nvidia",
        "--adb": "",
        "--ssh": "",
        "--units": "",
        "--everywhere": "",
        "--web": "",
        "--target": "",
    },
    "Precision and placement": {
        "--precision": "",
        "--placement": "",
        "--targets": "",
        "--isolate": "",
        "--threads": "",
        "--tune": "",
        "--deadline": "",
    },
    "Quantization": {
        "--quantize": "",
        "--calibrate": "photos/",
        "--ranges": "",
        "--max-loss": "0.01",
        "--max-changed": "",
        "--strict": "",
        "--keep": "conv_1,conv_2",
    },
    "Inputs": {
        "--input": "photo.jpg",
        "--inputs": "photos/",
        "--samples": "photos/",
        "--rate": "16000",
        "--picture": "photo.jpg",
        "--seed": "",
    },
    "Pictures": {
        "--pixels": "",
        "--range": "-1,1",
        "--mean": "123.7,116.3,103.5",
        "--std": "58.4,57.1,57.4",
        "--fit": "",
        "--resize": "",
        "--frame-size": "480,640",
        "--crop": "0,80,480,480",
        "--fill": "",
        "--into": "640,640",
        "--matrix": "",
        "--model-order": "",
    },
    "Accuracy": {
        "--dataset": "photos/",
        "--images": "",
        "--float-model": "",
        "verify --limit": "500",
    },
    "Results": {
        "--postprocess": "",
        "--task": "",
        "--labels": "names.txt",
        "--top": "",
        "--score": "0.4",
        "--draw": "answer.png",
    },
    "Measurement": {
        "--runs": "",
        "--seconds": "",
        "--streams": "",
        "--compare": "",
        "report --compare": "before.json",
        "--no-compare": "",
        "--profile": "",
        "--candidates": "",
        "--verify": "",
        "--layers": "",
        "--times": "",
    },
    "Output": {
        "--output": "",
        "--add": "",
        "--include-model": "",
        "--export": "",
        "--full-names": "",
        "--list-ops": "",
        "--print-model-ops": "",
        "--trace": "run.json",
        "--json": "",
    },
    OTHER: {
        "--verbose": "",
        "--help": "",
        "--dev": "",
        "--folder": "",
        "--key": "",
        "--limit": "",
        "--line": "",
        "--new-key": "",
        "--port": "",
        "--sbom": "",
        "--yes": "",
    },
}


def find_option(command: str | None, option: click.Option) -> tuple[str, str] | None:
    """Return the group and the example of an option; None if the table does not have it."""
    flag = next((one for one in option.opts if one.startswith("--")), option.opts[0])
    for key in (f"{command} {flag}", flag):
        for group, options in GROUPS.items():
            if key in options:
                return group, options[key]
    return None


def write_options(context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a context's command, in groups if there are many."""
    groups: dict[str, list[tuple[str, str]]] = {name: [] for name in GROUPS}
    options = (one for one in context.command.get_params(context) if isinstance(one, click.Option))
    for option in options:
        record = option.get_help_record(context)
        if record is not None:
            group, example = find_option(context.info_name, option) or (OTHER, "")
            flags, text = record
            groups[group].append((flags, f"{text}  [example: {example}]" if example else text))
    rows = [row for group in groups.values() for row in group]
    if len(rows) < MIN_GROUPED_OPTIONS:
        groups = {"Options": rows}
    for name, group_rows in groups.items():
        if group_rows:
            with formatter.section(name):
                formatter.write_dl(group_rows)
