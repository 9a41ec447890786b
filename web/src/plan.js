// A plan: buffers, launches and modules, read from a file's record and checked.

import { damaged } from './errors.js';
import { byteLength } from './tensor.js';

/** @import { Tensor } from './tensor.js' */
/** @typedef {Tensor & { buffer: number }} Port */
/** @typedef {{ name: string, kind: string, bytes: number, start?: number }} PlanBuffer */
/** @typedef {number | [number, number]} Argument a number, or a buffer and the elements to skip in it */
/** @typedef {{ entry: string, args: Argument[], groups: [number, number, number] }} Launch */
/** @typedef {{ kind: GPUBufferBindingType, argument: number }} Binding the buffer of an argument; binding 0 holds the launch's uniforms */
/** @typedef {{ name: string, code: string, bindings: Binding[] }} Module */
/**
 * @typedef {object} Plan
 * @property {string} precision
 * @property {number} constants bytes of the block of constants
 * @property {any[]} pieces constants that are stored apart, as records
 * @property {PlanBuffer[]} buffers
 * @property {Launch[]} launches
 * @property {Map<string, Module>} modules in the order of their first use
 * @property {Port[]} inputs
 * @property {Port[]} outputs
 */

const KINDS = ['arena', 'constants', 'input', 'output', 'variable'];

/**
 * @param {any} record the section 'plan'
 * @param {string} text the section 'text'
 * @param {string} title of the file
 * @returns {Plan}
 */
export function readPlan(record, text, title) {
  try {
    return checkedPlan(record, text);
  } catch (error) {
    throw damaged(title, `its plan record is invalid: ${error}`);
  }
}

/**
 * @param {any} record
 * @param {string} text
 * @returns {Plan}
 */
function checkedPlan(record, text) {
  const [size, pieces] = record.constants;
  const constants = whole(size);
  const buffers = record.buffers.map(readBuffer);
  const modules = readModules(text);
  for (const { name, kind, bytes, start } of buffers) {
    const copied = kind === 'constants' || start !== undefined;
    check(!copied || (start ?? 0) + bytes <= constants, `'${name}' exceeds the constants`);
  }
  return {
    precision: String(record.precision),
    constants,
    pieces: [...pieces],
    buffers,
    modules,
    launches: record.launches.map((/** @type {any[]} */ item) => readLaunch(item, buffers, modules)),
    inputs: readPorts(record.inputs, record.input_names, buffers),
    outputs: readPorts(record.outputs, record.output_names, buffers),
  };
}

/**
 * @param {any[]} item
 * @returns {PlanBuffer}
 */
function readBuffer([name, kind, bytes, start]) {
  check(KINDS.includes(kind), `unknown buffer kind '${kind}'`);
  return { name: String(name), kind, bytes: whole(bytes), start: start === undefined ? start : whole(start) };
}

/**
 * @param {any[]} item
 * @param {PlanBuffer[]} buffers
 * @param {Map<string, Module>} modules
 * @returns {Launch}
 */
function readLaunch([entry, args, grid, local], buffers, modules) {
  const module = modules.get(entry);
  check(module, `there is no module '${entry}'`);
  for (const one of args) {
    check(!Array.isArray(one) || (buffers[one[0]] && whole(one[1]) >= 0), `'${entry}' uses buffer ${one}`);
  }
  for (const { kind, argument } of /** @type {Module} */ (module).bindings) {
    check(Array.isArray(args[argument]), `'${entry}' has no buffer for ${kind} ${argument}`);
  }
  const groups = [0, 1, 2].map((axis) => whole((grid[axis] ?? 1) / (local[axis] ?? 1)));
  return { entry, args, groups: /** @type {[number, number, number]} */ (groups) };
}

/**
 * Reads the modules of a program. Each begins with a line that lists its bindings after the launch's
 * uniforms: `//# conv2d_0 r0 r1 w3` reads arguments 0 and 1, and writes argument 3.
 * @param {string} text
 * @returns {Map<string, Module>}
 */
function readModules(text) {
  const modules = new Map();
  for (const piece of text.split(/^(?=\/\/# )/m)) {
    const found = /^\/\/# (\w+)((?: [rw]\d+)*)\n/.exec(piece);
    if (!found) continue; // text before the first module
    const [, name, marks] = found;
    modules.set(name, { name, code: piece, bindings: (marks.match(/[rw]\d+/g) ?? []).map(readBinding) });
  }
  return modules;
}

/**
 * @param {string} mark
 * @returns {Binding}
 */
const readBinding = (mark) => ({ kind: mark[0] === 'r' ? 'read-only-storage' : 'storage', argument: Number(mark.slice(1)) });

/**
 * @param {any[]} items
 * @param {string[]} names
 * @param {PlanBuffer[]} buffers
 * @returns {Port[]}
 */
function readPorts(items, names, buffers) {
  check(items.length === names.length, 'the numbers of names and ports differ');
  return items.map((item, at) => {
    const port = readPort(item, names[at]);
    check(buffers[port.buffer]?.bytes >= byteLength(port), `'${port.name}' does not fit its buffer`);
    return port;
  });
}

/**
 * @param {any[]} item
 * @param {string} name
 * @returns {Port}
 */
function readPort([, kind, buffer, how, limits], name) {
  const [, type, sizes] = /** @type {RegExpExecArray} */ (/^(\w+)\[([\d,]*)\]$/.exec(kind));
  const shape = sizes ? sizes.split(',').map(Number) : [];
  const elements = shape.reduce((product, side) => product * side, 1);
  const quantization = how ? { scale: how[0], zeroPoint: how[1], axis: how[2] } : undefined;
  check(limits === undefined || (/^i(32|64)$/.test(type) && limits.every(Number.isSafeInteger)), `'${name}' has invalid limits`);
  return { name: String(name), type, shape, elements, buffer: whole(buffer), quantization, limits };
}

/** @param {unknown} value */
function whole(value) {
  check(Number.isSafeInteger(value) && Number(value) >= 0, `${value} is not a size`);
  return Number(value);
}

/**
 * @param {unknown} holds
 * @param {string} otherwise
 */
function check(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}
