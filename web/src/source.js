// Sources of a file's bytes: memory, or a server with range requests.

import { FourfoldError, messageOf } from './errors.js';
import { PieceCache } from './cache.js';

/**
 * Bytes of a file. `read` returns those from `start` to `end`; `report` is called with received bytes.
 * `settle` sets the fingerprint of the content, and `forget` drops cached pieces after a checksum error.
 * @typedef {object} Source
 * @property {string} title
 * @property {number} size
 * @property {(start: number, end: number, report?: (bytes: number) => void) => Promise<Uint8Array>} read
 * @property {(fingerprint: string) => Promise<void>} settle
 * @property {() => Promise<void>} forget
 */

const HEAD = 1 << 16; // bytes of the first request: the index, and the whole plan of small models

/**
 * @param {string | URL | Blob | ArrayBuffer | ArrayBufferView} from
 * @param {boolean} cached whether the browser caches the file
 * @param {string} [title] what errors call bytes in memory
 * @returns {Promise<Source>}
 */
export async function openSource(from, cached, title) {
  if (typeof from === 'string' || from instanceof URL) {
    const base = globalThis.document?.baseURI ?? globalThis.location?.href;
    return UrlSource.open(new URL(from, base).href, cached);
  }
  if (from instanceof Blob) return new MemorySource(new Uint8Array(await from.arrayBuffer()));
  if (ArrayBuffer.isView(from)) {
    return new MemorySource(new Uint8Array(from.buffer, from.byteOffset, from.byteLength), title);
  }
  if (from instanceof ArrayBuffer) return new MemorySource(new Uint8Array(from));
  const fix = 'pass a URL, a Blob, an ArrayBuffer or a typed array';
  throw new FourfoldError('this is not a prepared file', `it is of type ${typeof from}`, fix);
}

class MemorySource {
  #bytes;
  /**
   * @param {Uint8Array} bytes
   * @param {string} [title]
   */
  constructor(bytes, title = 'the prepared model') {
    this.#bytes = bytes;
    this.title = title;
    this.size = bytes.length;
  }
  /**
   * @param {number} start
   * @param {number} end
   * @param {(bytes: number) => void} [report]
   */
  async read(start, end, report) {
    report?.(end - start);
    return this.#bytes.subarray(start, end);
  }
  async settle() {}
  async forget() {}
}

class UrlSource {
  #cache;
  #head;
  /**
   * @param {string} url
   * @param {PieceCache} cache
   * @param {Uint8Array} head the first bytes, or all of them
   * @param {number} size
   */
  constructor(url, cache, head, size) {
    this.title = url;
    this.#cache = cache;
    this.#head = head;
    this.size = size;
  }

  /**
   * @param {string} url
   * @param {boolean} cached
   */
  static async open(url, cached) {
    const cache = await PieceCache.open(url, cached);
    try {
      const { bytes, size } = await fetchRange(url, 0, HEAD);
      return new UrlSource(url, cache, bytes, size);
    } catch (error) {
      const kept = error instanceof FourfoldError ? undefined : await cache.head();
      if (!kept) throw error instanceof FourfoldError ? error : unreachable(url, error);
      return new UrlSource(url, cache, kept.bytes, kept.size); // offline: use the cache
    }
  }

  /**
   * @param {number} start
   * @param {number} end
   * @param {(bytes: number) => void} [report]
   */
  async read(start, end, report) {
    if (end <= this.#head.length) {
      report?.(end - start);
      return this.#head.subarray(start, end);
    }
    const kept = await this.#cache.get(start, end);
    if (kept) {
      report?.(end - start);
      return kept;
    }
    const { bytes, first } = await this.#fetch(start, end, report);
    const piece = bytes.subarray(start - first, end - first);
    this.#cache.put(start, end, piece);
    return piece;
  }

  /**
   * @param {number} start
   * @param {number} end
   * @param {(bytes: number) => void} [report]
   */
  async #fetch(start, end, report) {
    try {
      const found = await fetchRange(this.title, start, end, report);
      if (found.first === 0) this.#head = found.bytes; // the server sent the whole file
      return found;
    } catch (error) {
      throw error instanceof FourfoldError ? error : unreachable(this.title, error);
    }
  }

  /** @param {string} fingerprint */
  settle(fingerprint) {
    return this.#cache.settle(fingerprint, this.#head.subarray(0, HEAD), this.size);
  }

  forget() {
    return this.#cache.clear();
  }
}

/**
 * @param {string} url
 * @param {unknown} error
 */
const unreachable = (url, error) =>
  new FourfoldError(`${url} cannot be fetched`, messageOf(error), 'check the address and the connection');

/**
 * Fetches bytes of a URL, with their offset and the file's size. A server without range support sends all.
 * @param {string} url
 * @param {number} start
 * @param {number} end
 * @param {(bytes: number) => void} [report]
 */
async function fetchRange(url, start, end, report) {
  const answer = await fetch(url, {
    headers: { Range: `bytes=${start}-${end - 1}` },
    cache: 'no-cache', // revalidate
  });
  if (!answer.ok) {
    const fix = 'check the address, and that the server has the file';
    throw new FourfoldError(`${url} cannot be fetched`, `the server responds with ${answer.status}`, fix);
  }
  const bytes = await readBody(answer, report);
  if (answer.status !== 206) return { bytes, first: 0, size: bytes.length };
  const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(answer.headers.get('Content-Range') ?? '');
  // A server of another origin may hide Content-Range. Then the file's own header has the size.
  const size = range ? Number(range[2]) : declaredSize(bytes, start);
  return { bytes, first: range ? Number(range[1]) : start, size };
}

/**
 * @param {Uint8Array} bytes
 * @param {number} start
 */
function declaredSize(bytes, start) {
  if (start || bytes.length < 24) return bytes.length;
  return Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(16, true));
}

/**
 * @param {Response} answer
 * @param {(bytes: number) => void} [report]
 */
async function readBody(answer, report) {
  if (!report || !answer.body) return new Uint8Array(await answer.arrayBuffer());
  const reader = answer.body.getReader();
  const pieces = [];
  let size = 0;
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    pieces.push(step.value);
    size += step.value.length;
    report(step.value.length);
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}
