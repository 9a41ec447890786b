// Converts pictures to inputs on the GPU, with a kernel that resizes and scales.

import { FourfoldError } from './errors.js';
import { fitPicture, four, pictureLayout, pictureScaling, pictureSize } from './fit.js';
import { COPY_DST, RENDER_ATTACHMENT, TEXTURE_BINDING, TEXTURE_COPY_DST, UNIFORM } from './flags.js';
import { ITEMS, pictureKernel } from './picture_kernel.js';

/** @import { Port } from './plan.js' */
/** @import { Fit, Layout, Picture, PictureOptions } from './fit.js' */
/** @typedef {{ port: Port, layout: Layout, fit: Fit, scale: number[], shift: number[], fill: number[], bgr: boolean }} Conversion */

const TYPES = ['f32', 'f16', 'u8', 'i8'];
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
    const why = `a plane of ${port.type} [${port.shape}] is not aligned to 4 bytes`;
    throw new FourfoldError(`the input '${port.name}' takes no picture`, why, 'pass a typed array');
  }
  return { port, layout, fit: fitPicture(size, layout, how), ...pictureScaling(port, how), fill: four(how.fill ?? 114), bgr: how.order === 'bgr' };
}

/** Converts pictures to inputs on one device. Textures and uniforms are reused for the next picture. */
export class PictureMaker {
  #device;
  /** @type {Promise<GPUComputePipeline>[]} */
  #pipelines = []; // for textures, and for video frames
  /** @type {Map<string, { texture: GPUTexture, words: GPUBuffer }>} */
  #kept = new Map();
  /** @param {GPUDevice} device */
  constructor(device) {
    this.#device = device;
  }

  /**
   * Returns a function that encodes the conversion of a picture to an input. Video frames are read in
   * place, which is allowed only until the current task ends, so the function must not wait.
   * @param {Picture} picture
   * @param {Port} port
   * @param {PictureOptions} how
   * @param {GPUBuffer} buffer the buffer of the input
   * @returns {Promise<(encoder: GPUCommandEncoder) => void>}
   */
  async convert(picture, port, how, buffer) {
    planConversion(port, pictureSize(picture), how); // reports errors before anything is created
    // Not all browsers support video frames as textures.
    const direct = isVideo(picture) ? this.#pipeline(1).catch(() => undefined) : undefined;
    const pipelines = await Promise.all([this.#pipeline(0), direct]);
    return (encoder) => {
      const frame = pipelines[1] && this.#imported(picture);
      const { texture, words } = frame ? this.#memory(port.name, 1, 1) : this.#load(port.name, picture);
      const made = planConversion(port, frame ? pictureSize(picture) : [texture.width, texture.height], how);
      this.#device.queue.writeBuffer(words, 0, wordsOf(made));
      const pipeline = /** @type {GPUComputePipeline} */ (pipelines[frame ? 1 : 0]);
      const resources = [frame ?? texture.createView(), { buffer }, { buffer: words }];
      const entries = resources.map((resource, binding) => ({ binding, resource }));
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, this.#device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
      pass.dispatchWorkgroups(Math.ceil((made.layout.width * made.layout.height) / 4 / ITEMS));
      pass.end();
    };
  }

  /** @param {number} external */
  #pipeline(external) {
    return (this.#pipelines[external] ??= this.#device.createComputePipelineAsync({
      label: 'picture',
      layout: 'auto',
      compute: { module: this.#device.createShaderModule({ code: pictureKernel(!!external) }) },
    }));
  }

  /**
   * Returns the frame of a video as an external texture, or undefined if the browser cannot import it.
   * @param {any} source
   */
  #imported(source) {
    try {
      return this.#device.importExternalTexture({ source });
    } catch {
      return undefined;
    }
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
    const usage = TEXTURE_BINDING | TEXTURE_COPY_DST | RENDER_ATTACHMENT;
    const texture = this.#device.createTexture({ size: [width, height], format: 'rgba8unorm', usage });
    const words = this.#device.createBuffer({ size: 112, usage: UNIFORM | COPY_DST });
    const made = { texture, words };
    this.#kept.set(name, made);
    return made;
  }

  /**
   * Copies the picture to device memory, directly or through a canvas.
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
      return this.#write(name, drawn(picture, size, most)); // some browsers cannot copy every source
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

/** @param {any} picture */
const isVideo = (picture) => 'videoWidth' in picture || 'displayWidth' in picture;

/** @param {Conversion} made */
function wordsOf({ port, layout, fit, scale, shift, fill, bgr }) {
  const bytes = new ArrayBuffer(112);
  new Float32Array(bytes).set([...fit.box, ...fit.size, ...fit.offset, ...scale, ...shift, ...fill]);
  const shape = [layout.width, layout.height, layout.channels, TYPES.indexOf(port.type)];
  new Uint32Array(bytes).set([...shape, Number(layout.planar), Number(bgr), Number(fit.mirror), 0], 20);
  return bytes;
}

/**
 * Draws a picture to a canvas, scaled down if a side is too long.
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
