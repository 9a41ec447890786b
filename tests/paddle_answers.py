"""Store Paddle Inference's results for the operator cases; needs paddlepaddle."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from paddle_cases import CASES, pir_model
from paddle_writer import write_model
from stored_answers import numbers, write_answers


def paddle_answer(
    inference: Any, program: Path, arrays: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Return the results of Paddle Inference for a model, without its optimization passes."""
    config = inference.Config(str(program), str(program.with_suffix(".pdiparams")))
    config.disable_gpu()
    config.disable_mkldnn()
    config.switch_ir_optim(False)
    config.disable_glog_info()
    predictor = inference.create_predictor(config)
    for name, array in arrays.items():
        handle = predictor.get_input_handle(name)
        handle.reshape(array.shape)
        handle.copy_from_cpu(array)
    predictor.run()
    names = predictor.get_output_names()
    return [np.asarray(predictor.get_output_handle(name).copy_to_cpu()) for name in names]


def pir_arrays() -> dict[str, np.ndarray]:
    return {"x": numbers((2, 3, 9, 11))}


def main() -> None:
    inference = import_module("paddle.inference")
    with tempfile.TemporaryDirectory() as folder:
        answers = {
            name: paddle_answer(inference, write_model(Path(folder), case.program), case.arrays)
            for name, case in CASES.items()
        }
        written = pir_model().write(Path(folder))
        answers["pir"] = paddle_answer(inference, written, pir_arrays())
    write_answers("paddle", answers)


if __name__ == "__main__":
    main()
