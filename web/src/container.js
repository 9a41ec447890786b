// The file format: a header, a table of sections, and sections. All are verified by checksum.

import { crc32 } from './crc32.js';
import { FourfoldError, damaged } from './errors.js';

/** @import { Source } from './source.js' */
/** @typedef {{ name: string, offset: number, size: number, crc: number, expanded: number }} Entry expanded is the size before compression, or 0 */

const MAGIC = 'FOURFOLD';
const VERSION = 6;
const HEADER = 64;
const ENTRY = 48;
const MAX_SECTIONS = 1 << 20;
const MAX_COMPRESSION = 1032; // deflate cannot shrink more
const MAX_GAP_BYTES = 1 << 16; // between two sections that are fetched in one request
const TEXT = new TextDecoder();

/** A file of sections, which are read on demand. */
export class Container {
  #entries;
  /**
   * @param {Source} source
   * @param {Entry[]} entries
   */
  constructor(source, entries) {
    this.source = source;
    this.#entries = entries;
  }

  /** @param {Source} source */
  static async open(source) {
    const header = await readHeader(source);
    const table = await source.read(header.start, header.start + header.count * ENTRY);
    if (crc32(table) !== header.crc) throw damaged(source.title, 'the checksum of its section table does not match');
    const entries = Array.from({ length: header.count }, (_, number) => readEntry(source, table, number));
    const expanded = entries.reduce((sum, entry) => sum + entry.expanded, 0);
    if (expanded > MAX_COMPRESSION * source.size) throw damaged(source.title, 'its sections are impossibly large before compression');
    await source.settle(header.fingerprint);
    return new Container(source, entries);
  }

  /**
   * Reads several sections, in as few requests as possible.
   * @param {[number, string][]} wanted section numbers, each with its expected name
   * @param {(bytes: number) => void} [report]
   * @returns {Promise<Uint8Array[]>}
   */
  async sections(wanted, report) {
    const entries = wanted.map(([number, name]) => this.#entry(number, name));
    const order = [...new Set(entries)].sort((one, other) => one.offset - other.offset);
    /** @type {Entry[][]} */
    const runs = [];
    for (const entry of order) {
      const last = runs.at(-1)?.at(-1);
      if (last && entry.offset - last.offset - last.size < MAX_GAP_BYTES) runs.at(-1)?.push(entry);
      else runs.push([entry]);
    }
    /** @type {Map<Entry, Uint8Array>} */
    const found = new Map();
    await Promise.all(runs.map((run) => this.#readRun(run, found, report)));
    return entries.map((entry) => /** @type {Uint8Array} */ (found.get(entry)));
  }

  /**
   * @param {number} number
   * @param {string} name
   */
  async json(number, name) {
    const [bytes] = await this.sections([[number, name]]);
    try {
      return JSON.parse(TEXT.decode(bytes));
    } catch (error) {
      throw damaged(this.source.title, `section ${number} ('${name}') is not valid JSON: ${error}`);
    }
  }

  /** @param {number} number */
  size(number) {
    return this.#entries[number]?.size ?? 0;
  }

  /**
   * @param {Entry[]} run
   * @param {Map<Entry, Uint8Array>} found
   * @param {(bytes: number) => void} [report]
   */
  async #readRun(run, found, report) {
    const start = run[0].offset;
    const last = run[run.length - 1];
    const bytes = await this.source.read(start, last.offset + last.size, report);
    for (const entry of run) {
      const data = bytes.subarray(entry.offset - start, entry.offset - start + entry.size);
      if (data.length !== entry.size || crc32(data) !== entry.crc) {
        await this.source.forget(); // the cached copy may be the damaged one
        throw damaged(this.source.title, `the checksum of its section '${entry.name}' does not match`);
      }
      found.set(entry, entry.expanded ? await this.#expand(entry, data) : data);
    }
  }

  /**
   * Returns the content of a compressed section. Its size was checked before, and is not exceeded.
   * @param {Entry} entry
   * @param {Uint8Array} data
   */
  async #expand(entry, data) {
    const stream = new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (data)]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
    const reader = stream.getReader();
    try {
      const content = new Uint8Array(entry.expanded);
      let used = 0;
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        content.set(piece.value, used); // throws a RangeError beyond the end
        used += piece.value.length;
      }
      if (used === entry.expanded) return content;
    } catch {
      reader.cancel().catch(() => {}); // the stream may have failed itself
    }
    throw damaged(this.source.title, `its section '${entry.name}' does not expand to ${entry.expanded} bytes`);
  }

  /**
   * @param {number} number
   * @param {string} name
   */
  #entry(number, name) {
    const entry = this.#entries[number];
    if (entry?.name === name) return entry;
    throw damaged(this.source.title, `section ${number} is '${entry?.name}' instead of '${name}'`);
  }
}

/** @param {Source} source */
async function readHeader(source) {
  const bytes = await source.read(0, Math.min(HEADER, source.size));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (bytes.length < HEADER || TEXT.decode(bytes.subarray(0, 8)) !== MAGIC) {
    throw damaged(source.title, 'it does not start like a fourfold file');
  }
  if (crc32(bytes.subarray(0, HEADER - 4)) !== view.getUint32(60, true)) {
    throw damaged(source.title, 'the checksum of its header does not match');
  }
  const version = view.getUint32(8, true);
  if (version !== VERSION) {
    const fix = 'use fourfold.js of the fourfold version that wrote it, or prepare the model again';
    throw new FourfoldError(`${source.title} has format ${version}`, `this player reads format ${VERSION}`, fix);
  }
  const size = Number(view.getBigUint64(16, true));
  if (view.getUint32(12, true) !== HEADER || size !== source.size) {
    throw damaged(source.title, `it has ${source.size} bytes instead of ${size}`);
  }
  const start = Number(view.getBigUint64(24, true));
  const count = view.getUint32(32, true);
  if (count > MAX_SECTIONS || start < HEADER || start + count * ENTRY > size) {
    throw damaged(source.title, 'its section table lies outside the file');
  }
  const crc = view.getUint32(36, true);
  return { start, count, crc, fingerprint: `${crc.toString(16)}-${view.getUint32(60, true).toString(16)}` };
}

/**
 * @param {Source} source
 * @param {Uint8Array} table
 * @param {number} number
 * @returns {Entry}
 */
function readEntry(source, table, number) {
  const at = number * ENTRY;
  const view = new DataView(table.buffer, table.byteOffset + at, ENTRY);
  const name = TEXT.decode(table.subarray(at, at + 16)).replace(/\0+$/, '');
  const offset = Number(view.getBigUint64(16, true));
  const size = Number(view.getBigUint64(24, true));
  if (offset % 64 || offset < HEADER || offset + size > source.size) {
    throw damaged(source.title, 'a section lies outside the file');
  }
  const expanded = Number(view.getBigUint64(40, true));
  if (expanded > MAX_COMPRESSION * size) throw damaged(source.title, 'a section has an impossible size before compression');
  return { name, offset, size, crc: view.getUint32(32, true), expanded };
}
