// Translates modules of WGSL, one a line of standard input as JSON, by naga; prints what is refused.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const path = createRequire(`${folder}/`).resolve("naga-wasm");
const naga = await import(pathToFileURL(path));
const targets = {
  msl: (module, info) => naga.writeMsl(module, info, { langVersion: [2, 1] }),
  hlsl: (module, info) => naga.writeHlsl(module, info, { shaderModel: "6_2" }),
  spirv: (module, info) => naga.writeSpirv(module, info),
};
let count = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const [name, text] = JSON.parse(line);
  try {
    const module = naga.parseWgsl(text);
    const info = naga.validate(module);
    for (const [target, write] of Object.entries(targets)) {
      if (!write(module, info).length) throw new Error(`no ${target}`);
      count += 1;
    }
    info.free();
    module.free();
  } catch (error) {
    console.log(`${name}: ${error.message}`);
  }
}
console.log(`${count} translations`);
