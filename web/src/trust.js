// Trust in prepared files: the levels of every player, and Ed25519 signatures.
// A browser runs only the WGSL of a file, which it checks itself, so only 'signed' restricts files here.

import { Container } from './container.js';
import { FourfoldError, messageOf } from './errors.js';
import { openSource } from './source.js';

/** @import { Source } from './source.js' */

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
export async function trustedSource(source, trust = 'all') {
  if (['extension', 'data', 'all'].includes(trust)) return source;
  const keys = /^signed:([0-9a-f]{64}(,[0-9a-f]{64})*)$/.exec(trust.toLowerCase())?.[1].split(',');
  if (!keys) throw new FourfoldError(`trust is '${trust}'`, 'it is no level of trust', "pass 'signed:' and a key of 64 hexadecimal digits");
  await Container.open(source); // checks the header, and finds pieces that the browser has cached
  const bytes = Uint8Array.from(await source.read(0, source.size)); // a copy that the caller cannot change
  const size = new DataView(bytes.buffer).getUint32(TRAILER_AT, true);
  const key = bytes.subarray(-TRAILER_BYTES, -SIGNATURE_BYTES);
  const digits = Array.from(key, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const problem = !size ? 'is not signed' : !keys.includes(digits) ? 'is signed with another key' : size !== TRAILER_BYTES || !(await isValid(bytes, key)) ? 'was changed after it was signed' : '';
  if (!problem) return openSource(bytes, false, source.title);
  await source.forget(); // the cached copy may be a wrong one
  throw new FourfoldError(`${source.title} ${problem}`, `trust is '${trust}'`, 'load a file that is signed with this key');
}

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {Uint8Array<ArrayBuffer>} key
 */
async function isValid(bytes, key) {
  try {
    const digest = await crypto.subtle.digest('SHA-512', bytes.subarray(0, -SIGNATURE_BYTES));
    const message = Uint8Array.from([...DOMAIN, ...new Uint8Array(digest)]);
    const imported = await crypto.subtle.importKey('raw', key, 'Ed25519', false, ['verify']);
    return await crypto.subtle.verify('Ed25519', imported, bytes.subarray(-SIGNATURE_BYTES), message);
  } catch (error) {
    throw new FourfoldError('this browser cannot verify signatures', messageOf(error), 'use a current browser, and https');
  }
}
