// Memory over the run: how much lives at each step, and where in the arena each value lies.
const KINDS = [['weights', 'var(--c0)'], ['arena', 'var(--c2)'], ['inputs', 'var(--c1)'], ['outputs', 'var(--c6)'], ['states', 'var(--c3)']];
const LIVE_HEIGHT = 70;

/** Bytes that live at each step. */
function liveBytes(arena) {
  const live = new Array(arena.steps).fill(0);
  for (const span of arena.spans) for (let step = span.first; step <= span.last; step++) live[step] += span.bytes;
  return live;
}

function arenaPicture(arena, width, most) {
  const left = 64;
  const height = Math.max(120, Math.min(300, width * 0.3)) * (arena.bytes / most) ** 0.5;
  const total = LIVE_HEIGHT + 18 + height + 24;
  const x = (step) => left + (step / arena.steps) * (width - left - 2);
  const live = liveBytes(arena);
  const peak = Math.max(...live, 1);
  const up = (value) => LIVE_HEIGHT - (value / peak) * (LIVE_HEIGHT - 10);
  const line = live.map((value, step) => `L${x(step)} ${up(value)}H${x(step + 1)}`).join('');
  const down = (offset) => LIVE_HEIGHT + 18 + (offset / arena.bytes) * height;
  const spans = [...arena.spans].sort((a, b) => a.first - b.first);
  const boxes = spans.map((span, place) => shape('rect', {
    x: x(span.first) + 0.5, y: down(span.offset) + 0.5, width: Math.max(1, x(span.last + 1) - x(span.first) - 1), height: Math.max(1, down(span.offset + span.bytes) - down(span.offset) - 1), rx: 2,
    style: { fill: `var(--c${place % 9})`, 'fill-opacity': 0.78 },
  }, shape('title', {}, `${firstName(span.name)}\n${bytes(span.bytes)} at ${bytes(span.offset)}, steps ${span.first} to ${span.last}`)));
  return shape('svg', { class: 'chart', viewBox: `0 0 ${width} ${total}`, height: total, role: 'img', 'aria-label': `Arena of ${bytes(arena.bytes)} over ${arena.steps} steps` },
    shape('path', { d: `M${left} ${LIVE_HEIGHT}${line}V${LIVE_HEIGHT}Z`, style: { fill: 'var(--c2)', 'fill-opacity': 0.35 } }),
    shape('line', { class: 'axis', x1: left, x2: width, y1: LIVE_HEIGHT, y2: LIVE_HEIGHT }),
    shape('text', { x: left - 8, y: 14, 'text-anchor': 'end' }, bytes(peak)), shape('text', { x: left - 8, y: LIVE_HEIGHT, 'text-anchor': 'end' }, 'alive'),
    shape('rect', { x: left, y: down(0), width: width - left - 1, height, fill: 'none', class: 'axis' }), boxes,
    shape('text', { x: left - 8, y: down(0) + 11, 'text-anchor': 'end' }, '0'), shape('text', { x: left - 8, y: down(arena.bytes), 'text-anchor': 'end' }, bytes(arena.bytes)),
    ticks(arena.steps, Math.max(3, width / 110)).map((step) => shape('text', { x: Math.min(x(step), width - 12), y: total - 6, 'text-anchor': 'middle' }, String(Math.round(step)))));
}

function stackedBar(rows) {
  const total = sum(rows.map(([, value]) => value)) || 1;
  return element('div', { class: 'bars', 'aria-hidden': 'true' }, rows.map(([name, value, color, shown]) => element('i', { title: `${name}: ${shown}`, style: { width: `${(value / total) * 100}%`, background: color } })));
}

const listing = (rows) => element('ul', { class: 'listing' }, rows.map(([name, , color, shown]) => element('li', {}, element('i', { style: { background: color } }), element('span', {}, name), element('span', { class: 'number' }, shown))));

function memoryOf(run, title, most) {
  const rows = KINDS.map(([name, color]) => [name, run.memory[name], color, bytes(run.memory[name])]).filter(([, value]) => value);
  const places = run.memory.arenas.filter((arena) => arena.spans.length).map((arena) => {
    const place = element('div');
    drawnToWidth(place, (width) => arenaPicture(arena, width, most));
    const name = run.memory.arenas.length > 1 ? `Arena of part ${arena.part}` : 'The arena: offsets by the steps during which values live';
    return [element('h3', {}, name), place];
  });
  const note = run.memory.note ? element('p', { class: 'small soft' }, run.memory.note) : null;
  return element('div', {}, title ? element('h3', {}, title) : null, stackedBar(rows), listing(rows), note, places.flat());
}

function memorySection(app) {
  const most = Math.max(...app.runs.flatMap((run) => run.memory.arenas.map((arena) => arena.bytes)), 1);
  const total = (run) => sum(KINDS.map(([name]) => run.memory[name]));
  const told = `${bytes(total(app.runs[0]))} on the device. Values share the arena: those that live at the same time never overlap.`;
  return section('memory', 'Memory', told, [], element('div', { class: 'pair' }, app.inOrder.map(({ run, title }) => memoryOf(run, title, most))));
}
