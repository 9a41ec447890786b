"""Pages of the browser benchmark: each loads an engine and a model, runs it, and tells when."""

from __future__ import annotations

_HEAD = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<script type="importmap">
{"imports": {"@litertjs/wasm-utils": "./@litertjs/wasm-utils/dist/index.js"}}
</script>
<script type="module">
const shape = new URLSearchParams(location.search).get('shape').split(',').map(Number);
const input = fetch('input.bin').then((answer) => answer.arrayBuffer())
  .then((bytes) => new Float32Array(bytes));
const text = (array) => {
  let letters = '';
  for (const byte of new Uint8Array(array.buffer, array.byteOffset, array.byteLength)) {
    letters += String.fromCharCode(byte);
  }
  return btoa(letters);
};
// Times count from the navigation. The scripts are all that is loaded but the model and its input.
async function measure(open) {
  try {
    const run = await open();
    const ready = performance.now();
    const numbers = await input;
    const outputs = await run(numbers);
    const first = performance.now();
    const times = [];
    for (let number = 0; number < 10; number++) {
      const began = performance.now();
      await run(numbers);
      times.push(performance.now() - began);
    }
    const files = performance.getEntriesByType('resource');
    const scripts = files.filter((one) => !/\\/(model|input)\\./.test(one.name))
      .reduce((sum, one) => sum + one.decodedBodySize, 0);
    times.sort((one, other) => one - other);
    globalThis.report = { ready, first, run: times[0], scripts, outputs: outputs.map(text) };
  } catch (error) {
    globalThis.report = { problem: String(error?.stack ?? error) };
  }
}
"""
_FOURFOLD = """
import { open } from './fourfold.js';
measure(async () => {
  const model = await open('model.fourfold', { cache: false });
  return async (numbers) => Object.values(await model.run([numbers]));
});
"""
_LITERT = """
import { loadAndCompile, loadLiteRt, Tensor } from './@litertjs/core/dist/index.js';
measure(async () => {
  await loadLiteRt('./@litertjs/core/wasm/', { jspi: JSPI });
  const model = await loadAndCompile('model.tflite', { accelerator: 'webgpu' });
  return async (numbers) => {
    const tensor = new Tensor(numbers, shape);
    const results = await model.run([tensor]);
    const outputs = [];
    for (const result of results) {
      const moved = await result.moveTo('wasm');
      outputs.push(new Float32Array(moved.toTypedArray()));
      moved.delete();
    }
    if (!tensor.deleted) tensor.delete();
    return outputs;
  };
});
"""
_ONNX_RUNTIME = """
import * as ort from './onnxruntime-web/dist/ort.webgpu.bundle.min.mjs';
measure(async () => {
  ort.env.wasm.wasmPaths = new URL('./onnxruntime-web/dist/', location.href).href;
  const options = { executionProviders: ['webgpu'] };
  const session = await ort.InferenceSession.create('model.onnx', options);
  return async (numbers) => {
    const tensor = new ort.Tensor('float32', numbers, shape);
    const results = await session.run({ [session.inputNames[0]]: tensor });
    return session.outputNames.map((name) => results[name].data);
  };
});
"""


def _page(script: str) -> str:
    return f"{_HEAD}{script}</script>\n"


PAGES = {
    "fourfold": _page(_FOURFOLD),
    "litert": _page(_LITERT.replace("JSPI", "false")),
    "litert-jspi": _page(_LITERT.replace("JSPI", "true")),
    "onnxruntime-web": _page(_ONNX_RUNTIME),
}
