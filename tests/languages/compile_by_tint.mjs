// Which modules of WGSL Chrome's compiler refuses: node compile_by_tint.mjs FOLDER, modules as lines of
// [entry, text]. A line 'refused: ...' for each that it does, among Dawn's own, then how many it takes. No GPU is needed.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const { create, globals } = await import(createRequire(`${process.argv[2]}/`).resolve('webgpu'));
Object.assign(globalThis, globals);
globalThis.gpu = create(['backend=null']); // kept: devices do not outlive it
const adapter = await gpu.requestAdapter();
const device = await adapter.requestDevice({ requiredFeatures: ['shader-f16', 'subgroups'] });
const lines = readFileSync(0, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
const modules = lines.map(([, code]) => device.createShaderModule({ code }));
let taken = 0;
for (const [at, module] of modules.entries()) {
  const { messages } = await module.getCompilationInfo();
  const error = messages.find(({ type }) => type === 'error');
  if (error) console.log(`refused: ${lines[at][0]}: line ${error.lineNum}: ${error.message.split('\n')[0]}`);
  else taken++;
}
console.log(`${taken} taken`);
process.exit(0);
