// Tensors: their types, and conversion between stored and real numbers.

import { FourfoldError } from './errors.js';

/**
 * real = (stored - zeroPoint) * scale, for all elements or for each index along `axis`.
 * @typedef {{ scale: number[], zeroPoint: number[], axis: number | null }} Quantization
 */
/**
 * `limits` are the smallest and the largest valid number of an integer input, which may hold indices.
 * @typedef {{ name: string, type: string, shape: number[], elements: number, quantization?: Quantization, limits?: [number, number] }} Tensor
 */
/** @typedef {{ name: string, BYTES_PER_ELEMENT: number, new (count: number): NumberArray, new (buffer: ArrayBuffer, offset: number, count: number): NumberArray }} ArrayClass */
/** @typedef {Float32Array | Float64Array | Int8Array | Uint8Array | Uint8ClampedArray | Int16Array | Uint16Array | Int32Array | Uint32Array | BigInt64Array | BigUint64Array} NumberArray */

/** @type {Record<string, ArrayClass>} */
const ARRAYS = /** @type {any} */ ({
  f32: Float32Array,
  f64: Float64Array,
  f16: Uint16Array, // raw bits; callers get real numbers
  i8: Int8Array,
  u8: Uint8Array,
  bool: Uint8Array,
  i16: Int16Array,
  u16: Uint16Array,
  i32: Int32Array,
  u32: Uint32Array,
  i64: BigInt64Array,
  u64: BigUint64Array,
});
/** @type {Record<string, [number, number]>} */
const RANGES = { i8: [-128, 127], u8: [0, 255], i16: [-32768, 32767], u16: [0, 65535], i32: [-2147483648, 2147483647] };

/** @param {string} type */
export function arrayClass(type) {
  const found = ARRAYS[type];
  if (found) return found;
  throw new FourfoldError(`a tensor is of type ${type}`, 'the player has no array for it', 'run the model in Python');
}

/** @param {Tensor} tensor */
export const byteLength = (tensor) => tensor.elements * arrayClass(tensor.type).BYTES_PER_ELEMENT;

/**
 * Converts what a caller passed for an input to the bytes that a kernel reads.
 * @param {Tensor} tensor
 * @param {any} given
 * @param {boolean} real whether numbers for a quantized input are real
 * @returns {Uint8Array}
 */
export function encodeInput(tensor, given, real) {
  const array = Array.isArray(given) ? new Float64Array(given.flat(Infinity)) : given;
  if (!ArrayBuffer.isView(array) || array instanceof DataView) throw wrongInput(tensor, describe(given));
  const numbers = /** @type {NumberArray} */ (/** @type {unknown} */ (array));
  if (numbers.length !== tensor.elements) throw wrongInput(tensor, `${numbers.length} numbers`);
  const stored = storedNumbers(tensor, numbers, real, Array.isArray(given));
  checkLimits(tensor, stored);
  return new Uint8Array(/** @type {ArrayBuffer} */ (stored.buffer), stored.byteOffset, stored.byteLength);
}

/**
 * Refuses numbers that kernels cannot use: indices out of range, or integers of more than 32 bits.
 * @param {Tensor} tensor
 * @param {NumberArray} numbers
 */
function checkLimits({ name, limits }, numbers) {
  if (!limits) return;
  const [low, high] = limits;
  for (const number of numbers) {
    if (number >= low && number <= high) continue;
    const why = `the model takes numbers from ${low} to ${high}`;
    throw new FourfoldError(`input '${name}' contains ${number}`, why, 'check the numbers, which may be indices');
  }
}

/**
 * @param {Tensor} tensor
 * @param {NumberArray} numbers
 * @param {boolean} real
 * @param {boolean} plain whether they came as a plain array, which fits any type
 * @returns {NumberArray}
 */
function storedNumbers(tensor, numbers, real, plain) {
  const Stored = arrayClass(tensor.type);
  const floats = isFloat(numbers) || plain;
  if (tensor.quantization && floats && (real || plain)) return quantize(tensor, numbers);
  if (numbers instanceof /** @type {any} */ (Stored) && !plain) return numbers;
  if (tensor.type === 'f16' && floats) return Uint16Array.from(numbers, halfBits);
  const fits = plain || tensor.type === 'f32' || tensor.type === 'f64' || (Stored.BYTES_PER_ELEMENT === 1 && numbers.BYTES_PER_ELEMENT === 1);
  if (!fits) throw wrongInput(tensor, describe(numbers));
  const made = new Stored(numbers.length);
  const big = tensor.type.endsWith('64') && tensor.type !== 'f64';
  numbers.forEach((/** @type {any} */ value, /** @type {number} */ at) => (made[at] = big ? BigInt(value) : Number(value)));
  return made;
}

/** @param {any} numbers */
const isFloat = (numbers) => /^Float/.test(numbers.constructor.name);

/**
 * Converts an output to the array that a caller gets.
 * @param {Tensor} tensor
 * @param {ArrayBuffer} buffer
 * @param {number} offset
 * @param {boolean} real
 * @returns {NumberArray}
 */
export function decodeOutput(tensor, buffer, offset, real) {
  const stored = new (arrayClass(tensor.type))(buffer, offset, tensor.elements);
  if (tensor.type === 'f16') return Float32Array.from(/** @type {Uint16Array} */ (stored), halfValue);
  return real && tensor.quantization ? dequantize(tensor, stored) : stored;
}

/**
 * @param {Tensor} tensor
 * @param {NumberArray} numbers
 */
function quantize(tensor, numbers) {
  const [low, high] = RANGES[tensor.type] ?? RANGES.i32;
  const made = new (arrayClass(tensor.type))(tensor.elements);
  return eachStep(tensor, made, (at, scale, zero) => Math.min(high, Math.max(low, roundToEven(Number(numbers[at]) / scale) + zero)));
}

/**
 * @param {Tensor} tensor
 * @param {NumberArray} stored
 */
const dequantize = (tensor, stored) =>
  eachStep(tensor, new Float32Array(tensor.elements), (at, scale, zero) => (Number(stored[at]) - zero) * scale);

/**
 * Fills an array with a function of index, scale and zero point.
 * @param {Tensor} tensor
 * @param {NumberArray} made
 * @param {(at: number, scale: number, zero: number) => number} value
 */
function eachStep({ shape, quantization }, made, value) {
  const { scale, zeroPoint, axis } = /** @type {Quantization} */ (quantization);
  const place = axis === null ? 0 : axis < 0 ? shape.length + axis : axis;
  const inner = shape.slice(place + 1).reduce((product, side) => product * side, 1);
  for (let at = 0; at < made.length; at++) {
    const channel = axis === null ? 0 : Math.floor(at / inner) % shape[place];
    made[at] = value(at, scale[channel], zeroPoint[channel]);
  }
  return made;
}

/** @param {number} value */
export function roundToEven(value) {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}

const FLOAT = new Float32Array(1);
const BITS = new Uint32Array(FLOAT.buffer);

/**
 * Converts a number to fp16 bits, rounded to the nearest.
 * @param {number | bigint} value
 */
export function halfBits(value) {
  FLOAT[0] = Number(value);
  const bits = BITS[0];
  const sign = (bits >>> 16) & 0x8000;
  const size = bits & 0x7fffffff;
  if (size >= 0x7f800000) return sign | (size > 0x7f800000 ? 0x7e00 : 0x7c00);
  if (size >= 0x477ff000) return sign | 0x7c00; // rounds to more than the largest fp16 number
  if (size < 0x38800000) return sign | roundToEven(Math.abs(FLOAT[0]) * 2 ** 24); // subnormal
  const even = (size >>> 13) & 1;
  return sign | ((size - 0x38000000 + 0xfff + even) >>> 13);
}

/** @param {number} bits */
export function halfValue(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
}

/** @param {any} given */
const describe = (given) => given?.constructor?.name ?? String(given);

/**
 * @param {Tensor} tensor
 * @param {string} given
 */
function wrongInput(tensor, given) {
  const wanted = `${tensor.elements} numbers of ${tensor.type} [${tensor.shape}]`;
  const real = tensor.quantization ? ', or real numbers as a Float32Array with {real: true}' : '';
  const fix = `pass them as a ${arrayClass(tensor.type === 'f16' ? 'f32' : tensor.type).name}${real}`;
  return new FourfoldError(`the input '${tensor.name}' got ${given}`, `it takes ${wanted}`, fix);
}
