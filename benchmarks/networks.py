"""Writes full-width MobileNet v1, v2 and ResNet-50 as .tflite files with random weights.

The same name and batch always give the same bytes. The weights keep activations near one, so that
fp16 and the rounding of other engines do not distort the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import flatbuffers
import numpy as np

CLASSES, SIDE = 1000, 224
FLOAT, INT = 0, 2  # codes of the file format, like all constants below
NO_ACTIVATION, RELU, RELU6 = 0, 1, 3
SAME, VALID = 0, 1
ADD, CONV, DEPTHWISE, CONNECTED, MAX_POOL = 0, 3, 4, 9, 17
RESHAPE, SOFTMAX, PAD, MEAN = 22, 25, 34, 40
OPTIONS = {CONV: 1, DEPTHWISE: 2, MAX_POOL: 5, CONNECTED: 8, SOFTMAX: 9, ADD: 11, RESHAPE: 17}
OPTIONS |= {PAD: 22, MEAN: 27}


@dataclass(frozen=True)
class Byte:
    """An option that is stored as one byte; integers are stored as four."""

    value: int


Option = Byte | int | float | bool


@dataclass
class Network:
    """A network under construction: each method adds an operator and returns its result."""

    batch: int
    random: np.random.Generator
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    data: list[np.ndarray | None] = field(default_factory=list)
    operators: list[tuple[int, list[int], int, dict[int, Option]]] = field(default_factory=list)

    def value(self, shape: Sequence[int], data: np.ndarray | None = None) -> int:
        self.shapes.append(tuple(shape))
        self.data.append(data)
        return len(self.shapes) - 1

    def constant(self, array: np.ndarray) -> int:
        return self.value(array.shape, array)

    def add_operator(
        self, code: int, inputs: list[int], shape: Sequence[int], options: dict[int, Option]
    ) -> int:
        result = self.value(shape)
        self.operators.append((code, inputs, result, options))
        return result

    def weights(self, shape: Sequence[int], fan: int, gain: float) -> int:
        drawn = self.random.standard_normal(shape, dtype=np.float32)
        return self.constant(drawn * np.float32(gain / fan**0.5))

    def bias(self, count: int) -> int:
        return self.constant(self.random.standard_normal(count, dtype=np.float32) * np.float32(0.1))

    def conv(
        self, x: int, channels: int, size: int = 1, stride: int = 1, after: int = NO_ACTIVATION
    ) -> int:
        """Add a convolution; without an activation its weights are smaller, for a later sum."""
        height, width, given = self.shapes[x][1:]
        gain = 0.5 if after == NO_ACTIVATION else 1.4
        weights = self.weights((channels, size, size, given), size * size * given, gain)
        padding = VALID if self.is_padded(x) else SAME
        lost = size - 1 if padding == VALID else 0
        shape = [self.batch, *(-(-(side - lost) // stride) for side in (height, width)), channels]
        options = {0: Byte(padding), 1: stride, 2: stride, 3: Byte(after)}
        return self.add_operator(CONV, [x, weights, self.bias(channels)], shape, options)

    def depthwise(self, x: int, stride: int) -> int:
        _, height, width, channels = self.shapes[x]
        weights = self.weights((1, 3, 3, channels), 9, 1.4)
        shape = (self.batch, -(-height // stride), -(-width // stride), channels)
        options = {0: Byte(SAME), 1: stride, 2: stride, 3: 1, 4: Byte(RELU6)}
        return self.add_operator(DEPTHWISE, [x, weights, self.bias(channels)], shape, options)

    def pad(self, x: int, by: int) -> int:
        batch, height, width, channels = self.shapes[x]
        around = self.constant(np.array([[0, 0], [by, by], [by, by], [0, 0]], np.int32))
        return self.add_operator(
            PAD, [x, around], (batch, height + 2 * by, width + 2 * by, channels), {}
        )

    def is_padded(self, x: int) -> bool:
        return any(result == x and code == PAD for code, _, result, _ in self.operators)

    def max_pool(self, x: int) -> int:
        """Add a 3 x 3 pooling with stride 2 of a padded value."""
        _, height, width, channels = self.shapes[x]
        options = {0: Byte(VALID), 1: 2, 2: 2, 3: 3, 4: 3, 5: Byte(NO_ACTIVATION)}
        shape = (self.batch, (height - 1) // 2, (width - 1) // 2, channels)
        return self.add_operator(MAX_POOL, [x], shape, options)

    def add(self, a: int, b: int, after: int = NO_ACTIVATION) -> int:
        return self.add_operator(ADD, [a, b], self.shapes[a], {0: Byte(after)})

    def mean(self, x: int) -> int:
        axes = self.constant(np.array([1, 2], np.int32))
        return self.add_operator(MEAN, [x, axes], (self.batch, 1, 1, self.shapes[x][3]), {0: True})

    def flatten(self, x: int) -> int:
        shape = (self.batch, self.shapes[x][-1])
        target = self.constant(np.array([-1, shape[1]], np.int32))
        return self.add_operator(RESHAPE, [x, target], shape, {})

    def connect(self, x: int, outputs: int) -> int:
        channels = self.shapes[x][-1]
        weights = self.weights((outputs, channels), channels, 1.0)
        operands = [x, weights, self.bias(outputs)]
        return self.add_operator(CONNECTED, operands, (self.batch, outputs), {0: Byte(0)})

    def softmax(self, x: int) -> int:
        return self.add_operator(SOFTMAX, [x], self.shapes[x], {0: 1.0})


def mobilenet_v1(net: Network, x: int) -> int:
    x = net.conv(x, 32, 3, 2, RELU6)
    strides = {2: 2, 4: 2, 6: 2, 12: 2}
    for number, channels in enumerate((64, 128, 128, 256, 256, *[512] * 6, 1024, 1024), start=1):
        x = net.conv(net.depthwise(x, strides.get(number, 1)), channels, after=RELU6)
    return net.softmax(net.flatten(net.conv(net.mean(x), CLASSES)))


def mobilenet_v2(net: Network, x: int) -> int:
    x = net.conv(x, 32, 3, 2, RELU6)
    blocks = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))
    for expansion, channels, count, first in (*blocks, (6, 160, 3, 2), (6, 320, 1, 1)):
        for stride in (first, *[1] * (count - 1)):
            before, given = x, net.shapes[x][3]
            if expansion > 1:
                x = net.conv(x, expansion * given, after=RELU6)
            x = net.conv(net.depthwise(x, stride), channels)
            x = net.add(before, x) if stride == 1 and given == channels else x
    x = net.mean(net.conv(x, 1280, after=RELU6))
    return net.softmax(net.connect(net.flatten(x), CLASSES))


def resnet50(net: Network, x: int) -> int:
    x = net.conv(net.pad(x, 3), 64, 7, 2, RELU)
    x = net.max_pool(net.pad(x, 1))
    for channels, count, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            stride = first if number == 0 else 1
            short = net.conv(x, 4 * channels, 1, stride) if number == 0 else x
            x = net.conv(net.conv(x, channels, 1, stride, RELU), channels, 3, 1, RELU)
            x = net.add(short, net.conv(x, 4 * channels), RELU)
    return net.softmax(net.connect(net.flatten(net.mean(x)), CLASSES))


NETWORKS: dict[str, Callable[[Network, int], int]] = {
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "resnet50": resnet50,
}


def network_file(name: str, folder: Path) -> Path:
    """Return the file of a network; writes it if it does not exist."""
    path = folder / f"{name}.tflite"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".part")
        aside.write_bytes(network_bytes(name))
        aside.replace(path)
    return path


def network_bytes(name: str, batch: int = 1) -> bytes:
    net = Network(batch, np.random.default_rng(0))
    x = net.value((batch, SIDE, SIDE, 3))
    return _write(net, x, NETWORKS[name](net, x))


def _write(net: Network, x: int, y: int) -> bytes:
    builder = flatbuffers.Builder(1 << 20)
    codes = list(dict.fromkeys(code for code, *_ in net.operators))
    buffers, tensors = [_table(builder, {})], []
    for number, (shape, data) in enumerate(zip(net.shapes, net.data, strict=True)):
        if data is not None:
            buffers.append(_table(builder, {0: _block(builder, data)}))
        kind = INT if data is not None and data.dtype == np.int32 else FLOAT
        buffer = len(buffers) - 1 if data is not None else 0
        name = builder.CreateString(f"value_{number}")
        offsets = {0: _numbers(builder, shape), 3: name}
        tensors.append(_table(builder, offsets, {1: Byte(kind), 2: buffer}))
    operators = [_operator(builder, codes, one) for one in net.operators]
    graph = _table(
        builder,
        {
            0: _references(builder, tensors),
            1: _numbers(builder, [x]),
            2: _numbers(builder, [y]),
            3: _references(builder, operators),
        },
    )
    kinds = [_table(builder, {}, {0: Byte(code), 3: code}) for code in codes]
    parts = {
        1: _references(builder, kinds),
        2: _references(builder, [graph]),
        4: _references(builder, buffers),
    }
    builder.Finish(_table(builder, parts, {0: 3}), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _operator(
    builder: flatbuffers.Builder,
    codes: list[int],
    operator: tuple[int, list[int], int, dict[int, Option]],
) -> int:
    code, inputs, result, options = operator
    offsets = {
        1: _numbers(builder, inputs),
        2: _numbers(builder, [result]),
        4: _table(builder, {}, options),
    }
    return _table(builder, offsets, {0: codes.index(code), 3: Byte(OPTIONS[code])})


def _table(
    builder: flatbuffers.Builder, offsets: dict[int, int], options: dict[int, Option] | None = None
) -> int:
    """Write a FlatBuffers table from offsets and scalars by field number."""
    builder.StartObject(16)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    for slot, option in (options or {}).items():
        if isinstance(option, Byte):
            builder.PrependUint8Slot(slot, option.value, 0)
        elif isinstance(option, bool):
            builder.PrependBoolSlot(slot, option, False)
        elif isinstance(option, float):
            builder.PrependFloat32Slot(slot, option, 0.0)
        else:
            builder.PrependInt32Slot(slot, option, 0)
    return int(builder.EndObject())


def _numbers(builder: flatbuffers.Builder, values: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.asarray(values, np.int32)))


def _references(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _block(builder: flatbuffers.Builder, array: np.ndarray) -> int:
    """Write the bytes of a constant, aligned because LiteRT reads them in place."""
    data = np.ascontiguousarray(array).tobytes()
    builder.StartVector(1, len(data), 16)
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    return int(builder.EndVector())
