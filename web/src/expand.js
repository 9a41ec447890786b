// Constants that a file stores apart as weights, expanded into the block that kernels read.

/**
 * A constant that is stored apart.
 * @typedef {object} Piece
 * @property {number} start its first byte in the block
 * @property {string} type type of its elements
 * @property {number[]} shape of the array
 * @property {number[][]} factors for each axis; their product is its padded size
 * @property {number[]} order of all factors in memory
 * @property {number} weights number of the array's weights
 * @property {string} stored type of these weights
 * @property {{ zero: number, scale: number | null, axis: number | null } | undefined} grid how bytes stand for numbers
 */

const SIZES = /** @type {Record<string, number>} */ ({
  f16: 2, f32: 4, f64: 8, i8: 1, i16: 2, i32: 4, i64: 8, u8: 1, u16: 2, u32: 4, u64: 8, bool: 1, c64: 8, c128: 16,
});
const MAX_AXES = 4;
const MAX_DIMENSIONS = 8;

/**
 * Returns the numbers of all weights that pieces need.
 * @param {any[]} pieces
 * @returns {number[]}
 */
export function weightsOf(pieces) {
  const numbers = pieces.flatMap(([, , , , , weights, , , scale, axis]) => (axis == null ? [weights] : [weights, scale]));
  return [...new Set(numbers)];
}

/**
 * Expands a block of constants.
 * @param {number} size
 * @param {any[]} records the pieces that are stored apart, in order
 * @param {Uint8Array} remaining the bytes outside the pieces
 * @param {Map<number, Uint8Array>} weights by number
 * @returns {Uint8Array}
 */
export function expandConstants(size, records, remaining, weights) {
  const pieces = records.map(readPiece);
  const outside = pieces.reduce((left, piece) => left - pieceBytes(piece), size);
  check(outside === remaining.length, 'the pieces have the wrong size');
  const block = new Uint8Array(size);
  let cursor = 0;
  let used = 0;
  for (const piece of pieces) {
    const gap = piece.start - cursor;
    check(gap >= 0 && piece.start % SIZES[piece.type] === 0, 'the pieces overlap');
    block.set(remaining.subarray(used, used + gap), cursor);
    used += gap;
    cursor = piece.start + pieceBytes(piece);
    check(cursor <= size, 'a piece exceeds the block');
    expandPiece(piece, weights, block.subarray(piece.start, cursor));
  }
  block.set(remaining.subarray(used), cursor);
  return block;
}

/**
 * @param {any[]} record
 * @returns {Piece}
 */
function readPiece([start, type, shape, factors, order, weights, stored, zero, scale, axis]) {
  const sizes = factors.flat();
  check(start >= 0 && SIZES[type] && SIZES[stored], 'a piece has an unknown type');
  check([...shape, ...sizes].every((one) => Number.isSafeInteger(one) && one > 0), 'a layout has sizes that are not positive');
  check(shape.length >= 1 && shape.length <= MAX_AXES && shape.length === factors.length, 'a layout has the wrong number of axes');
  check(sizes.length <= MAX_DIMENSIONS && order.length === sizes.length, 'a layout has too many factors');
  check([...order].sort().every((one, at) => one === at), 'the order of a layout is invalid');
  check(shape.every((/** @type {number} */ one, /** @type {number} */ at) => one <= product(factors[at])), 'a layout is smaller than its array');
  const grid = zero === undefined ? undefined : { zero, scale, axis };
  return { start, type, shape, factors, order, weights, stored, grid };
}

/** @param {number[]} sizes */
const product = (sizes) => sizes.reduce((total, size) => total * size, 1);

/** @param {Piece} piece */
const pieceBytes = ({ type, factors }) => product(factors.flat()) * SIZES[type];

/**
 * Returns for each index along each axis where it is in memory, in elements.
 * @param {Piece} piece
 * @returns {Uint32Array[]}
 */
function axisOffsets({ shape, factors, order }) {
  const sizes = factors.flat();
  const strides = new Array(sizes.length);
  order.reduceRight((stride, factor) => {
    strides[factor] = stride;
    return stride * sizes[factor];
  }, 1);
  let first = 0;
  return shape.map((length, axis) => {
    const own = strides.slice(first, (first += factors[axis].length));
    return Uint32Array.from({ length }, (_, index) =>
      factors[axis].reduceRight(
        ([rest, offset], size, at) => /** @type {[number, number]} */ ([Math.floor(rest / size), offset + (rest % size) * own[at]]),
        /** @type {[number, number]} */ ([index, 0]),
      )[1],
    );
  });
}

/**
 * @param {Piece} piece
 * @param {Map<number, Uint8Array>} weights
 * @param {Uint8Array} target
 */
function expandPiece(piece, weights, target) {
  const { shape, stored, grid } = piece;
  const source = findWeights(weights, piece.weights, product(shape) * SIZES[stored]);
  const offsets = axisOffsets(piece);
  while (offsets.length < MAX_AXES) offsets.unshift(new Uint32Array(1));
  const [first, second, third, last] = offsets;
  const write = rowWriter(piece, source, target, last, MAX_AXES - shape.length, grid && gridScales(piece, weights));
  let row = 0;
  for (let a = 0; a < first.length; a++) {
    for (let b = 0; b < second.length; b++) {
      for (let c = 0; c < third.length; c++) write(first[a] + second[b] + third[c], row++ * last.length, [a, b, c]);
    }
  }
}

/**
 * Returns the scales of a grid: one for each index along its axis, or a single one.
 * @param {Piece} piece
 * @param {Map<number, Uint8Array>} weights
 */
function gridScales({ type, shape, stored, grid }, weights) {
  const { zero, scale, axis } = /** @type {NonNullable<Piece['grid']>} */ (grid);
  check(stored === 'u8' && zero >= 0 && zero <= 255, 'the grid of weights is invalid');
  check(scale === null ? type === 'i8' || type === 'u8' : type === 'f32' || type === 'f16', 'a grid does not fit its type');
  if (scale === null) return undefined;
  if (axis === null) return Float32Array.of(scale);
  check(shape[axis], 'the axis of a grid is invalid');
  return new Float32Array(findWeights(weights, scale, 4 * shape[axis]).slice().buffer);
}

/**
 * Returns the function that writes a row along the last axis: its offset in the piece, its first element, and its indices.
 * @param {Piece} piece
 * @param {Uint8Array} source
 * @param {Uint8Array} target
 * @param {Uint32Array} offsets along the last axis
 * @param {number} missing number of leading axes that the array does not have
 * @param {Float32Array | undefined} scales
 * @returns {(base: number, from: number, at: number[]) => void}
 */
function rowWriter({ type, stored, grid }, source, target, offsets, missing, scales) {
  const count = offsets.length;
  if (grid && scales) {
    const { zero, axis } = grid;
    const numbers = type === 'f32' ? new Float32Array(target.buffer, target.byteOffset, target.length / 4) : undefined;
    const halves = numbers ? undefined : new Uint16Array(target.buffer, target.byteOffset, target.length / 2);
    const along = axis === null ? -1 : axis + missing;
    return (base, from, at) => {
      let scale = along >= 0 && along < MAX_AXES - 1 ? scales[at[along]] : scales[0];
      for (let i = 0; i < count; i++) {
        if (along === MAX_AXES - 1) scale = scales[i];
        const value = (source[from + i] - zero) * scale; // exact in fp64; storing rounds once
        if (numbers) numbers[base + offsets[i]] = value;
        else if (halves) halves[base + offsets[i]] = roundToHalf(Math.fround(value));
      }
    };
  }
  if (grid) {
    return (base, from) => {
      for (let i = 0; i < count; i++) target[base + offsets[i]] = source[from + i] - grid.zero;
    };
  }
  if (stored === 'f16' && type === 'f32') {
    const bits = new Uint32Array(target.buffer, target.byteOffset, target.length / 4);
    return (base, from) => {
      for (let i = 0; i < count; i++) bits[base + offsets[i]] = widenHalf(source[2 * (from + i)] | (source[2 * (from + i) + 1] << 8));
    };
  }
  check(stored === type, 'weights have another type than their piece');
  const size = SIZES[type];
  return (base, from) => {
    for (let i = 0; i < count; i++) {
      const to = (base + offsets[i]) * size;
      for (let byte = 0; byte < size; byte++) target[to + byte] = source[(from + i) * size + byte];
    }
  };
}

/**
 * @param {Map<number, Uint8Array>} weights
 * @param {number} number
 * @param {number} size
 */
function findWeights(weights, number, size) {
  const found = weights.get(number);
  check(found?.length === size, 'weights have the wrong size');
  return /** @type {Uint8Array} */ (found);
}

/**
 * Returns the bits of fp32 with the value of finite fp16.
 * @param {number} half
 */
export function widenHalf(half) {
  const sign = (half & 0x8000) << 16;
  let exponent = (half >> 10) & 31;
  let bits = half & 1023;
  if (exponent === 0) {
    if (bits === 0) return sign >>> 0;
    for (exponent = 1; !(bits & 1024); exponent--) bits <<= 1;
    bits &= 1023;
  }
  return (sign | ((exponent + 112) << 23) | (bits << 13)) >>> 0;
}

const NUMBER = new Float32Array(1);
const BITS = new Uint32Array(NUMBER.buffer);

/**
 * Returns the bits of the fp16 nearest to a finite fp32 number, the even one of two.
 * @param {number} value
 */
export function roundToHalf(value) {
  NUMBER[0] = value;
  const sign = (BITS[0] >>> 16) & 0x8000;
  let bits = BITS[0] & 0x7fffffff;
  let shift = 13;
  if (bits >= 0x477ff000) return sign | 0x7c00; // rounds to infinity
  if (bits < 0x38800000) {
    const exponent = bits >>> 23; // the result is subnormal
    if (exponent < 102) return sign;
    shift = 126 - exponent;
    bits = (bits & 0x7fffff) | 0x800000;
  } else {
    bits -= 112 << 23;
  }
  const half = bits >>> shift;
  const rest = bits & ((1 << shift) - 1);
  const middle = 1 << (shift - 1);
  return sign | (rest > middle || (rest === middle && half & 1) ? half + 1 : half);
}

/**
 * @param {unknown} holds
 * @param {string} otherwise
 */
function check(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}
