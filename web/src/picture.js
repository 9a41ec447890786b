// Pictures become inputs on the GPU, by a kernel that resizes and scales.

import { FourfoldError } from './errors.js';
import { fitPicture, four, pictureLayout, pictureScaling, pictureSize } from './fit.js';

/** @import { Port } from './plan.js' */
/** @import { Fit, Layout, Picture, PictureOptions } from './fit.js' */
/** @typedef {{ port: Port, layout: Layout, fit: Fit, scale: number[], shift: number[], fill: number[], bgr: boolean }} Conversion */

const TYPES = ['f32', 'f16', 'u8', 'i8'];
const GRAY = [0.299, 0.587, 0.114];
const ITEMS = 64; // work-items of a group, each with four pixels
// `smoothed` weighs each pixel of the frame by how near it is: bilinear, and smoothed where it shrinks.
const KERNEL = `
struct How { box: vec4f, place: vec4f, scale: vec4f, shift: vec4f, fill: vec4f, shape: vec4u, flags: vec4u }
@group(0) @binding(0) var frame: texture_2d<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@group(0) @binding(2) var<uniform> how: How;
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
 let planar = how.flags.x != 0;
 for (var n = 0u; n < c; n++) {
  var four: vec4f;
  for (var k = 0u; k < 4; k++) { four[k] = select(p[(4 * n + k) / c][(4 * n + k) % c], p[k][n], planar); }
  store(select(first * c + 4 * n, n * area + first, planar), four);
 }
}`;

/**
 * @param {Port} port
 * @param {[number, number]} size of the picture
 * @param {PictureOptions} how
 * @returns {Conversion}
 */
export function planConversion(port, size, how) {
  const layout = pictureLayout(port);
  const bytes = { f32: 4, f16: 2 }[port.type] ?? 1;
  if (layout.planar && (layout.width * layout.height * bytes) % 4) {
    const why = `a plane of ${port.type} [${port.shape}] begins within a word`;
    throw new FourfoldError(`the input '${port.name}' takes no picture`, why, 'pass a typed array');
  }
  return { port, layout, fit: fitPicture(size, layout, how), ...pictureScaling(port, how), fill: four(how.fill ?? 114), bgr: how.order === 'bgr' };
}

/** Makes inputs of pictures on one device. Textures and words are kept for the next picture. */
export class PictureMaker {
  #device;
  /** @type {Promise<GPUComputePipeline> | undefined} */
  #pipeline;
  /** @type {Map<string, { texture: GPUTexture, words: GPUBuffer }>} */
  #kept = new Map();
  /** @param {GPUDevice} device */
  constructor(device) {
    this.#device = device;
  }

  /**
   * A picture becomes an input: what the encoder of the run does before all else.
   * @param {Picture} picture
   * @param {Port} port
   * @param {PictureOptions} how
   * @param {GPUBuffer} buffer the input's
   * @returns {Promise<(encoder: GPUCommandEncoder) => void>}
   */
  async convert(picture, port, how, buffer) {
    const pipeline = await (this.#pipeline ??= this.#build());
    const { texture, words } = this.#load(port.name, picture);
    const made = planConversion(port, [texture.width, texture.height], how);
    this.#device.queue.writeBuffer(words, 0, wordsOf(made));
    const resources = [texture.createView(), { buffer }, { buffer: words }];
    const entries = resources.map((resource, binding) => ({ binding, resource }));
    const group = this.#device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
    return (encoder) => {
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(Math.ceil((made.layout.width * made.layout.height) / 4 / ITEMS));
      pass.end();
    };
  }

  #build() {
    const module = this.#device.createShaderModule({ label: 'picture', code: KERNEL });
    return this.#device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint: 'main' } });
  }

  /**
   * @param {string} name
   * @param {number} width
   * @param {number} height
   */
  #memory(name, width, height) {
    const found = this.#kept.get(name);
    if (found && found.texture.width === width && found.texture.height === height) return found;
    found?.texture.destroy();
    found?.words.destroy();
    const usage = GPUTextureUsage.TEXTURE_BINDING | GPUTextureUsage.COPY_DST | GPUTextureUsage.RENDER_ATTACHMENT;
    const texture = this.#device.createTexture({ size: [width, height], format: 'rgba8unorm', usage });
    const words = this.#device.createBuffer({ size: 112, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
    const made = { texture, words };
    this.#kept.set(name, made);
    return made;
  }

  /**
   * The picture in memory of the device, straight from where it is, else by way of a canvas.
   * @param {string} name
   * @param {Picture} picture
   */
  #load(name, picture) {
    const size = pictureSize(picture);
    if (picture instanceof ImageData) return this.#write(name, picture);
    const most = this.#device.limits.maxTextureDimension2D;
    if (Math.max(...size) > most) return this.#write(name, drawn(picture, size, most));
    const memory = this.#memory(name, ...size);
    try {
      this.#device.queue.copyExternalImageToTexture({ source: picture }, { texture: memory.texture }, size);
      return memory;
    } catch {
      return this.#write(name, drawn(picture, size, most)); // not all browsers copy all sources
    }
  }

  /**
   * @param {string} name
   * @param {ImageData} picture
   */
  #write(name, { data, width, height }) {
    const memory = this.#memory(name, width, height);
    const bytes = /** @type {Uint8ClampedArray<ArrayBuffer>} */ (data);
    this.#device.queue.writeTexture({ texture: memory.texture }, bytes, { bytesPerRow: 4 * width }, [width, height]);
    return memory;
  }

  close() {
    for (const { texture, words } of this.#kept.values()) {
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
 * A picture by way of a canvas, made smaller where a side is too long.
 * @param {Exclude<Picture, ImageData>} picture
 * @param {[number, number]} size
 * @param {number} most
 */
function drawn(picture, [width, height], most) {
  const scale = Math.min(1, most / Math.max(width, height));
  const canvas = new OffscreenCanvas(Math.ceil(width * scale), Math.ceil(height * scale));
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext('2d'));
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}
