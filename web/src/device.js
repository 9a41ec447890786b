// Requests adapters and devices, compares them with a plan's requirements, and reports missing WebGPU.

import { FourfoldError, messageOf } from './errors.js';

const DEFAULTS = {
  maxBufferSize: 1 << 28,
  maxStorageBufferBindingSize: 1 << 27,
  maxStorageBuffersPerShaderStage: 8,
  maxComputeWorkgroupStorageSize: 16384,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
};
/** @typedef {keyof typeof DEFAULTS} Limit */

/** Limits that correspond to a plan's requirement. @type {Record<string, Limit[]>} */
const LIMITS = {
  buffer_bytes: ['maxBufferSize', 'maxStorageBufferBindingSize'],
  local_memory: ['maxComputeWorkgroupStorageSize'],
  work_group: ['maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX'],
  storage_buffers: ['maxStorageBuffersPerShaderStage'],
};
/** @type {Record<string, GPUFeatureName>} */
const FEATURES = { half_arithmetic: 'shader-f16', subgroups: 'subgroups' };
const KNOWN = ['language', 'language_version', 'alignment', 'loop_rounds'];

/** @returns {Promise<GPUAdapter>} */
export async function requestAdapter() {
  if (!globalThis.navigator?.gpu) {
    const why = globalThis.isSecureContext === false ? 'WebGPU needs a page over https or from localhost' : 'this browser does not support it';
    const fix = 'use a current Chrome, Edge, Safari or Firefox, over https';
    throw new FourfoldError('there is no WebGPU', why, fix);
  }
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (adapter) return adapter;
  const why = 'the browser supports WebGPU, but found no GPU';
  throw new FourfoldError('there is no GPU', why, "turn on hardware acceleration in its settings, or update the GPU's driver");
}

/**
 * Returns why an adapter cannot run a plan; empty if it can.
 * @param {Record<string, any>} requirements
 * @param {GPUAdapter} adapter
 * @returns {string[]}
 */
export function unmetRequirements(requirements, adapter) {
  const reasons = [];
  for (const [name, value] of Object.entries(requirements)) {
    const limit = LIMITS[name]?.find((one) => adapter.limits[one] < value);
    const feature = value ? FEATURES[name] : undefined;
    if (limit) reasons.push(`it needs ${value} of ${limit}, and the GPU has ${adapter.limits[limit]}`);
    else if (feature && !adapter.features.has(feature)) reasons.push(`it needs the feature ${feature}`);
    else if (!(name in LIMITS) && !(name in FEATURES) && !KNOWN.includes(name)) reasons.push(`it needs '${name}', which this player does not know`);
  }
  return reasons;
}

/**
 * Requests a device with the features and limits that a plan needs.
 * @param {GPUAdapter} adapter
 * @param {Record<string, any>} requirements
 * @returns {Promise<GPUDevice>}
 */
export async function requestDevice(adapter, requirements) {
  /** @type {Partial<Record<Limit, number>>} */
  const requiredLimits = {};
  /** @type {GPUFeatureName[]} */
  const requiredFeatures = [];
  for (const [name, value] of Object.entries(requirements)) {
    for (const limit of LIMITS[name] ?? []) if (value > DEFAULTS[limit]) requiredLimits[limit] = value;
    if (value && FEATURES[name]) requiredFeatures.push(FEATURES[name]);
  }
  try {
    return await adapter.requestDevice({ label: 'fourfold', requiredLimits, requiredFeatures });
  } catch (error) {
    throw new FourfoldError('the GPU cannot be opened', messageOf(error), 'close other pages that use it, or restart the browser');
  }
}
