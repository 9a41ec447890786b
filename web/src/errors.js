// Errors of the player: what happened, why, and how to fix it.

/** An error with what, why and fix. */
export class FourfoldError extends Error {
  /**
   * @param {string} what
   * @param {string} why
   * @param {string} fix
   */
  constructor(what, why, fix) {
    super(`${what}\n  why: ${why}\n  fix: ${fix}`);
    this.name = 'FourfoldError';
    this.what = what;
    this.why = why;
    this.fix = fix;
  }
}

/**
 * @param {string} title
 * @param {string} why
 */
export const damaged = (title, why) =>
  new FourfoldError(`${title} is damaged`, why, 'load it again, or prepare the model again');

/** @param {unknown} error */
export const messageOf = (error) => (error instanceof Error ? error.message : String(error));
