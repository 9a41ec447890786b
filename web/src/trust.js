// Trust in prepared files: the levels of every player, and Ed25519 signatures.
// A browser runs only the WGSL of a file, which it checks itself, so only 'signed' restricts files here.

import { Container } from './container.js';
import { FourfoldError, damaged, messageOf } from './errors.js';
import { openSource } from './source.js';

/** @import { Source } from './source.js' */

const LEVELS = ['extension', 'data', 'all'];
const KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;
const TRAILER_BYTES = KEY_BYTES + SIGNATURE_BYTES;
const TRAILER_AT = 40; // in the header: the size of the key and signature at the end of the file
const DOMAIN = new TextEncoder().encode('fourfold prepared file\0');

/**
 * Returns the source of a file that a level of trust allows. A signed file is read as a whole and verified.
 * @param {Source} source
 * @param {string} [trust]
 * @returns {Promise<Source>}
 */
export async function trustedSource(source, trust = 'extension') {
  if (LEVELS.includes(trust)) return source;
  const keys = /^signed:([0-9a-f]{64}(,[0-9a-f]{64})*)$/.exec(trust.toLowerCase())?.[1].split(',');
  if (!keys) {
    const why = `it must be ${LEVELS.join(', ')} or signed:KEY, where a key has 64 hexadecimal digits`;
    throw new FourfoldError(`trust is '${trust}'`, why, "pass the key that 'fourfold sign' prints");
  }
  await Container.open(source); // checks the header, and finds pieces that the browser has cached
  const bytes = Uint8Array.from(await source.read(0, source.size)); // a copy that the caller cannot change
  const size = new DataView(bytes.buffer).getUint32(TRAILER_AT, true);
  if (!size) {
    const fix = "sign it with 'fourfold sign', or load a signed file";
    throw new FourfoldError(`${source.title} is not signed`, "trust 'signed:KEY' opens only signed files", fix);
  }
  if (size !== TRAILER_BYTES || bytes.length < size) throw damaged(source.title, 'its signature has a wrong size');
  const key = bytes.subarray(bytes.length - TRAILER_BYTES, bytes.length - SIGNATURE_BYTES);
  const digits = Array.from(key, (byte) => byte.toString(16).padStart(2, '0')).join('');
  if (!keys.includes(digits)) {
    const fix = 'load a file that is signed with your key, or pass this key if you trust its owner';
    throw new FourfoldError(`${source.title} is signed with another key`, `its key is ${digits}`, fix);
  }
  if (!(await isValid(bytes, key))) {
    await source.forget(); // the cached copy may be the changed one
    const fix = 'load it again from its author';
    throw new FourfoldError(`the signature of ${source.title} is not valid`, 'the file was changed after it was signed', fix);
  }
  return openSource(bytes, false, source.title);
}

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {Uint8Array<ArrayBuffer>} key
 */
async function isValid(bytes, key) {
  const end = bytes.length - SIGNATURE_BYTES;
  try {
    const digest = await crypto.subtle.digest('SHA-512', bytes.subarray(0, end));
    const message = Uint8Array.from([...DOMAIN, ...new Uint8Array(digest)]);
    const imported = await crypto.subtle.importKey('raw', key, 'Ed25519', false, ['verify']);
    return await crypto.subtle.verify('Ed25519', imported, bytes.subarray(end), message);
  } catch (error) {
    const why = `its WebCrypto has no Ed25519, or the page is not from https: ${messageOf(error)}`;
    throw new FourfoldError('this browser cannot verify signatures', why, 'use a current browser, and serve the page with https');
  }
}
