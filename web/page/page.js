// A page that runs a model on pictures or on a camera.

import { open } from 'fourfold';
import { drawResult, needs } from './results.js';

const element = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));
const canvas = /** @type {HTMLCanvasElement} */ (element('view'));
const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));

/** @typedef {import('fourfold').Model} Model */
/** @typedef {{ title: string, model: string, task: string, picture: import('fourfold').PictureOptions, sample?: string } & import('./results.js').Drawing} Settings */

/** @param {unknown} error */
function showError(error) {
  element('progress').hidden = true;
  element('status').textContent = error instanceof Error ? error.message : String(error);
  document.body.dataset.state = 'failed';
}

/** @param {import('fourfold').Progress} progress */
function showProgress({ stage, done, total }) {
  const bar = element('progress');
  bar.value = stage === 'fetch' ? done / total / 2 : 0.5 + done / total / 2;
  const words = stage === 'fetch' ? `fetching: ${(done / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB` : `compiling: ${done} of ${total} kernels`;
  element('status').textContent = done === total && stage === 'compile' ? '' : words;
  bar.hidden = done === total && stage === 'compile';
}

/** Runs the model on pictures and draws the results. */
class Show {
  /**
   * @param {Model} model
   * @param {Settings} settings
   */
  constructor(model, settings) {
    this.model = model;
    this.settings = settings;
    /** @type {MediaStream | undefined} */
    this.stream = undefined;
  }

  /**
   * @param {HTMLVideoElement | ImageBitmap} picture
   * @param {boolean} [mirror]
   */
  async picture(picture, mirror = false) {
    const { model, settings } = this;
    const how = { ...settings.picture, mirror };
    const began = performance.now();
    const found = await model.run([picture], { real: true, picture: how });
    const time = performance.now() - began;
    const width = picture instanceof ImageBitmap ? picture.width : picture.videoWidth;
    const height = picture instanceof ImageBitmap ? picture.height : picture.videoHeight;
    Object.assign(canvas, { width, height });
    if (mirror) context.setTransform(-1, 0, 0, 1, width, 0);
    context.drawImage(picture, 0, 0);
    context.resetTransform();
    const fit = { ...model.fit(picture, how), mirror: false }; // the drawn picture is mirrored already
    element('results').replaceChildren(drawResult(settings.task, { ...settings, context, model, found, fit }));
    element('time').textContent = `${time.toFixed(1)} ms`;
    document.body.dataset.state = 'shown';
  }

  /** @param {Blob} file */
  async file(file) {
    this.stop();
    await this.picture(await createImageBitmap(file));
  }

  async camera() {
    if (this.stream) return this.stop();
    const constraints = { video: { facingMode: 'user', width: { ideal: 640 } } };
    this.stream = await navigator.mediaDevices.getUserMedia(constraints);
    const video = document.createElement('video');
    Object.assign(video, { srcObject: this.stream, muted: true, playsInline: true });
    await video.play();
    while (this.stream) {
      await this.picture(video, true);
      await new Promise((done) => requestAnimationFrame(done));
    }
  }

  stop() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = undefined;
  }

  /** Runs a model without picture inputs on random numbers. */
  async numbers() {
    const inputs = this.model.inputs.map(({ shape, quantization, type }) => {
      const count = shape.reduce((product, side) => product * side, 1);
      return Array.from({ length: count }, () => (type[0] === 'f' || quantization ? Math.random() : 0));
    });
    const began = performance.now();
    const found = await this.model.run(inputs, { real: true });
    element('time').textContent = `${(performance.now() - began).toFixed(1)} ms, on random numbers`;
    element('results').replaceChildren(drawResult('numbers', { context, model: this.model, found }));
    document.body.dataset.state = 'shown';
  }
}

/** @param {Settings} settings */
async function start(settings) {
  document.title = settings.title;
  element('title').textContent = settings.title;
  const model = await open(settings.model, { progress: showProgress });
  element('model').textContent = [model.metadata.description, describe(model)].filter(Boolean).join(' · ');
  await model.ready; // measured times then exclude compilation
  const show = new Show(model, settings);
  const guarded = (/** @type {() => Promise<void>} */ work) => () => work().catch(showError);
  const takesPicture = needs(settings.task, model);
  for (const id of ['file', 'camera']) element(id).disabled = !takesPicture;
  element('file').onchange = guarded(() => show.file(element('file').files[0]));
  element('camera').onclick = guarded(() => show.camera());
  document.ondragover = (event) => event.preventDefault();
  document.ondrop = (event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file && takesPicture) show.file(file).catch(showError);
  };
  document.body.dataset.state = 'ready';
  if (!takesPicture) await show.numbers();
  else if (settings.sample) await show.file(await (await fetch(settings.sample)).blob());
}

/** @param {Model} model */
function describe(model) {
  const { precision, launches } = model.origin;
  return `${model.inputs.map(({ type, shape }) => `${type}[${shape}]`)} · ${precision}, ${launches} launches`;
}

fetch('page.json')
  .then((answer) => answer.json())
  .then(start)
  .catch(showError);
