// Runs one plan on one device: memory, pipelines, and a command buffer per run.

import { FourfoldError } from './errors.js';
import { COPY_DST, COPY_SRC, MAP_READ, STORAGE, UNIFORM } from './flags.js';
import { Pipelines } from './pipelines.js';

/** @import { Plan, PlanBuffer, Port } from './plan.js' */
/** @typedef {(encoder: GPUCommandEncoder) => void} Copy encodes a copy on the device before the kernels */

const ALIGNMENT = 64; // buffer sizes are multiples of it, in bytes
const BLOCK = 256; // alignment of a launch's uniforms, in bytes
const roundUp = (/** @type {number} */ size, /** @type {number} */ to) => Math.max(1, Math.ceil(size / to)) * to;

export class Player {
  #device;
  #plan;
  #words;
  #groups;
  #readBytes;
  /** @type {GPUError | undefined} */
  #fault;
  /** @type {GPUBuffer[]} */
  #staging = []; // for downloads, one per run in flight
  /** @type {Promise<unknown>} */
  #turn = Promise.resolve();
  #listener = (/** @type {GPUUncapturedErrorEvent} */ event) => (this.#fault ??= event.error);
  /**
   * @param {GPUDevice} device
   * @param {Plan} plan
   * @param {(done: number, total: number) => void} report
   */
  constructor(device, plan, report) {
    this.#device = device;
    this.#plan = plan;
    device.addEventListener('uncapturederror', this.#listener);
    this.pipelines = new Pipelines(device, plan, report);
    this.buffers = plan.buffers.map((one) => this.#makeBuffer(one));
    this.#words = this.#makeWords();
    this.#groups = plan.launches.map((_, at) => this.#bindLaunch(at));
    this.#readBytes = plan.outputs.reduce((sum, port) => sum + this.buffers[port.buffer].size, 0);
  }

  /** @param {PlanBuffer} buffer */
  #makeBuffer({ name, bytes }) {
    const usage = STORAGE | COPY_DST | COPY_SRC;
    return this.#device.createBuffer({ label: name, size: roundUp(bytes, ALIGNMENT), usage });
  }

  /** Writes one word per argument of a launch: a number, or the element offset of a buffer. */
  #makeWords() {
    const { launches } = this.#plan;
    const size = roundUp(4 * Math.max(1, ...launches.map(({ args }) => args.length)), BLOCK);
    const words = new Int32Array((size / 4) * Math.max(1, launches.length));
    launches.forEach(({ args }, launch) => {
      args.forEach((one, at) => (words[(launch * size) / 4 + at] = Array.isArray(one) ? one[1] : one));
    });
    const usage = UNIFORM | COPY_DST;
    const buffer = this.#device.createBuffer({ label: 'words', size: words.byteLength, usage });
    this.#device.queue.writeBuffer(buffer, 0, words);
    return { buffer, size };
  }

  /** @param {number} launch */
  #bindLaunch(launch) {
    const { entry, args } = this.#plan.launches[launch];
    const module = /** @type {import('./plan.js').Module} */ (this.#plan.modules.get(entry));
    const { buffer, size } = this.#words;
    const bound = module.bindings.map(({ argument }) => /** @type {[number, number]} */ (args[argument])[0]);
    const resources = [{ buffer, offset: launch * size, size }, ...bound.map((at) => ({ buffer: this.buffers[at] }))];
    const entries = resources.map((resource, binding) => ({ binding, resource }));
    return this.#device.createBindGroup({ label: entry, layout: this.pipelines.layout(module), entries });
  }

  /** @param {Uint8Array} constants */
  upload(constants) {
    this.#plan.buffers.forEach(({ kind, bytes, start }, at) => {
      if (kind === 'constants' && bytes) this.#write(this.buffers[at], constants.subarray(start ?? 0, (start ?? 0) + bytes));
    });
    this.reset(constants);
  }

  /**
   * Resets the model's state between runs.
   * @param {Uint8Array} constants
   */
  reset(constants) {
    this.#plan.buffers.forEach(({ kind, bytes, start }, at) => {
      if (kind !== 'variable') return;
      const first = start === undefined ? new Uint8Array(bytes) : constants.subarray(start, start + bytes);
      this.#write(this.buffers[at], first);
    });
  }

  get hasVariables() {
    return this.#plan.buffers.some(({ kind }) => kind === 'variable');
  }

  /**
   * @param {GPUBuffer} buffer
   * @param {Uint8Array} bytes
   */
  #write(buffer, bytes) {
    const whole = bytes.length & ~3; // the queue writes 4-byte words
    const given = /** @type {Uint8Array<ArrayBuffer>} */ (bytes);
    if (whole) this.#device.queue.writeBuffer(buffer, 0, given, 0, whole);
    if (whole === bytes.length) return;
    const rest = new Uint8Array(4);
    rest.set(bytes.subarray(whole));
    this.#device.queue.writeBuffer(buffer, whole, rest);
  }

  /**
   * Submits one run. Runs wait for each other only until they are submitted.
   * @param {(write: (port: Port, bytes: Uint8Array) => void) => Promise<Copy[]>} prepare writes inputs, and returns copies to encode
   * @param {boolean} fetched whether outputs are downloaded
   * @returns {Promise<GPUBuffer | undefined>} the buffer that receives the outputs, one after the other
   */
  begin(prepare, fetched) {
    const begun = this.#turn.then(async () => {
      const copies = await prepare((port, bytes) => this.#write(this.buffers[port.buffer], bytes));
      const staging = fetched ? (this.#staging.pop() ?? this.#makeStaging()) : undefined;
      await this.#submit(copies, staging);
      return staging;
    });
    this.#turn = begun.catch(() => {});
    return begun;
  }

  #makeStaging() {
    const usage = MAP_READ | COPY_DST;
    return this.#device.createBuffer({ label: 'outputs', size: this.#readBytes, usage });
  }

  /**
   * @param {Copy[]} copies
   * @param {GPUBuffer | undefined} staging
   */
  async #submit(copies, staging) {
    let encoder = this.#device.createCommandEncoder();
    for (const copy of copies) copy(encoder);
    let pass = encoder.beginComputePass();
    let last;
    for (const [at, { entry, groups }] of this.#plan.launches.entries()) {
      let pipeline = this.pipelines.ready.get(entry);
      if (!pipeline) { // submit finished work while the browser still compiles
        pass.end();
        this.#device.queue.submit([encoder.finish()]);
        await this.pipelines.waiting.get(entry);
        pipeline = /** @type {GPUComputePipeline} */ (this.pipelines.ready.get(entry));
        encoder = this.#device.createCommandEncoder();
        pass = encoder.beginComputePass();
        last = undefined;
      }
      if (pipeline !== last) pass.setPipeline((last = pipeline));
      pass.setBindGroup(0, this.#groups[at]);
      pass.dispatchWorkgroups(...groups);
    }
    pass.end();
    if (staging) this.#copyOutputs(encoder, staging);
    this.#device.queue.submit([encoder.finish()]);
  }

  /**
   * @param {GPUCommandEncoder} encoder
   * @param {GPUBuffer} staging
   */
  #copyOutputs(encoder, staging) {
    let at = 0;
    for (const port of this.#plan.outputs) {
      const buffer = this.buffers[port.buffer];
      encoder.copyBufferToBuffer(buffer, 0, staging, at, buffer.size);
      at += buffer.size;
    }
  }

  /**
   * Waits for a run and returns a copy of its outputs, and the offset of each.
   * @param {GPUBuffer} staging
   */
  async end(staging) {
    await staging.mapAsync(MAP_READ);
    const bytes = staging.getMappedRange().slice(0);
    staging.unmap();
    this.#staging.push(staging);
    this.#checkFault();
    let at = 0;
    const starts = this.#plan.outputs.map((port) => (at += this.buffers[port.buffer].size) - this.buffers[port.buffer].size);
    return { bytes, starts };
  }

  #checkFault() {
    if (!this.#fault) return;
    const { message } = this.#fault;
    this.#fault = undefined;
    throw new FourfoldError('the run failed on the GPU', message, 'prepare the model again, or open it on another device');
  }

  close() {
    this.#device.removeEventListener('uncapturederror', this.#listener);
    for (const buffer of [...this.buffers, this.#words.buffer, ...this.#staging]) buffer.destroy();
  }
}
