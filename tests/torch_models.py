"""Write small exported PyTorch programs, with PyTorch's results for random inputs.

Usage: python tests/torch_models.py FOLDER. Each model has a file NAME.npz next to it, with
'inputs/NAME' and 'outputs/NAME'.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Named(torch.nn.Module):
    """Two inputs, and a dict of results."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = torch.nn.Conv2d(3, 5, 3), torch.nn.Linear(5, 6)

    def forward(self, image: Any, scale: Any) -> Any:
        features = torch.relu(self.conv(image)).mean((2, 3))
        return {"scores": self.last(features) * scale, "features": features}


class Plain(torch.nn.Module):
    """One input and output, and layers that behave differently during training."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False)
        self.norm, self.drop = torch.nn.BatchNorm2d(4), torch.nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return self.drop(torch.nn.functional.gelu(self.norm(self.conv(x))))


def main() -> None:
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    image, scale = torch.rand(2, 3, 9, 7), torch.rand(1)
    write(folder / "named.pt2", Named(), {"image": image, "scale": scale})
    batch = torch.export.Dim("batch", min=1, max=64)
    write(folder / "open.pt2", Plain(), {"x": torch.rand(3, 3, 9, 7)}, ({0: batch},))


def write(path: Path, module: Any, inputs: dict[str, Any], open_sizes: Any = None) -> None:
    module.eval()
    arguments = tuple(inputs.values())
    program = torch.export.export(module, arguments, dynamic_shapes=open_sizes)
    torch.export.save(program, path)
    with torch.no_grad():
        result = module(*arguments)
    results = result if isinstance(result, dict) else {"": result}
    arrays = {f"inputs/{name}": one.numpy() for name, one in inputs.items()}
    arrays |= {f"outputs/{name}": one.numpy() for name, one in results.items()}
    np.savez(path.with_name(f"{path.name}.npz"), **arrays)


if __name__ == "__main__":
    main()
