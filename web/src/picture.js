// Pictures become inputs: on the GPU by a kernel that resizes and scales, else by a canvas and a loop.

import { FourfoldError } from './errors.js';
import { fitPicture, four, pictureLayout, pictureScaling, pictureSize } from './fit.js';
import { halfBits, roundToEven } from './tensor.js';

/** @import { Port } from './plan.js' */
/** @import { Fit, Layout, Picture, PictureOptions } from './fit.js' */
/** @typedef {{ port: Port, layout: Layout, fit: Fit, scale: number[], shift: number[], fill: number[], bgr: boolean }} Conversion */

const TYPES = ['f32', 'f16', 'u8', 'i8'];
const GRAY = [0.299, 0.587, 0.114];
const ITEMS = 64; // work-items of a group, each with four pixels
const KERNEL = `
struct How { box: vec4f, place: vec4f, scale: vec4f, shift: vec4f, fill: vec4f, shape: vec4u, flags: vec4u }
@group(0) @binding(0) var frame: texture_2d<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@group(0) @binding(2) var<uniform> how: How;

// Each pixel of the frame counts by how near it is: bilinear, and smoothed where the frame shrinks.
fn smoothed(centre: vec2f) -> vec4f {
  let reach = max(vec2f(1), how.box.zw / how.place.xy);
  let low = vec2i(max(how.box.xy, floor(centre - reach + 0.5)));
  let high = vec2i(min(how.box.xy + how.box.zw, ceil(centre + reach - 0.5)));
  var sum = vec4f(0);
  var weights = 0.0;
  for (var y = low.y; y < high.y; y++) {
    for (var x = low.x; x < high.x; x++) {
      let near = max(vec2f(0), 1 - abs(vec2f(vec2i(x, y)) + 0.5 - centre) / reach);
      sum += near.x * near.y * textureLoad(frame, vec2i(x, y), 0);
      weights += near.x * near.y;
    }
  }
  return 255 * sum / weights;
}

fn pixel(number: u32) -> vec4f {
  let at = vec2f(f32(number % how.shape.x), f32(number / how.shape.x)) + 0.5 - how.place.zw;
  var color = how.fill;
  if (all(at > vec2f(0)) && all(at < how.place.xy)) {
    var part = at / how.place.xy;
    if (how.flags.z != 0) { part.x = 1 - part.x; }
    color = smoothed(how.box.xy + part * how.box.zw);
  }
  if (how.flags.y != 0) { color = color.zyxw; }
  if (how.shape.z == 1) { color = vec4f(dot(color.xyz, vec3f(${GRAY}))); }
  return color * how.scale + how.shift;
}

fn put(word: u32, bits: u32) {
  if (word < arrayLength(&result)) { result[word] = bits; }
}

fn store(first: u32, values: vec4f) {
  if (how.shape.w == 0) {
    for (var i = 0u; i < 4; i++) { put(first + i, bitcast<u32>(values[i])); }
  } else if (how.shape.w == 1) {
    put(first / 2, pack2x16float(values.xy));
    put(first / 2 + 1, pack2x16float(values.zw));
  } else {
    let low = select(0.0, -128.0, how.shape.w == 3);
    let bytes = bitcast<vec4u>(vec4i(clamp(round(values), vec4f(low), vec4f(low + 255)))) & vec4u(255);
    put(first / 4, bytes.x | (bytes.y << 8) | (bytes.z << 16) | (bytes.w << 24));
  }
}

@compute @workgroup_size(${ITEMS})
fn main(@builtin(global_invocation_id) id: vec3u) {
  let first = id.x * 4;
  let area = how.shape.x * how.shape.y;
  if (first >= area) { return; }
  var p: array<vec4f, 4>;
  for (var i = 0u; i < 4; i++) { p[i] = pixel(min(first + i, area - 1)); }
  let c = how.shape.z;
  for (var n = 0u; n < c; n++) {
    var four: vec4f;
    for (var k = 0u; k < 4; k++) { four[k] = select(p[(4 * n + k) / c][(4 * n + k) % c], p[k][n], how.flags.x != 0); }
    store(select(first * c + 4 * n, n * area + first, how.flags.x != 0), four);
  }
}`;

/**
 * @param {Port} port
 * @param {Picture} picture
 * @param {PictureOptions} how
 * @returns {Conversion}
 */
export function planConversion(port, picture, how) {
  const layout = pictureLayout(port);
  if (!layout) {
    const why = `it takes ${port.type} [${port.shape}]`;
    throw new FourfoldError(`the input '${port.name}' takes no picture`, why, 'pass a typed array');
  }
  const fit = fitPicture(pictureSize(picture), layout, how);
  return { port, layout, fit, ...pictureScaling(port, how), fill: four(how.fill ?? 114), bgr: how.order === 'bgr' };
}

/** Makes inputs of pictures on one device. Textures and words are kept for the next picture. */
export class PictureMaker {
  /** @param {GPUDevice} device */
  constructor(device) {
    this.device = device;
    /** @type {Promise<GPUComputePipeline> | undefined} */
    this.pipeline = undefined;
    /** @type {Map<string, { texture: GPUTexture, words: GPUBuffer }>} */
    this.kept = new Map();
  }

  /**
   * A copy for the run's encoder; undefined where the device cannot do it.
   * @param {Picture} picture
   * @param {Conversion} made
   * @param {GPUBuffer} buffer the input's
   * @returns {Promise<((encoder: GPUCommandEncoder) => void) | undefined>}
   */
  async convert(picture, made, buffer) {
    const { layout, port, fit } = made;
    const area = layout.width * layout.height;
    if (layout.planar && area % 4) return undefined; // a plane would begin within a word
    const [width, height] = pictureSize(picture);
    if (Math.max(width, height) > this.device.limits.maxTextureDimension2D) return undefined;
    const pipeline = await (this.pipeline ??= this.build());
    const { texture, words } = this.memory(port.name, width, height);
    if (!this.load(texture, picture, width, height)) return undefined;
    this.device.queue.writeBuffer(words, 0, wordsOf(made));
    const resources = [texture.createView(), { buffer }, { buffer: words }];
    const entries = resources.map((resource, binding) => ({ binding, resource }));
    const group = this.device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
    return (encoder) => {
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(Math.ceil(area / 4 / ITEMS));
      pass.end();
    };
  }

  build() {
    const module = this.device.createShaderModule({ label: 'picture', code: KERNEL });
    return this.device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint: 'main' } });
  }

  /**
   * @param {string} name
   * @param {number} width
   * @param {number} height
   */
  memory(name, width, height) {
    const found = this.kept.get(name);
    if (found && found.texture.width === width && found.texture.height === height) return found;
    found?.texture.destroy();
    found?.words.destroy();
    const usage = GPUTextureUsage.TEXTURE_BINDING | GPUTextureUsage.COPY_DST | GPUTextureUsage.RENDER_ATTACHMENT;
    const texture = this.device.createTexture({ size: [width, height], format: 'rgba8unorm', usage });
    const words = this.device.createBuffer({ size: 112, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
    const made = { texture, words };
    this.kept.set(name, made);
    return made;
  }

  /**
   * @param {GPUTexture} texture
   * @param {Picture} picture
   * @param {number} width
   * @param {number} height
   */
  load(texture, picture, width, height) {
    if (picture instanceof ImageData) {
      const data = /** @type {Uint8ClampedArray<ArrayBuffer>} */ (picture.data);
      this.device.queue.writeTexture({ texture }, data, { bytesPerRow: 4 * width }, [width, height]);
      return true;
    }
    try {
      this.device.queue.copyExternalImageToTexture({ source: picture }, { texture }, [width, height]);
      return true;
    } catch {
      return false; // a source that this browser copies by a canvas only
    }
  }

  close() {
    for (const { texture, words } of this.kept.values()) {
      texture.destroy();
      words.destroy();
    }
  }
}

/** @param {Conversion} made */
function wordsOf({ port, layout, fit, scale, shift, fill, bgr }) {
  const bytes = new ArrayBuffer(112);
  new Float32Array(bytes).set([...fit.box, ...fit.size, ...fit.offset, ...scale, ...shift, ...fill]);
  const shape = [layout.width, layout.height, layout.channels, TYPES.indexOf(port.type)];
  new Uint32Array(bytes).set([...shape, Number(layout.planar), Number(bgr), Number(fit.mirror), 0], 20);
  return bytes;
}

/**
 * The same by a canvas, whose resizing is the browser's.
 * @param {Picture} picture
 * @param {Conversion} made
 * @returns {Uint8Array}
 */
export function drawInput(picture, made) {
  const { layout, fit, fill, port } = made;
  const canvas = new OffscreenCanvas(layout.width, layout.height);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext('2d', { willReadFrequently: true }));
  context.fillStyle = `rgb(${fill.slice(0, 3)})`;
  context.fillRect(0, 0, layout.width, layout.height);
  context.imageSmoothingQuality = 'high';
  if (fit.mirror) context.setTransform(-1, 0, 0, 1, layout.width, 0);
  context.drawImage(drawable(picture), ...fit.box, ...fit.offset, ...fit.size);
  const { data } = context.getImageData(0, 0, layout.width, layout.height);
  return storePixels(data, made, port);
}

/** @param {Picture} picture */
function drawable(picture) {
  if (!(picture instanceof ImageData)) return picture;
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  canvas.getContext('2d')?.putImageData(picture, 0, 0);
  return canvas;
}

/**
 * @param {Uint8ClampedArray} data
 * @param {Conversion} made
 * @param {Port} port
 */
function storePixels(data, { layout, scale, shift, bgr }, port) {
  const { channels, planar } = layout;
  const area = layout.width * layout.height;
  const Stored = { f32: Float32Array, f16: Uint16Array, u8: Uint8ClampedArray, i8: Int8Array }[port.type] ?? Float32Array;
  const made = new Stored(area * channels);
  for (let at = 0; at < area; at++) {
    const color = [0, 1, 2, 3].map((channel) => data[4 * at + (bgr && channel < 3 ? 2 - channel : channel)]);
    if (channels === 1) color[0] = GRAY.reduce((sum, weight, channel) => sum + weight * color[channel], 0);
    for (let channel = 0; channel < channels; channel++) {
      const value = color[channel] * scale[channel] + shift[channel];
      made[planar ? channel * area + at : at * channels + channel] = port.type === 'f16' ? halfBits(value) : port.type === 'f32' ? value : clampedByte(value, port.type);
    }
  }
  return new Uint8Array(made.buffer);
}

/**
 * @param {number} value
 * @param {string} type
 */
function clampedByte(value, type) {
  const low = type === 'i8' ? -128 : 0;
  return Math.min(low + 255, Math.max(low, roundToEven(value)));
}
