"""ncnn on Vulkan."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from peers import Missing, Opened, Task, planes
from peers.ncnn_file import ncnn_files

DRIVERS = ("/usr/local/nvidia/share/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d")


def open_peer(task: Task) -> Opened:
    find_driver()
    try:
        import ncnn
    except ImportError as error:
        raise Missing("ncnn is not installed") from error
    if ncnn.get_gpu_count() == 0:
        raise Missing("ncnn finds no Vulkan device")
    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    return open_net(ncnn, net, task, ncnn.get_gpu_info(0).device_name())


def find_driver() -> None:
    """A container may have NVIDIA's Vulkan driver where no loader looks for it."""
    found = [path for folder in DRIVERS for path in sorted(Path(folder).glob("nvidia_icd*.json"))]
    if found:
        os.environ.setdefault("VK_ICD_FILENAMES", str(found[0]))
        os.environ.setdefault("VK_DRIVER_FILES", str(found[0]))
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())


def open_net(ncnn: Any, net: Any, task: Task, name: str) -> Opened:
    net.opt.num_threads = task.threads
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
        setattr(net.opt, option, task.half)
    text, weights, inputs, outputs = ncnn_files(task.graph)
    with tempfile.TemporaryDirectory() as folder:
        parameters, model = Path(folder, "net.param"), Path(folder, "net.bin")
        parameters.write_text(text, encoding="ascii")
        model.write_bytes(weights)
        if net.load_param(str(parameters)) or net.load_model(str(model)):
            raise Missing("ncnn does not read the network")
    arrays = [planes(one)[0] for one in task.arrays()]
    shapes = [_planes(task.graph.types[output].shape) for output in task.graph.outputs]

    def run() -> list[np.ndarray]:
        extractor = net.create_extractor()
        for blob, array in zip(inputs, arrays, strict=True):
            extractor.input(blob, ncnn.Mat(array).clone())
        found = []
        for blob, shape in zip(outputs, shapes, strict=True):
            code, mat = extractor.extract(blob)
            if code:
                raise Missing(f"ncnn fails with {code}")
            found.append(np.array(mat, np.float32).reshape(shape))
        return found

    return Opened(run, planes=True, facts={"on": name})


def _planes(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[3], shape[1], shape[2]) if len(shape) == 4 else shape
