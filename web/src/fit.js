// Pictures: supported sources, the layout of picture inputs, and how a frame fits the model's picture.

import { FourfoldError } from './errors.js';

/** @import { Port } from './plan.js' */
/** @typedef {ImageData | ImageBitmap | HTMLImageElement | HTMLCanvasElement | OffscreenCanvas | HTMLVideoElement | VideoFrame} Picture */
/**
 * How a picture is converted: fitted, then (byte - mean) / std for each channel.
 * @typedef {object} PictureOptions
 * @property {number | number[]} [mean]
 * @property {number | number[]} [std]
 * @property {'stretch' | 'letterbox' | 'crop'} [fit]
 * @property {number | number[]} [fill] color of letterbox bars
 * @property {'rgb' | 'bgr'} [order]
 * @property {boolean} [mirror]
 */
/** @typedef {{ width: number, height: number, channels: number, planar: boolean }} Layout */
/** The box of a frame is scaled to `size` pixels at `offset` of the model's picture; x before y. @typedef {{ box: [number, number, number, number], size: [number, number], offset: [number, number], target: [number, number], mirror: boolean }} Fit */

const CLASSES = ['ImageData', 'ImageBitmap', 'HTMLImageElement', 'HTMLCanvasElement', 'OffscreenCanvas', 'HTMLVideoElement', 'VideoFrame'];

/**
 * @param {any} value
 * @returns {value is Picture}
 */
export const isPicture = (value) => CLASSES.some((name) => name in globalThis && value instanceof (/** @type {any} */ (globalThis)[name]));

/**
 * @param {any} picture
 * @returns {[number, number]}
 */
export function pictureSize(picture) {
  const width = picture.videoWidth ?? picture.displayWidth ?? picture.naturalWidth ?? picture.width;
  const height = picture.videoHeight ?? picture.displayHeight ?? picture.naturalHeight ?? picture.height;
  if (width && height) return [width, height];
  throw new FourfoldError('the picture has no size', 'it is not loaded yet', "wait for image.decode(), or for 'loadeddata' of a video");
}

/**
 * Returns how an input stores a picture. Throws if it is not a picture input.
 * @param {Port} port
 * @returns {Layout}
 */
export function pictureLayout({ name, shape, type }) {
  const [batch, ...sides] = shape.length === 3 ? [1, ...shape] : shape;
  if (batch === 1 && sides.length === 3 && ['f32', 'f16', 'u8', 'i8'].includes(type)) {
    if ([1, 3, 4].includes(sides[2])) return { height: sides[0], width: sides[1], channels: sides[2], planar: false };
    if ([1, 3].includes(sides[0])) return { channels: sides[0], height: sides[1], width: sides[2], planar: true };
  }
  throw new FourfoldError(`the input '${name}' takes no picture`, `it takes ${type} [${shape}]`, 'pass a typed array');
}

/**
 * @param {[number, number]} frame width and height
 * @param {Layout} layout
 * @param {PictureOptions} how
 * @returns {Fit}
 */
export function fitPicture([width, height], layout, { fit = 'stretch', mirror = false }) {
  const target = pair([layout.width, layout.height]);
  const [along, down] = [target[0] / width, target[1] / height];
  /** @type {Fit} */
  const found = { box: [0, 0, width, height], size: target, offset: [0, 0], target, mirror };
  if (fit === 'letterbox') {
    const scale = Math.min(along, down);
    found.size = pair([width, height].map((side, at) => Math.min(target[at], Math.max(1, Math.round(side * scale)))));
    found.offset = pair(found.size.map((side, at) => Math.floor((target[at] - side) / 2)));
  } else if (fit === 'crop') {
    const scale = Math.max(along, down);
    const [wide, tall] = target.map((side, at) => Math.min([width, height][at], Math.max(1, Math.round(side / scale))));
    found.box = [Math.floor((width - wide) / 2), Math.floor((height - tall) / 2), wide, tall];
  }
  return found;
}

/**
 * @param {number[]} numbers
 * @returns {[number, number]}
 */
const pair = ([one, other]) => [one, other];

/**
 * Converts pixel coordinates of the model's picture to coordinates of the frame.
 * @param {Fit} fit
 * @param {number} x
 * @param {number} y
 * @returns {[number, number]}
 */
export function toFrame({ box, size, offset, mirror }, x, y) {
  const along = (x - offset[0]) / size[0];
  return [box[0] + (mirror ? 1 - along : along) * box[2], box[1] + ((y - offset[1]) / size[1]) * box[3]];
}

/**
 * Returns scale and shift per channel, from a byte to the number that the input stores.
 * @param {Port} port
 * @param {PictureOptions} how
 */
export function pictureScaling({ type, quantization }, { mean, std }) {
  const bytes = type === 'u8' || type === 'i8';
  const unsaid = mean === undefined && std === undefined;
  if (bytes && (unsaid || !quantization)) return { scale: four(1), shift: four(type === 'i8' ? -128 : 0) };
  const [means, deviations] = [four(unsaid ? 0 : (mean ?? 0)), four(unsaid ? 255 : (std ?? 1))];
  const step = bytes && quantization ? quantization.scale[0] : 1;
  const zero = bytes && quantization ? quantization.zeroPoint[0] : 0;
  const scale = deviations.map((one) => 1 / (one * step));
  return { scale, shift: scale.map((one, at) => zero - means[at] * one) };
}

/**
 * Returns one number for each of four channels.
 * @param {number | number[]} value
 */
export function four(value) {
  const given = Array.isArray(value) ? value : [value];
  return [0, 1, 2, 3].map((at) => given[Math.min(at, given.length - 1)]);
}
