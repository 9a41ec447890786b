// A prepared file: its models, and the choice of the best plan for an adapter.

import { Container } from './container.js';
import { unmetRequirements } from './device.js';
import { FourfoldError, damaged } from './errors.js';
import { expandConstants, weightsOf } from './expand.js';
import { readPlan } from './plan.js';

/** @import { Source } from './source.js' */
/** @import { Plan } from './plan.js' */
/**
 * A plan's row in the index, as far as the player uses it.
 * @typedef {object} Row
 * @property {number} model
 * @property {string} device
 * @property {string} precision
 * @property {Record<string, any>} requirements
 * @property {{ kind: string, compute_units: number }} made_for
 * @property {string[]} parts
 * @property {number[]} ranks
 * @property {string} [signature]
 * @property {string} [postprocess]
 * @property {Record<string, number[]>} shapes
 * @property {Record<string, string>} pixels
 * @property {number[]} sections
 * @property {number[]} weights sections of the weights that plans refer to
 */
/** @typedef {{ model?: string, precision?: string, signature?: string }} Wanted */

const TEXT = new TextDecoder();
const MAX_EXPANSION = 1024; // a damaged file must not allocate any amount of memory
const ABOUT = 5; // behind the record of the model, the three sections of its plan, and its placement
// Where a plan's ranks say how well it suits devices of the kind that it was compiled for, and others.
const SAME_KIND = 1;
const OTHER_KIND = 3;

export class Prepared {
  #file;
  #index;
  #title;
  /**
   * @param {Container} file
   * @param {{ models: { name: string }[], plans: Row[] }} index
   */
  constructor(file, index) {
    this.#file = file;
    this.#index = index;
    this.#title = file.source.title;
  }

  /** @param {Source} source */
  static async open(source) {
    const file = await Container.open(source);
    const index = await file.json(0, 'index');
    if (!Array.isArray(index?.models) || !Array.isArray(index?.plans)) throw damaged(source.title, 'its index is invalid');
    return new Prepared(file, index);
  }

  /**
   * Returns the plan of a model that fits an adapter best.
   * @param {Wanted} wanted
   * @param {GPUAdapter} adapter
   * @returns {Row}
   */
  choose(wanted, adapter) {
    const model = this.#chooseModel(wanted.model);
    const rows = this.#index.plans.filter((row) => row.model === model && row.requirements.language === 'wgsl' && isWhole(row));
    if (!rows.length) {
      const fix = "prepare the model with 'fourfold prepare --web'";
      throw new FourfoldError(`${this.#title} has no plan for browsers`, 'none of its plans is in WGSL', fix);
    }
    const fitting = rows.filter((row) => isWanted(row, wanted));
    if (!fitting.length) {
      const why = `it was prepared for: ${rows.map((row) => `${row.precision} ${row.signature}`).join('; ')}`;
      throw new FourfoldError(`${this.#title} has no plan with these options`, why, "add one with 'fourfold prepare --web --add'");
    }
    return this.#firstPlayable(fitting, adapter);
  }

  /** @param {string | undefined} name */
  #chooseModel(name) {
    const names = this.#index.models.map((one) => one.name);
    if (name === undefined && names.length === 1) return 0;
    if (name !== undefined && names.includes(name)) return names.indexOf(name);
    const what = `${this.#title} has ${name === undefined ? `${names.length} models` : `no model '${name}'`}`;
    throw new FourfoldError(what, 'a model is selected by name', `pass {model: ...} with one of ${names.join(', ')}`);
  }

  /**
   * @param {Row[]} rows
   * @param {GPUAdapter} adapter
   */
  #firstPlayable(rows, adapter) {
    const reasons = rows.map((row) => unmetRequirements(row.requirements, adapter));
    const able = rows.filter((_, at) => !reasons[at].length);
    if (!able.length) {
      const why = rows.map((row, at) => `the ${row.precision} plan: ${reasons[at].join(', and ')}`).join('; ');
      throw new FourfoldError(`no plan in ${this.#title} can run on this GPU`, why, 'use another browser or GPU, or a smaller model');
    }
    const kind = kindOf(adapter);
    const rank = (/** @type {Row} */ row) => row.ranks[row.made_for.kind === kind ? SAME_KIND : OTHER_KIND];
    return able.reduce((best, row) => (rank(row) < rank(best) ? row : best));
  }

  /**
   * @param {Row} row
   * @param {(bytes: number) => void} report
   * @returns {Promise<Plan>}
   */
  async plan(row, report) {
    const [, plan, text] = row.sections;
    const [record, code] = await this.#file.sections([[plan, 'plan'], [text, 'text']], report);
    const found = readPlan(JSON.parse(TEXT.decode(record)), TEXT.decode(code), this.#title);
    if (found.constants > MAX_EXPANSION * this.#file.source.size) throw damaged(this.#title, 'its constants are too large');
    return found;
  }

  /**
   * Returns the plan's block of constants.
   * @param {Row} row
   * @param {Plan} plan
   * @param {(bytes: number) => void} [report]
   */
  async constants(row, plan, report) {
    const numbers = this.#checked(() => weightsOf(plan.pieces));
    /** @type {[number, string][]} */
    const wanted = numbers.map((number) => [row.weights[number], 'weights']);
    const [remaining, ...found] = await this.#file.sections([[row.sections[3], 'constants'], ...wanted], report);
    const weights = new Map(numbers.map((number, at) => [number, found[at]]));
    return this.#checked(() => expandConstants(plan.constants, plan.pieces, remaining, weights));
  }

  /**
   * @template T
   * @param {() => T} expand
   */
  #checked(expand) {
    try {
      return expand();
    } catch (error) {
      throw damaged(this.#title, `its constants are invalid: ${error}`);
    }
  }

  /**
   * Returns the model's metadata.
   * @param {Row} row
   */
  async about(row) {
    return row.sections.length > ABOUT ? (await this.#file.json(row.sections[ABOUT], 'about')).metadata : {};
  }

  /**
   * Returns the bytes of all sections that a plan needs.
   * @param {Row} row
   */
  bytes(row) {
    return [...row.sections.slice(1, 4), ...row.weights].reduce((sum, section) => sum + this.#file.size(section), 0);
  }
}

/**
 * Whether all of a model runs on the GPU: browsers have no CPU engines.
 * @param {Row} row
 */
const isWhole = ({ parts }) => parts.length === 1 && parts[0] === 'gpu';

/**
 * @param {Row} row
 * @param {Wanted} wanted
 */
const isWanted = (row, { precision, signature }) =>
  [undefined, row.precision].includes(precision) && [undefined, row.signature].includes(signature);

/**
 * Returns 'gpu', or 'other' for a software adapter.
 * @param {GPUAdapter} adapter
 */
function kindOf({ info }) {
  const software = info?.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe/i.test(`${info?.architecture} ${info?.description}`);
  return software ? 'other' : 'gpu';
}
