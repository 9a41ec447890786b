// Elements, and numbers as people read them.
const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes, handlers and children; text is only ever text. */
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

/** A number with three figures, never as a power of ten. */
function figures(value) {
  const size = Math.abs(value);
  if (size === 0) return '0';
  const places = Math.max(0, 2 - Math.floor(Math.log10(size)));
  return value.toFixed(Math.min(places, 6));
}

function scaled(value, units) {
  const [size, unit] = units.find(([least]) => Math.abs(value) >= least) ?? units[units.length - 1];
  return [figures(value / size), unit];
}

const TIMES = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']];
const SIZES = [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'bytes']];
const COUNTS = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, '']];

const timeParts = (seconds) => (seconds ? scaled(seconds, TIMES) : ['0', 'ms']);
const sizeParts = (bytes) => (bytes < 1024 ? [String(bytes), 'bytes'] : scaled(bytes, SIZES));
const time = (seconds) => (seconds === null || seconds === undefined ? '–' : timeParts(seconds).join(' '));
const bytes = (count) => sizeParts(count).join(' ');
const count = (number) => scaled(number, COUNTS).join(' ').trim();
const percent = (share) => (share >= 0.0995 || share === 0 ? `${Math.round(share * 100)} %` : `${(share * 100).toFixed(1)} %`);
const rate = (amount, seconds) => (seconds ? amount / seconds / 1e9 : null);
const error = (value) => (value === null || value === undefined ? 'infinite' : value === 0 ? '0' : value.toExponential(1));

/** The first of the names that an exporter strung together. */
const firstName = (name) => name.split(';')[0];

/** What most names of layers begin with says nothing of a layer. */
const USUAL = 0.7;
let commonStart = '';
function findCommonStart(names) {
  const counts = new Map();
  for (const name of names) {
    const parts = firstName(name).split('/');
    for (let place = 1; place < parts.length; place++) {
      const start = `${parts.slice(0, place).join('/')}/`;
      counts.set(start, (counts.get(start) ?? 0) + 1);
    }
  }
  const usual = [...counts].filter(([, many]) => many >= USUAL * names.length).map(([start]) => start);
  commonStart = usual.sort((a, b) => b.length - a.length)[0] ?? '';
}

/** A name without what most begin with, or its end, where names of layers differ. */
function shortName(name, most = 44) {
  const whole = firstName(name);
  const first = whole.startsWith(commonStart) ? whole.slice(commonStart.length) : whole;
  if (first.length <= most) return first;
  const end = first.slice(2 - most);
  return `…${end.includes('/') ? end.slice(end.indexOf('/')) : end}`;
}

/** The shape in a type such as f32[1,112,112,32]. */
const shapeOf = (type) => type.replace(/^(\w+)\[(.*)\]$/, (_, kind, sizes) => `${kind} ${sizes.replaceAll(',', '×') || 'scalar'}`);

const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);

/** Round steps for an axis up to a value. */
function ticks(most, wanted = 6) {
  const raw = most / wanted;
  const size = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].find((one) => one * size >= raw) * size;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, place) => place * step);
}

/** A group of buttons of which one is pressed. */
function choice(title, options, current, choose) {
  const buttons = options.map(([value, label]) =>
    element('button', { type: 'button', 'aria-pressed': String(value === current), 'data-value': value, onclick: () => press(value) }, label));
  const press = (value) => {
    for (const button of buttons) button.setAttribute('aria-pressed', String(button.dataset.value === value));
    choose(value);
  };
  return element('div', { class: 'choice', role: 'group', 'aria-label': title }, element('span', {}, title), element('span', {}, buttons));
}

/** Draws again whenever the width of a place changes. */
function drawnToWidth(place, draw) {
  let drawn = 0;
  const again = () => {
    const width = Math.floor(place.clientWidth);
    if (width > 0 && width !== drawn) {
      drawn = width;
      place.replaceChildren(draw(width));
    }
  };
  new ResizeObserver(again).observe(place);
  return { again: () => { drawn = 0; again(); } };
}
