// Caches pieces of files in the browser's cache storage, so that a second visit fetches only a header.
// The cache is optional: if storage is full or forbidden, the player works without it.

const NAME = 'fourfold';

/** The cached pieces of one URL, each stored with the fingerprint of its content. */
export class PieceCache {
  #url;
  #cache;
  #fingerprint = '';
  /**
   * @param {string} url
   * @param {Cache | undefined} cache
   */
  constructor(url, cache) {
    this.#url = url;
    this.#cache = cache;
  }

  /**
   * @param {string} url
   * @param {boolean} wanted
   */
  static async open(url, wanted) {
    const possible = wanted && 'caches' in globalThis && /^https?:/.test(url);
    return new PieceCache(url, possible ? await caches.open(NAME).catch(() => undefined) : undefined);
  }

  /** @param {string} piece */
  #key(piece) {
    const url = new URL(this.#url);
    url.searchParams.set('fourfold-piece', piece);
    return url.href;
  }

  /** Returns the cached beginning of the file, and the file's size. */
  async head() {
    const found = await this.#match('head');
    if (!found) return undefined;
    const size = Number(found.headers.get('X-Size'));
    return { bytes: new Uint8Array(await found.arrayBuffer()), size };
  }

  /**
   * Sets the current content, and deletes cached pieces of any other.
   * @param {string} fingerprint
   * @param {Uint8Array} head
   * @param {number} size
   */
  async settle(fingerprint, head, size) {
    this.#fingerprint = fingerprint;
    const kept = await this.#match('head');
    if (kept?.headers.get('X-Fingerprint') === fingerprint) return;
    await this.clear();
    await this.#store('head', head, { 'X-Fingerprint': fingerprint, 'X-Size': String(size) });
  }

  /**
   * @param {number} start
   * @param {number} end
   */
  async get(start, end) {
    const found = await this.#match(`${this.#fingerprint}-${start}-${end}`);
    return found && new Uint8Array(await found.arrayBuffer());
  }

  /**
   * @param {number} start
   * @param {number} end
   * @param {Uint8Array} bytes
   */
  put(start, end, bytes) {
    return this.#store(`${this.#fingerprint}-${start}-${end}`, bytes, {});
  }

  async clear() {
    const own = this.#key('');
    const keys = (await this.#cache?.keys().catch(() => [])) ?? [];
    const old = keys.filter((request) => request.url.startsWith(own));
    await Promise.all(old.map((request) => this.#cache?.delete(request).catch(() => false)));
  }

  /** @param {string} piece */
  async #match(piece) {
    return this.#cache?.match(this.#key(piece)).catch(() => undefined);
  }

  /**
   * @param {string} piece
   * @param {Uint8Array} bytes
   * @param {Record<string, string>} headers
   */
  async #store(piece, bytes, headers) {
    const body = /** @type {Uint8Array<ArrayBuffer>} */ (bytes);
    await this.#cache?.put(this.#key(piece), new Response(body, { headers })).catch(() => {});
  }
}
