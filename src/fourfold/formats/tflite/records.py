"""Records of a TFLite file, complete and not yet interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.types import DType, Shape


@dataclass(frozen=True)
class QuantizationRecord:
    """Scales and zero points along `axis`; `details` is the number of a special scheme or 0."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()
    details: int = 0


@dataclass(frozen=True)
class DimensionRecord:
    """One level of a sparse tensor: dense with a size, or compressed with segments and indices."""

    dense_size: int
    segments: np.ndarray | None = None
    indices: np.ndarray | None = None


@dataclass(frozen=True)
class SparsityRecord:
    traversal_order: tuple[int, ...]
    block_map: tuple[int, ...]
    dimensions: tuple[DimensionRecord, ...]


@dataclass(frozen=True)
class TensorRecord:
    """One tensor; `signature` has -1 for dynamic sizes, `dtype` is None for an unknown type."""

    name: str
    dtype: DType | None
    shape: Shape
    buffer: int = 0
    signature: Shape | None = None
    quantization: QuantizationRecord | None = None
    sparsity: SparsityRecord | None = None
    variable: bool = False
    has_rank: bool = False
    type_code: int = 0
    variants: int = 0
    has_text_name: bool = True  # False if the name in the file is not UTF-8

    @property
    def quantized(self) -> bool:
        """Return True if its integers represent real numbers."""
        record = self.quantization
        small = self.dtype in (DType.I8, DType.U8, DType.I16, DType.I4)
        return small and record is not None and bool(record.scale or record.details)


@dataclass(frozen=True)
class OperatorRecord:
    """One operator; -1 stands for an omitted input."""

    op: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: object | None = None
    custom_code: str = ""
    custom_options: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint8))
    intermediates: tuple[int, ...] = ()
    mutating: tuple[bool, ...] = ()
    options_code: int = 0  # number of the options in the file's first union; 0: none there

    @property
    def title(self) -> str:
        """Return the operator's full name: 'ADD', 'CUSTOM Convolution2DTransposeBias'."""
        return f"{self.op} {self.custom_code}" if self.custom_code else self.op


@dataclass(frozen=True)
class SubgraphRecord:
    name: str
    tensors: tuple[TensorRecord, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[OperatorRecord, ...]


@dataclass(frozen=True)
class SignatureRecord:
    key: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    subgraph: int


@dataclass(frozen=True)
class FileRecord:
    version: int
    description: str
    subgraphs: tuple[SubgraphRecord, ...]
    buffers: tuple[np.ndarray, ...]
    signatures: tuple[SignatureRecord, ...] = ()
    metadata: Mapping[str, np.ndarray] = field(default_factory=dict)
    size: int = 0
