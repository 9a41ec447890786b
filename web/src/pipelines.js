// Pipelines of a plan, compiled in parallel by the browser and requested in the order of their launches.

import { FourfoldError, messageOf } from './errors.js';
import { COMPUTE } from './flags.js';

/** @import { Module, Plan } from './plan.js' */

export class Pipelines {
  #device;
  /** @type {Map<string, GPUBindGroupLayout>} */
  #layouts = new Map();
  /**
   * @param {GPUDevice} device
   * @param {Plan} plan
   * @param {(done: number, total: number) => void} report
   */
  constructor(device, plan, report) {
    this.#device = device;
    /** @type {Map<string, GPUComputePipeline>} */
    this.ready = new Map();
    /** @type {Map<string, Promise<void>>} */
    this.waiting = new Map();
    const modules = [...plan.modules.values()];
    for (const module of modules) {
      const made = this.#compile(module).then((pipeline) => {
        this.ready.set(module.name, pipeline);
        report(this.ready.size, modules.length);
      });
      made.catch(() => {}); // reported by the run that waits for it
      this.waiting.set(module.name, made);
    }
  }

  /** Resolves when all pipelines are compiled. */
  async all() {
    await Promise.all(this.waiting.values());
  }

  /**
   * Returns the bind group layout of a module, without its pipeline. Modules of the same kind share it.
   * @param {Module} module
   */
  layout({ bindings }) {
    /** @type {GPUBufferBindingType[]} */
    const kinds = ['uniform', ...bindings.map(({ kind }) => kind)];
    const key = kinds.join();
    const known = this.#layouts.get(key);
    if (known) return known;
    const entries = kinds.map((type, binding) => ({ binding, visibility: COMPUTE, buffer: { type } }));
    const made = this.#device.createBindGroupLayout({ entries });
    this.#layouts.set(key, made);
    return made;
  }

  /**
   * @param {Module} module
   * @returns {Promise<GPUComputePipeline>}
   */
  async #compile(module) {
    const device = this.#device;
    const compiled = device.createShaderModule({ label: module.name, code: module.code });
    const layout = device.createPipelineLayout({ bindGroupLayouts: [this.layout(module)] });
    try {
      const compute = { module: compiled, entryPoint: module.name };
      return await device.createComputePipelineAsync({ label: module.name, layout, compute });
    } catch (error) {
      const { messages } = await compiled.getCompilationInfo().catch(() => ({ messages: [] }));
      const errors = messages.filter((one) => one.type === 'error').map((one) => `line ${one.lineNum}: ${one.message}`);
      const why = errors.join('; ') || messageOf(error);
      throw new FourfoldError(`the kernel '${module.name}' cannot be built`, why, 'update the browser, or prepare the model again');
    }
  }
}
