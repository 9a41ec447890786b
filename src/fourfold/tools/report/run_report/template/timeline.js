// The timeline of a run: its parts as a bar, and below them every kernel in order, true to scale.
const PART_COLORS = { upload: 'var(--c2)', kernels: 'var(--c0)', download: 'var(--c6)', host: 'var(--c9)' };
const ROW = 30;

/** The parts of a run in order, those that are known. */
function runParts(times) {
  if (times.kernels === null) return [];
  return ['host', 'upload', 'kernels', 'download'].map((name) => [name, times[name]]).filter(([, seconds]) => seconds > 0);
}

/** `longest` is the time that the whole width stands for, the same for two runs side by side. */
function timeline(run, width, longest, choose) {
  const parts = runParts(run.times);
  const colors = familyColors(run);
  const x = (seconds) => (seconds / longest) * width;
  const marks = [];
  let row = 0;
  if (parts.length) {
    let at = 0;
    for (const [name, seconds] of parts) {
      marks.push(bar(x(at), row * ROW, x(seconds), PART_COLORS[name], `${name}: ${time(seconds)}`, x(seconds) > 70 ? `${name} ${time(seconds)}` : ''));
      at += seconds;
    }
    row += 1;
  }
  let at = parts.length ? sum(parts.slice(0, parts.findIndex(([name]) => name === 'kernels')).map(([, seconds]) => seconds)) : 0;
  run.kernels.forEach((kernel) => {
    if (kernel.seconds === null) return;
    const node = run.nodes[kernel.node];
    const wide = x(kernel.seconds);
    const label = wide > kernel.entry.length * 7 + 12 ? kernel.entry : '';
    const drawn = bar(x(at), row * ROW, wide, colors.get(family(node)), `${kernel.entry}: ${time(kernel.seconds)}\n${firstName(node.name)}`, label);
    drawn.classList.add('pick');
    drawn.dataset.node = kernel.node;
    drawn.addEventListener('click', () => choose(kernel.node));
    marks.push(drawn);
    at += kernel.seconds;
  });
  row += 1;
  return shape('svg', { class: 'chart', viewBox: `0 0 ${width} ${row * ROW + 24}`, width, height: row * ROW + 24, role: 'img', 'aria-label': `Timeline of ${run.kernels.length} kernels` },
    timeAxis(width, longest, row * ROW), marks);
}

function bar(x, y, width, color, title, label) {
  return shape('g', {},
    shape('rect', { x, y: y + 1, width: Math.max(width - 0.5, 0.6), height: ROW - 4, rx: Math.min(3, width / 2), style: { fill: color } }),
    label ? shape('text', { x: x + 6, y: y + 18, style: { fill: 'var(--card)', 'font-weight': 600 } }, label) : null,
    shape('title', {}, title));
}

function timeAxis(width, longest, y) {
  const steps = ticks(longest, Math.max(3, Math.floor(width / 130)));
  return steps.map((seconds) => {
    const x = (seconds / longest) * width;
    const end = x > width - 40;
    return [shape('line', { class: 'grid', x1: x, x2: x, y1: 0, y2: y }),
      shape('text', { x: end ? width : Math.max(x, 1), y: y + 16, 'text-anchor': end ? 'end' : x < 20 ? 'start' : 'middle' }, time(seconds))];
  });
}

/** How long a timeline must be to show a run. */
function shownSeconds(run) {
  const parts = runParts(run.times);
  const before = sum(parts.slice(0, Math.max(0, parts.findIndex(([name]) => name === 'kernels'))).map(([, seconds]) => seconds));
  return Math.max(sum(parts.map(([, seconds]) => seconds)), before + sum(run.kernels.map((kernel) => kernel.seconds)), 1e-9);
}

function timelineSection(app) {
  let zoom = 1;
  const longest = Math.max(...app.runs.map(shownSeconds));
  const places = app.inOrder.map(({ run, title }) => ({ run, title, place: element('div', { class: 'scroll', tabindex: 0 }) }));
  const drawn = places.map(({ run, place }) => drawnToWidth(place, (width) => timeline(run, Math.floor(width * zoom), longest, (node) => app.choose(node, run))));
  const slider = element('input', { type: 'range', min: 0, max: 5, step: 0.25, value: 0, 'aria-label': 'Zoom of the timeline', oninput: (event) => {
    zoom = 2 ** Number(event.target.value);
    drawn.forEach((one) => one.again());
  } });
  const run = app.runs[0];
  const families = [...familyColors(run)].slice(0, 9).map(([name, color]) => element('span', {}, element('i', { style: { background: color } }), name));
  const many = run.kernels.length;
  const forms = {
    stages: `${many} stages of one launch, timed by a clock that kernels read.`,
    list: `All ${many} kernels run as stages of one launch; each was timed as a launch of its own.`,
    launches: `${many} launches, timed by the device’s own clock.`,
  };
  const form = forms[run.form] ?? '';
  const unknown = runParts(run.times).length ? '' : ' Upload, download and the host’s share are not known for a model in parts.';
  return section('timeline', 'Timeline', form + unknown, element('label', { class: 'choice' }, 'Zoom', slider),
    ...places.flatMap(({ title, place }) => [title ? element('h3', {}, title) : '', place]),
    element('div', { class: 'legend', style: { 'margin-top': '8px' } }, families));
}
