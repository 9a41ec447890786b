// Draws a model's results over its picture, and describes them in words.

import { toFrame } from 'fourfold';

/** @typedef {import('fourfold').Fit} Fit */
/** @typedef {import('fourfold').Model} Model */
/**
 * How results are drawn: connected points, the minimum score, class labels, outputs by role.
 * @typedef {{ edges?: [number, number][], score?: number | null, labels?: string[], roles?: Record<string, string> }} Drawing
 */
/** @typedef {{ context: CanvasRenderingContext2D, model: Model, found: Record<string, any>, fit?: Fit } & Drawing} Result */
/** @typedef {Result & { fit: Fit }} PictureResult */

const TOP = 5;
const MAX_FRACTION = 2; // boxes with larger coordinates are in pixels
// Ranges of the pixels of a made picture: low, high, tolerance, and the minimum of the brightest.
const RANGES = [
  [0, 1, 0.2, 0],
  [-1, 1, 0.2, 0],
  [0, 255, 64, 64],
];
const color = (/** @type {number} */ number) => `hsl(${(150 + number * 137.5) % 360} 75% 45%)`;

/** @type {Record<string, (result: PictureResult) => Node>} */
const TASKS = { boxes, detections, keypoints, mask, classmap, picture, classes: bestClasses, numbers };

/**
 * Draws a result and returns its description.
 * @param {string} task
 * @param {Result} result
 * @returns {Node}
 */
export const drawResult = (task, result) => (TASKS[task] ?? numbers)(/** @type {PictureResult} */ (result));

/**
 * Returns whether a model takes a picture.
 * @param {string} task
 * @param {Model} model
 */
export const needs = (task, model) => task !== 'numbers' || takesPicture(model.inputs);

/** @param {{ shape: number[] }[]} inputs */
const takesPicture = (inputs) => inputs.length === 1 && inputs[0].shape.length === 4 && [1, 3, 4].some((channels) => [inputs[0].shape[1], inputs[0].shape[3]].includes(channels));

/** @param {PictureResult} result */
function boxes({ context, found, fit, labels = [] }) {
  const count = found.count[0];
  const points = found.keypoints ? found.keypoints.length / found.scores.length / 2 : 0;
  const [down, along] = unitOf(found.boxes.subarray(0, 4 * count), fit);
  const rows = [];
  for (let at = 0; at < count; at++) {
    const [top, left, bottom, right] = found.boxes.subarray(4 * at, 4 * at + 4);
    const kind = found.classes ? Number(found.classes[at]) : 0;
    const label = labels[kind] ?? (labels.length || found.classes ? `class ${kind}` : '');
    const paint = color(label ? kind : at);
    box(context, fit, [top / down, left / along, bottom / down, right / along], paint, label);
    for (let point = 0; point < points; point++) {
      const [y, x] = found.keypoints.subarray(2 * (at * points + point));
      dot(context, placeAt(fit, x, y), paint);
    }
    rows.push([label || `${at + 1}`, percent(found.scores[at])]);
  }
  return count ? table(rows) : words('nothing found');
}

/**
 * The divisors that make coordinates fractions of the model's picture: most boxes are smaller than twice the picture.
 * @param {Float32Array} corners
 * @param {Fit} fit
 */
function unitOf(corners, fit) {
  const sizes = Array.from(corners, Math.abs).filter(Boolean).sort((one, other) => one - other);
  const middle = sizes[sizes.length >> 1] ?? 0;
  return middle > MAX_FRACTION ? [fit.target[1], fit.target[0]] : [1, 1];
}

/** @param {PictureResult} result */
function detections({ context, model, found, fit, score, roles, labels: stated = [] }) {
  const names = model.outputs.map(({ name }) => name);
  const by = { boxes: names[0], classes: names[1], scores: names[2], count: names[3], ...roles };
  const [places, kinds, scores, count] = [by.boxes, by.classes, by.scores, by.count].map((name) => found[name]);
  const labels = [stated, ...model.outputs.map(({ labels }) => labels)].find(({ length }) => length) ?? [];
  const rows = [];
  for (let at = 0; at < count[0]; at++) {
    if (scores[at] < (score ?? 0)) continue;
    const label = labels[kinds[at]] ?? `class ${kinds[at]}`;
    box(context, fit, places.subarray(4 * at, 4 * at + 4), color(kinds[at]), label);
    rows.push([label, percent(scores[at])]);
  }
  return rows.length ? table(rows) : words('nothing found');
}

/** @param {PictureResult} result */
function keypoints({ context, model, found, fit, edges = [], score }) {
  const least = score ?? 0;
  const numbers = found[model.outputs[0].name];
  const points = Array.from({ length: numbers.length / 3 }, (_, at) => {
    const [y, x, score] = numbers.subarray(3 * at);
    return { place: placeAt(fit, x, y), score };
  });
  context.lineWidth = lineWidth(context);
  for (const [from, to] of edges) {
    if (Math.min(points[from].score, points[to].score) < least) continue;
    context.strokeStyle = color(1);
    context.beginPath();
    context.moveTo(...points[from].place);
    context.lineTo(...points[to].place);
    context.stroke();
  }
  const seen = points.filter(({ score }) => score >= least);
  for (const { place } of seen) dot(context, place, color(0));
  return words(`${seen.length} of ${points.length} points seen`);
}

/** @param {PictureResult} result */
function mask({ context, model, found, fit }) {
  const numbers = found[model.outputs[0].name];
  const logits = numbers.some((/** @type {number} */ value) => value < 0 || value > 1);
  const share = (/** @type {number} */ value) => (logits ? 1 / (1 + Math.exp(-value)) : value);
  overlay(context, model, fit, (at) => [18, 163, 109, 170 * share(numbers[at])]);
  const covered = numbers.reduce((/** @type {number} */ sum, /** @type {number} */ value) => sum + Number(share(value) > 0.5), 0);
  return words(`${percent(covered / numbers.length)} of the picture`);
}

/** @param {PictureResult} result */
function classmap({ context, model, found, fit, labels: stated = [] }) {
  const numbers = found[model.outputs[0].name];
  const labels = stated.length ? stated : model.outputs[0].labels;
  const counts = new Map();
  for (const kind of numbers) counts.set(Number(kind), (counts.get(Number(kind)) ?? 0) + 1);
  const paint = new Map([...counts.keys()].map((kind) => [kind, rgb(color(kind))]));
  overlay(context, model, fit, (at) => (numbers[at] ? [.../** @type {number[]} */ (paint.get(Number(numbers[at]))), 150] : [0, 0, 0, 0]));
  const order = [...counts].sort((one, other) => other[1] - one[1]).filter(([, count]) => count > numbers.length / 200);
  return table(order.map(([kind, count]) => [labels[kind] ?? `class ${kind}`, percent(count / numbers.length)]), order.map(([kind]) => (kind ? color(kind) : 'transparent')));
}

/** @param {PictureResult} result */
function picture({ context, model, found, fit }) {
  const [, height, width] = model.outputs[0].shape;
  const numbers = found[model.outputs[0].name];
  let [low, high] = [0, 0];
  for (const value of numbers) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const [start, end] = RANGES.find(([start, end, slack, least]) => start - slack <= low && least <= high && high <= end + slack) ?? RANGES[2];
  const pixels = new ImageData(width, height);
  const scale = 255 / (end - start);
  for (let at = 0; at < width * height; at++) {
    for (let channel = 0; channel < 3; channel++) pixels.data[4 * at + channel] = scale * (numbers[3 * at + channel] - start);
    pixels.data[4 * at + 3] = 255;
  }
  // The bars of a letterbox are cut off, so that the picture has the aspect ratio of the frame.
  const [along, down] = [width / fit.target[0], height / fit.target[1]];
  const [x, y] = [Math.round(fit.offset[0] * along), Math.round(fit.offset[1] * down)];
  const size = { width: Math.round(fit.size[0] * along), height: Math.round(fit.size[1] * down) };
  Object.assign(context.canvas, size);
  context.putImageData(pixels, -x, -y);
  return words(`a picture of ${size.width} × ${size.height}`);
}

/** @param {PictureResult} result */
function bestClasses({ model, found, labels: stated = [] }) {
  const { name } = model.outputs[0];
  const labels = stated.length ? stated : model.outputs[0].labels;
  const scores = Array.from(found[name], Number);
  const order = scores.map((_, kind) => kind).sort((one, other) => scores[other] - scores[one]);
  const likely = scores.every((score) => score >= 0 && score <= 1);
  const format = (/** @type {number} */ score) => (likely ? percent(score) : score.toPrecision(4));
  const shown = order.slice(0, TOP).filter((kind) => !likely || scores[kind] >= 0.001);
  return table(shown.map((kind) => [labels[kind] ?? `class ${kind}`, format(scores[kind])]));
}

/** @param {Result} result */
function numbers({ model, found }) {
  const rows = model.outputs.map(({ name, type, shape }) => {
    const values = Array.from(found[name], Number);
    const first = values.slice(0, TOP).map((value) => String(Number(value.toPrecision(4)))).join(', ');
    return [`${name}: ${type}[${shape}]`, values.length > TOP ? `${first}, …` : first];
  });
  return table(rows);
}

/**
 * A place in fractions of the model's picture, in the frame.
 * @param {Fit} fit
 * @param {number} x
 * @param {number} y
 */
const placeAt = (fit, x, y) => toFrame(fit, x * fit.target[0], y * fit.target[1]);

/**
 * The nearest place inside the frame.
 * @param {[number, number]} place
 * @param {number} width
 * @param {number} height
 */
const inside = ([x, y], width, height) => [Math.min(Math.max(x, 0), width), Math.min(Math.max(y, 0), height)];

/** @param {CanvasRenderingContext2D} context */
const lineWidth = ({ canvas }) => Math.max(2, canvas.width / 200);

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Fit} fit
 * @param {Iterable<number>} corners top, left, bottom, right
 * @param {string} paint
 * @param {string} [label]
 */
function box(context, fit, [top, left, bottom, right], paint, label) {
  const { width, height } = context.canvas;
  const [x, y] = inside(placeAt(fit, left, top), width, height);
  const [far, low] = inside(placeAt(fit, right, bottom), width, height);
  context.strokeStyle = context.fillStyle = paint;
  context.lineWidth = lineWidth(context);
  context.strokeRect(x, y, far - x, low - y);
  if (!label) return;
  context.font = `${lineWidth(context) * 5}px system-ui`;
  context.fillText(label, x + 4, Math.max(y - 6, lineWidth(context) * 5));
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {[number, number]} place
 * @param {string} paint
 */
function dot(context, place, paint) {
  context.fillStyle = paint;
  context.beginPath();
  context.arc(...place, 1.5 * lineWidth(context), 0, 2 * Math.PI);
  context.fill();
}

/**
 * Colours for each pixel of an output, stretched over the frame.
 * @param {CanvasRenderingContext2D} context
 * @param {Model} model
 * @param {Fit} fit
 * @param {(at: number) => number[]} paint
 */
function overlay(context, model, fit, paint) {
  const [, height, width] = model.outputs[0].shape;
  const layer = new OffscreenCanvas(width, height);
  const pixels = new ImageData(width, height);
  for (let at = 0; at < width * height; at++) pixels.data.set(paint(at), 4 * at);
  /** @type {OffscreenCanvasRenderingContext2D} */ (layer.getContext('2d')).putImageData(pixels, 0, 0);
  const [x, y] = placeAt(fit, 0, 0);
  const [far, low] = placeAt(fit, 1, 1);
  context.drawImage(layer, x, y, far - x, low - y);
}

/** @param {string} text */
function rgb(text) {
  const { context } = (rgb.kept ??= { context: /** @type {OffscreenCanvasRenderingContext2D} */ (new OffscreenCanvas(1, 1).getContext('2d')) });
  context.fillStyle = text;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data.subarray(0, 3)];
}
/** @type {{ context: OffscreenCanvasRenderingContext2D } | undefined} */
rgb.kept = undefined;

/** @param {number} share */
const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** @param {string} text */
function words(text) {
  const paragraph = document.createElement('p');
  paragraph.textContent = text;
  return paragraph;
}

/**
 * @param {string[][]} rows
 * @param {string[]} [swatches]
 */
function table(rows, swatches = []) {
  const made = document.createElement('table');
  rows.forEach((cells, at) => {
    const row = made.insertRow();
    for (const text of cells) row.insertCell().textContent = text;
    if (!swatches[at]) return;
    const swatch = Object.assign(document.createElement('span'), { className: 'swatch' });
    swatch.style.background = swatches[at];
    row.cells[0].prepend(swatch);
  });
  return made;
}
