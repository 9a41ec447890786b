// fourfold in a browser: opens a prepared file and runs its model on the GPU.

import { requestAdapter, requestDevice } from './device.js';
import { FourfoldError } from './errors.js';
import { fitPicture, isPicture, pictureLayout, pictureSize, toFrame } from './fit.js';
import { drawInput, PictureMaker, planConversion } from './picture.js';
import { Player } from './player.js';
import { Prepared } from './prepared.js';
import { openSource } from './source.js';
import { byteLength, decodeOutput, encodeInput } from './tensor.js';

export { FourfoldError, toFrame };

/** @import { Plan, Port } from './plan.js' */
/** @import { Row } from './prepared.js' */
/** @import { Fit, Picture, PictureOptions } from './fit.js' */
/** @import { OpenOptions, RunOptions, TensorInfo } from '../fourfold.js' */

/**
 * Opens a model: `await open('model.fourfold')`. It can be run at once; what the browser still compiles
 * is waited for by the run that needs it, and `model.ready` tells when all is there.
 * @param {string | URL | Blob | ArrayBuffer | ArrayBufferView} from
 * @param {OpenOptions} [options]
 */
export async function open(from, options = {}) {
  const [prepared, adapter] = await Promise.all([
    openSource(from, options.cache ?? true).then((source) => Prepared.open(source)),
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
  await model.start(device, report);
  return model;
}

/** A model that is open. */
export class Model {
  /**
   * @param {Prepared} prepared
   * @param {Row} row
   * @param {Plan} plan
   * @param {any} about
   * @param {OpenOptions} options
   */
  constructor(prepared, row, plan, about, options) {
    this.prepared = prepared;
    this.row = row;
    this.plan = plan;
    this.options = options;
    this.metadata = about;
    this.inputs = plan.inputs.map((port, at) => describeTensor(port, about.inputs?.[at]));
    this.outputs = plan.outputs.map((port, at) => describeTensor(port, about.outputs?.[at]));
    /** @type {Promise<void>} */
    this.ready = Promise.resolve();
    /** @type {{ device: GPUDevice, player: Player, pictures: PictureMaker } | undefined} */
    this.live = undefined;
    /** @type {Promise<void> | undefined} */
    this.recovery = undefined;
    this.closed = false;
    this.lost = '';
  }

  /** How the plan was made: its precision, and for how many compute units. */
  get origin() {
    return { precision: this.plan.precision, units: this.row.made_for.compute_units, launches: this.plan.launches.length };
  }

  /** The device that it runs on, for who has buffers of it; undefined after `close`. */
  get device() {
    return this.live?.device;
  }

  /**
   * @param {GPUDevice} device
   * @param {(bytes: number) => void} [report]
   */
  async start(device, report) {
    const player = new Player(device, this.plan, (done, total) => this.options.progress?.({ stage: 'compile', done, total }));
    this.live = { device, player, pictures: new PictureMaker(device) };
    this.ready = player.pipelines.all();
    this.ready.catch(() => {}); // a run that needs it tells
    device.lost.then(({ message }) => {
      if (this.live?.device === device && !this.closed) this.lost = message || 'the browser gave no reason';
    });
    player.upload(await this.prepared.constants(this.row, report));
  }

  /**
   * Runs the model: inputs by name, in the order of `inputs`, or the only one. Outputs come by name.
   * @param {any} inputs
   * @param {RunOptions} [options]
   * @returns {Promise<Record<string, any>>}
   */
  async run(inputs, options = {}) {
    const values = this.arrange(inputs);
    const { player, pictures } = await this.awake();
    const copies = await this.pictureCopies(values, options, player, pictures);
    const staging = await player.begin((write) => this.writeInputs(values, copies, options, player, write), !options.buffers);
    if (!staging) return Object.fromEntries(this.plan.outputs.map((port) => [port.name, player.buffers[port.buffer]]));
    const { bytes, starts } = await this.fetch(player, staging);
    const arrays = this.plan.outputs.map((port, at) => [port.name, decodeOutput(port, bytes, starts[at], options.real ?? false)]);
    return Object.fromEntries(arrays);
  }

  /**
   * @param {Player} player
   * @param {GPUBuffer} staging
   */
  async fetch(player, staging) {
    try {
      return await player.end(staging);
    } catch (error) {
      await Promise.resolve(); // the word of the loss comes after the error that it caused
      if (error instanceof FourfoldError) throw error;
      throw new FourfoldError('the run did not end', `the device was lost: ${this.lost || error}`, 'run again: the model opens a new device');
    }
  }

  /**
   * The player, on a new device where the old one was lost.
   */
  async awake() {
    if (this.closed || !this.live) throw new FourfoldError('the model is closed', 'close() was called', 'open it again');
    if (this.lost) await (this.recovery ??= this.recover().finally(() => (this.recovery = undefined)));
    return this.live;
  }

  async recover() {
    const reason = this.lost;
    const kept = this.live?.player.hasVariables;
    if (this.options.device) {
      throw new FourfoldError('the device is lost', reason, 'it was passed to open(): make a new one, and open the model on it');
    }
    const device = await requestDevice(await requestAdapter(), this.row.requirements);
    this.live?.player.close();
    await this.start(device);
    this.lost = '';
    if (kept) {
      const why = `the device was lost (${reason}), and with it what the model keeps from run to run`;
      throw new FourfoldError('the states of the model are lost', why, 'run again: they begin anew');
    }
  }

  /** What the model keeps from run to run begins anew. */
  async reset() {
    const { player } = await this.awake();
    player.reset(await this.prepared.constants(this.row));
  }

  /**
   * Where a picture lies in the model's: `toFrame(fit, x, y)` leads back to the picture.
   * @param {Picture} picture
   * @param {PictureOptions} [how]
   * @param {number} [input]
   * @returns {Fit}
   */
  fit(picture, how = {}, input = 0) {
    const layout = pictureLayout(this.plan.inputs[input]);
    if (!layout) throw new FourfoldError(`the input '${this.plan.inputs[input].name}' takes no picture`, 'it has no height and width', 'pass a typed array');
    return fitPicture(pictureSize(picture), layout, { ...this.options.picture, ...how });
  }

  /** Gives the device's memory back. */
  close() {
    if (this.closed) return;
    this.closed = true;
    this.live?.player.close();
    this.live?.pictures.close();
    if (!this.options.device) this.live?.device.destroy();
    this.live = undefined;
  }

  /**
   * @param {any} inputs
   * @returns {any[]} one for each input
   */
  arrange(inputs) {
    const ports = this.plan.inputs;
    const single = isPicture(inputs) || ArrayBuffer.isView(inputs) || (Array.isArray(inputs) && typeof inputs[0] === 'number') || isBuffer(inputs);
    const given = single ? [inputs] : Array.isArray(inputs) ? inputs : ports.map(({ name }) => inputs?.[name]);
    const names = single || Array.isArray(inputs) ? [] : Object.keys(inputs ?? {});
    const unknown = names.find((name) => !ports.some((port) => port.name === name));
    const absent = ports.find((_, at) => given[at] == null);
    const title = ports.map(({ name }) => `'${name}'`).join(', ');
    if (unknown === undefined && !absent && given.length === ports.length) return given;
    const what = unknown !== undefined ? `there is no input '${unknown}'` : absent ? `the input '${absent.name}' is missing` : `${given.length} inputs were given`;
    throw new FourfoldError(what, `the model takes ${title}`, 'pass an object with one value for each of these names');
  }

  /**
   * @param {any[]} values
   * @param {RunOptions} options
   * @param {Player} player
   * @param {PictureMaker} pictures
   */
  pictureCopies(values, options, player, pictures) {
    return Promise.all(
      this.plan.inputs.map((port, at) => {
        if (!isPicture(values[at])) return undefined;
        const conversion = planConversion(port, values[at], this.pictureOptions(at, options));
        return pictures.convert(values[at], conversion, player.buffers[port.buffer]);
      }),
    );
  }

  /**
   * @param {number} input
   * @param {RunOptions} options
   * @returns {PictureOptions}
   */
  pictureOptions(input, options) {
    const port = this.plan.inputs[input];
    const asBytes = port.name in (this.row.pixels ?? {}); // the plan itself scales them
    const { mean, std } = (!asBytes && this.metadata.inputs?.[input]?.normalization) || {};
    return { ...(mean && std ? { mean, std } : {}), ...this.options.picture, ...options.picture };
  }

  /**
   * @param {any[]} values
   * @param {(((encoder: GPUCommandEncoder) => void) | undefined)[]} copies
   * @param {RunOptions} options
   * @param {Player} player
   * @param {(port: Port, bytes: Uint8Array) => void} write
   */
  writeInputs(values, copies, options, player, write) {
    /** @type {((encoder: GPUCommandEncoder) => void)[]} */
    const first = [];
    this.plan.inputs.forEach((port, at) => {
      const value = values[at];
      const copy = copies[at];
      if (copy) first.push(copy);
      else if (isPicture(value)) write(port, drawInput(value, planConversion(port, value, this.pictureOptions(at, options))));
      else if (isBuffer(value)) first.push((encoder) => encoder.copyBufferToBuffer(value, 0, player.buffers[port.buffer], 0, Math.ceil(byteLength(port) / 4) * 4));
      else write(port, encodeInput(port, value, options.real ?? false));
    });
    return first;
  }
}

/** @param {any} value */
const isBuffer = (value) => 'GPUBuffer' in globalThis && value instanceof GPUBuffer;

/**
 * @param {Port} port
 * @param {any} [said] the model's metadata of it
 * @returns {TensorInfo}
 */
function describeTensor({ name, type, shape, quantization }, said = {}) {
  const labels = (said.labels ?? []).find((/** @type {any} */ one) => one.kind === 'axis')?.texts ?? [];
  const values = (said.labels ?? []).find((/** @type {any} */ one) => one.kind === 'value')?.texts ?? [];
  return { name, type, shape, quantization, labels: labels.length ? labels : values, description: said.description ?? '', metadata: said };
}
