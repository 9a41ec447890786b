// Bundles the player into one script: node build.mjs [OUTPUT], in a folder where esbuild is installed.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const { build } = createRequire(`${process.cwd()}/`)('esbuild');

/**
 * Minifies kernel text, since esbuild leaves strings alone. Names of one letter stay: channels use them.
 * @param {string} text
 */
function packKernel(text) {
  const declared = text.matchAll(/\b(?:let|var(?:<[^>]*>)?|fn|struct) (\w{2,})|\b(\w{2,}): (?=vec|u32|f32)/g);
  const names = new Set([...declared].map(([, one, other]) => one ?? other));
  names.delete('main');
  const short = new Map([...names].map((name, at) => [name, `_${at.toString(36)}`]));
  const renamed = text.replace(/[a-zA-Z_]\w+/g, (word) => short.get(word) ?? word);
  return renamed.trim().replace(/\s+/g, ' ').replace(/ ?([{}()[\],;:=<>+*/&|!-]) ?/g, '$1');
}

const kernels = {
  name: 'kernels',
  /** @param {any} builder */
  setup(builder) {
    builder.onLoad({ filter: /_kernel\.js$/ }, async (/** @type {{ path: string }} */ { path }) => {
      const source = await readFile(path, 'utf8');
      return { contents: source.replace(/`([^`]*)`/g, (_, text) => `\`${packKernel(text)}\``) };
    });
  },
};

await build({
  entryPoints: [`${import.meta.dirname}/src/fourfold.js`],
  outfile: process.argv[2] ?? `${import.meta.dirname}/dist/fourfold.js`,
  bundle: true,
  format: 'esm',
  minify: true,
  target: 'es2022',
  plugins: [kernels],
});
