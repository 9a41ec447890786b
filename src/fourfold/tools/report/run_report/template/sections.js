// The smaller sections: figures at the top, start, advice, accuracy.
function section(id, title, told, tools, ...content) {
  const shown = [tools].flat();
  return element('section', { id, 'aria-labelledby': `${id}-title` },
    element('div', { class: 'title' }, element('h2', { id: `${id}-title` }, title), told ? element('p', {}, told) : null, shown.length ? element('div', { class: 'tools' }, shown) : null), ...content);
}

function tile(name, [value, unit], note) {
  return element('div', { class: 'tile' }, element('div', { class: 'name' }, name), element('div', { class: 'value' }, value, element('small', {}, unit)), element('div', { class: 'note' }, note));
}

function overview(app) {
  const run = app.runs[0];
  const { times } = run;
  const spent = sum(run.kernels.map((kernel) => kernel.seconds));
  const work = sum(run.nodes.map((node) => node.flops));
  const parts = run.nodes.filter((node) => !isPort(node));
  const onDevice = parts.filter((node) => node.target === 'gpu').length;
  const reached = times.kernels ? work / times.kernels : spent ? work / spent : 0;
  const roof = run.ceilings && reached ? `${percent(reached / run.ceilings.flops)} of ${figures(run.ceilings.flops / 1e9)} GFLOP/s` : 'ceiling unknown';
  const started = sum(run.start.map(([, seconds]) => seconds));
  const tiles = [
    tile('One run', timeParts(times.median), `median of ${times.runs}; 90 % within ${time(times.p90)}`),
    tile('Runs a second', [figures(1 / times.median), ''], 'one after the other'),
    run.kernels.length ? tile('Kernels', timeParts(times.kernels ?? spent), run.launches === 1 && run.kernels.length > 1 ? `${run.kernels.length} stages of one launch` : `${run.kernels.length} launches`) : null,
    reached ? tile('Arithmetic', [figures(reached / 1e9), 'GFLOP/s'], roof) : null,
    tile('On the device', [String(onDevice), `of ${parts.length} nodes`], run.parts.length > 1 ? `${run.parts.length} parts` : 'in one piece'),
    tile('Memory', sizeParts(sum(KINDS.map(([name]) => run.memory[name]))), `${bytes(run.memory.weights)} of it weights`),
    tile('Start', timeParts(started), run.subject.origin === 'model' ? 'compiled from the model' : run.subject.origin === 'store' ? 'plan from the store' : 'from a prepared file'),
    run.accuracy ? tile('Accuracy', [run.accuracy.agrees ? 'agrees' : 'differs', ''], `${run.accuracy.agreeing} of ${run.accuracy.layers} layers agree with ${run.accuracy.engine}`) : tile('Accuracy', ['–', ''], 'not compared; see --verify'),
  ].filter(Boolean);
  const notes = run.notes.length ? element('ul', { class: 'notes' }, run.notes.map((note) => element('li', {}, note))) : null;
  return element('section', { id: 'overview', class: 'plain', 'aria-label': 'Overview' }, element('div', { class: 'tiles', style: { '--columns': tiles.length % 4 ? 3 : 4 } }, tiles), notes);
}

const START_WORDS = {
  device: 'find the device', open: 'open what is kept', imports: 'import the compiler', read: 'read the model', rewrite: 'rewrite the graph', probe: 'try what the device can do',
  lower: 'choose kernels and memory', keep: 'keep the plan', build: 'build the kernels', upload: 'upload the weights',
};

function startOf(run, title) {
  const rows = run.start.map(([name, seconds], place) => [START_WORDS[name] ?? name, seconds, `var(--c${place % 10})`, time(seconds)]);
  return element('div', {}, title ? element('h3', {}, title) : null, stackedBar(rows), listing(rows));
}

function startSection(app) {
  const told = `${time(sum(app.runs[0].start.map(([, seconds]) => seconds)))} from the request to a model that is ready.`;
  return section('start', 'Start', told, [], element('div', { class: 'pair' }, app.inOrder.map(({ run, title }) => startOf(run, title))));
}

function adviceSection(app) {
  const run = app.runs[0];
  if (!run.advice.length) return section('advice', 'Advice', 'Nothing in the model costs time here without need.', []);
  const known = new Map(run.nodes.flatMap((node, number) => [[node.name, number], ...node.operators.map((one) => [one.name, number])]));
  const link = (name) => (known.has(name) ? element('a', { href: '#graph', onclick: () => app.choose(known.get(name), run) }, shortName(name, 70)) : shortName(name, 70));
  const items = run.advice.map((one) => element('li', {},
    element('div', { class: 'cost' }, one.seconds ? time(one.seconds) : '–', element('small', {}, one.seconds ? 'could be saved, about' : one.kind)),
    element('div', {}, element('div', {}, one.text), element('div', { class: 'where' }, one.nodes.slice(0, 4).flatMap((name, place) => [place ? ', ' : '', link(name)]), one.nodes.length > 4 ? ` and ${one.nodes.length - 4} more` : ''))));
  return section('advice', 'Advice', 'What in the model costs time here without need, the dearest first. Times are estimates.', [], element('ul', { class: 'advice' }, items));
}

function accuracyPlot(run, width, choose) {
  const height = 240;
  const nodes = run.nodes.map((node, number) => ({ node, number })).filter(({ node }) => node.accuracy);
  const least = 1e-9;
  const size = (found) => Math.max(found.largest ?? 10, least);
  const y = decades(nodes.flatMap(({ node }) => [size(node.accuracy), node.accuracy.allowed]), height - 26, 10);
  const x = (place) => 54 + ((place + 0.5) / nodes.length) * (width - 60);
  const allowed = nodes.map(({ node }, place) => `${place ? 'L' : 'M'}${x(place)} ${y.place(node.accuracy.allowed)}`).join('');
  const dot = ({ node, number }, place) => shape('circle', {
    class: 'pick', 'data-node': number, cx: x(place), cy: y.place(size(node.accuracy)), r: 4.5, style: { fill: node.accuracy.agrees ? 'var(--good)' : 'var(--bad)' }, onclick: () => choose(number),
  }, shape('title', {}, `${node.op}: ${node.accuracy.verdict}\nlargest error ${error(node.accuracy.largest)}\n${firstName(node.name)}`));
  return shape('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': 'Largest error of each layer' },
    y.ticks.map((value) => [shape('line', { class: 'grid', x1: 54, x2: width, y1: y.place(value), y2: y.place(value) }), shape('text', { x: 46, y: y.place(value) + 4, 'text-anchor': 'end' }, value.toExponential(0))]),
    shape('path', { d: allowed, fill: 'none', stroke: 'var(--soft)', 'stroke-dasharray': '4 3' }), nodes.map(dot),
    shape('text', { x: (54 + width) / 2, y: height - 6, 'text-anchor': 'middle' }, 'layers in the order in which they run; the dashed line is what is allowed'));
}

function accuracySection(app) {
  const run = app.runs[0];
  const found = run.accuracy;
  if (!found) return section('accuracy', 'Accuracy', '', [], element('p', { class: 'soft' }, 'Nothing was compared. With --verify, or verify=True, every layer is held beside the CPU runtime of the model’s format.'));
  const told = `Compared with ${found.engine}: ${found.agreeing} of ${found.layers} layers agree. Errors are relative to the range of a value.`;
  const place = element('div');
  if (run.nodes.some((node) => node.accuracy)) drawnToWidth(place, (width) => accuracyPlot(run, width, (node) => app.choose(node, run)));
  const rows = found.outputs.map(([name, one]) => element('tr', {}, element('td', {}, shortName(name)), element('td', { class: 'right' }, error(one.largest)), element('td', { class: 'right wide' }, error(one.mean)),
    element('td', { class: 'right' }, error(one.allowed)), element('td', { class: one.agrees ? 'better' : 'worse' }, one.verdict)));
  const heads = [['Output', ''], ['Largest', 'right'], ['Mean', 'right wide'], ['Allowed', 'right'], ['Verdict', '']].map(([title, kind]) => element('th', { scope: 'col', class: kind }, element('div', { style: { padding: '7px 12px' } }, title)));
  const first = found.first ? element('p', { style: { 'margin-bottom': '10px', 'overflow-wrap': 'anywhere' } }, `First to differ: ${found.first[0]} `, element('span', { class: 'mono', title: found.first[1] }, shortName(found.first[1], 70)), `: ${found.first[2]}`) : null;
  return section('accuracy', 'Accuracy', told, [], first, place, element('div', { class: 'table', style: { 'margin-top': '12px' } }, element('table', {}, element('thead', {}, element('tr', {}, heads)), element('tbody', {}, rows))));
}
