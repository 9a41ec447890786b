// The GPU as a browser offers it: adapters and devices, what plans need of them, and words where there is none.

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

/** Which limits and features a requirement of a plan stands for. @type {Record<string, Limit[]>} */
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
    const why = globalThis.isSecureContext === false ? 'pages get it over https or from localhost only' : 'this browser does not offer it';
    const fix = 'use a current Chrome, Edge, Safari or Firefox, over https';
    throw new FourfoldError('there is no WebGPU', why, fix);
  }
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (adapter) return adapter;
  const why = 'the browser has WebGPU, but no GPU for it';
  throw new FourfoldError('there is no GPU', why, "turn on hardware acceleration in its settings, or update the GPU's driver");
}

/**
 * Why an adapter cannot play a plan; nothing where it can.
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
 * A device with what a plan needs, and no more.
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
