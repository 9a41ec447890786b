// fourfold in a browser: opens a prepared file and runs its model on the GPU.

import { requestAdapter, requestDevice } from './device.js';
import { FourfoldError } from './errors.js';
import { fitPicture, isPicture, pictureLayout, pictureSize, toFrame } from './fit.js';
import { PictureMaker } from './picture.js';
import { Player } from './player.js';
import { Prepared } from './prepared.js';
import { openSource } from './source.js';
import { byteLength, decodeOutput, encodeInput } from './tensor.js';
import { trustedSource } from './trust.js';

export { FourfoldError, toFrame };

/** @import { Plan, Port } from './plan.js' */
/** @import { Copy } from './player.js' */
/** @import { Row } from './prepared.js' */
/** @typedef {{ device: GPUDevice, player: Player, pictures: PictureMaker }} Live */
/** @import { Fit, Picture, PictureOptions } from './fit.js' */
/** @import { OpenOptions, RunOptions, TensorInfo } from '../fourfold.js' */

/**
 * Opens a model: `await open('model.fourfold')`. It can run at once. A run waits for the kernels that
 * it needs, and `model.ready` resolves when all kernels are compiled.
 * @param {string | URL | Blob | ArrayBuffer | ArrayBufferView} from
 * @param {OpenOptions} [options]
 */
export const open = (from, options) => Model.open(from, options);

/** An open model. */
export class Model {
  #prepared;
  #row;
  #plan;
  #options;
  /** @type {Live | undefined} */
  #live;
  /** @type {Promise<void> | undefined} */
  #recovery;
  #closed = false;
  #lost = '';
  /**
   * @param {Prepared} prepared
   * @param {Row} row
   * @param {Plan} plan
   * @param {any} about
   * @param {OpenOptions} options
   */
  constructor(prepared, row, plan, about, options) {
    this.#prepared = prepared;
    this.#row = row;
    this.#plan = plan;
    this.#options = options;
    this.metadata = about;
    this.inputs = plan.inputs.map((port, at) => describeTensor(port, about.inputs?.[at]));
    this.outputs = plan.outputs.map((port, at) => describeTensor(port, about.outputs?.[at]));
    /** @type {Promise<void>} */
    this.ready = Promise.resolve();
  }

  /**
   * @param {string | URL | Blob | ArrayBuffer | ArrayBufferView} from
   * @param {OpenOptions} [options]
   */
  static async open(from, options = {}) {
    const [prepared, adapter] = await Promise.all([
      openPrepared(from, options),
      requestAdapter(),
    ]);
    const row = prepared.choose(options, adapter);
    const total = prepared.bytes(row);
    let done = 0;
    const report = (/** @type {number} */ bytes) => {
      done = Math.min(total, done + bytes);
      options.progress?.({ stage: 'fetch', done, total });
    };
    const [device, plan, about] = await Promise.all([
      options.device ?? requestDevice(adapter, row.requirements),
      prepared.plan(row, report),
      prepared.about(row),
    ]);
    const model = new Model(prepared, row, plan, about, options);
    await model.#start(device, report);
    return model;
  }

  /** Precision of the plan, the compute units it was made for, and its number of launches. */
  get origin() {
    return { precision: this.#plan.precision, units: this.#row.made_for.compute_units, launches: this.#plan.launches.length };
  }

  /** The device that the model runs on, to share buffers with; undefined after `close`. */
  get device() {
    return this.#live?.device;
  }

  /**
   * @param {GPUDevice} device
   * @param {(bytes: number) => void} [report]
   */
  async #start(device, report) {
    const player = new Player(device, this.#plan, (done, total) => this.#options.progress?.({ stage: 'compile', done, total }));
    this.#live = { device, player, pictures: new PictureMaker(device) };
    this.ready = player.pipelines.all();
    this.ready.catch(() => {}); // reported by the run that needs it
    device.lost.then(({ message }) => {
      if (this.#live?.device === device && !this.#closed) this.#lost = message || 'the browser gave no reason';
    });
    player.upload(await this.#prepared.constants(this.#row, this.#plan, report));
  }

  /**
   * Runs the model. Inputs are passed by name, in order, or as a single one. Outputs are returned by name.
   * @param {any} inputs
   * @param {RunOptions} [options]
   * @returns {Promise<Record<string, any>>}
   */
  async run(inputs, options = {}) {
    const values = this.#arrange(inputs);
    const live = await this.#awake();
    const { player } = live;
    const staging = await player.begin((write) => this.#putInputs(values, options, live, write), !options.buffers);
    if (!staging) return Object.fromEntries(this.#plan.outputs.map((port) => [port.name, player.buffers[port.buffer]]));
    const { bytes, starts } = await this.#fetch(player, staging);
    const arrays = this.#plan.outputs.map((port, at) => [port.name, decodeOutput(port, bytes, starts[at], options.real ?? false)]);
    return Object.fromEntries(arrays);
  }

  /**
   * @param {Player} player
   * @param {GPUBuffer} staging
   */
  async #fetch(player, staging) {
    try {
      return await player.end(staging);
    } catch (error) {
      await Promise.resolve(); // `device.lost` resolves after the error that the loss caused
      if (error instanceof FourfoldError) throw error;
      throw new FourfoldError('the run did not finish', `the device was lost: ${this.#lost || error}`, 'run again: the model opens a new device');
    }
  }

  /**
   * Returns the player, on a new device if the old one was lost.
   */
  async #awake() {
    if (this.#closed || !this.#live) throw new FourfoldError('the model is closed', 'close() was called', 'open it again');
    if (this.#lost) await (this.#recovery ??= this.#recover().finally(() => (this.#recovery = undefined)));
    return this.#live;
  }

  async #recover() {
    const reason = this.#lost;
    const kept = this.#live?.player.hasVariables;
    if (this.#options.device) {
      throw new FourfoldError('the device is lost', reason, 'it was passed to open(): create a new one, and open the model with it');
    }
    const device = await requestDevice(await requestAdapter(), this.#row.requirements);
    this.#live?.player.close();
    await this.#start(device);
    this.#lost = '';
    if (kept) {
      const why = `the device was lost (${reason}), and with it the model's state between runs`;
      throw new FourfoldError('the states of the model are lost', why, 'run again: the states are reset');
    }
  }

  /** Resets the model's state between runs. */
  async reset() {
    const { player } = await this.#awake();
    player.reset(await this.#prepared.constants(this.#row, this.#plan));
  }

  /**
   * Returns where a picture lies in the model's input picture. `toFrame(fit, x, y)` maps back to the picture.
   * @param {Picture} picture
   * @param {PictureOptions} [how]
   * @param {number} [input]
   * @returns {Fit}
   */
  fit(picture, how = {}, input = 0) {
    const layout = pictureLayout(this.#plan.inputs[input]);
    return fitPicture(pictureSize(picture), layout, { ...this.#options.picture, ...how });
  }

  /** Frees device memory. */
  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#live?.player.close();
    this.#live?.pictures.close();
    if (!this.#options.device) this.#live?.device.destroy();
    this.#live = undefined;
  }

  /**
   * @param {any} inputs
   * @returns {any[]} one for each input
   */
  #arrange(inputs) {
    const ports = this.#plan.inputs;
    const single = isPicture(inputs) || ArrayBuffer.isView(inputs) || isBuffer(inputs) || typeof inputs?.[0] === 'number';
    const listed = single ? [inputs] : Array.isArray(inputs) ? inputs : undefined;
    const given = listed ?? ports.map(({ name }) => inputs?.[name]);
    const unknown = listed ? undefined : Object.keys(inputs ?? {}).find((name) => !ports.some((port) => port.name === name));
    const absent = ports.find((_, at) => given[at] == null);
    if (unknown === undefined && !absent && given.length === ports.length) return given;
    const title = ports.map(({ name }) => `'${name}'`).join(', ');
    const what = unknown !== undefined ? `there is no input '${unknown}'` : absent ? `the input '${absent.name}' is missing` : `${given.length} inputs were passed`;
    throw new FourfoldError(what, `the model takes ${title}`, 'pass an object with one value for each of these names');
  }

  /**
   * @param {number} input
   * @param {RunOptions} options
   * @returns {PictureOptions}
   */
  #pictureOptions(input, options) {
    const port = this.#plan.inputs[input];
    const asBytes = port.name in (this.#row.pixels ?? {}); // the plan itself scales them
    const { mean, std } = (!asBytes && this.metadata.inputs?.[input]?.normalization) || {};
    return { ...(mean && std ? { mean, std } : {}), ...this.#options.picture, ...options.picture };
  }

  /**
   * Uploads numbers at once; pictures and buffers are copied at the start of the run's commands.
   * @param {any[]} values
   * @param {RunOptions} options
   * @param {Live} live
   * @param {(port: Port, bytes: Uint8Array) => void} write
   */
  async #putInputs(values, options, { player, pictures }, write) {
    /** @type {Copy[]} */
    const copies = [];
    for (const [at, port] of this.#plan.inputs.entries()) {
      const value = values[at];
      const target = player.buffers[port.buffer];
      const size = Math.ceil(byteLength(port) / 4) * 4;
      if (isPicture(value)) copies.push(await pictures.convert(value, port, this.#pictureOptions(at, options), target));
      else if (isBuffer(value)) copies.push((encoder) => encoder.copyBufferToBuffer(value, 0, target, 0, size));
      else write(port, encodeInput(port, value, options.real ?? false));
    }
    return copies;
  }
}

/**
 * @param {string | URL | Blob | ArrayBuffer | ArrayBufferView} from
 * @param {OpenOptions} options
 */
async function openPrepared(from, options) {
  const source = await openSource(from, options.cache ?? true);
  return Prepared.open(await trustedSource(source, options.trust));
}

/** @param {any} value */
const isBuffer = (value) => 'GPUBuffer' in globalThis && value instanceof GPUBuffer;

/**
 * @param {Port} port
 * @param {any} [said] the tensor's metadata
 * @returns {TensorInfo}
 */
function describeTensor({ name, type, shape, quantization }, said = {}) {
  const texts = (/** @type {string} */ wanted) => (said.labels ?? []).find((/** @type {any} */ one) => one.kind === wanted && one.texts.length)?.texts;
  return { name, type, shape, quantization, labels: texts('axis') ?? texts('value') ?? [], description: said.description ?? '', metadata: said };
}
