// Two runs side by side: the figures before and after, and what changed layer by layer.
function changeRows(run, before) {
  const old = secondsByValue(before);
  return run.nodes.map((node, number) => ({ node, number })).filter(({ node }) => node.seconds !== null && old.has(valueOf(node))).map(({ node, number }) => {
    const then = old.get(valueOf(node));
    return { number, op: node.op, name: shortName(node.name, 60), full: node.name, kernel: '', before: then, after: node.seconds, change: node.seconds - then, ratio: node.seconds / then };
  });
}

const signed = (seconds) => `${seconds < 0 ? '−' : '+'}${time(Math.abs(seconds))}`;
const CHANGES = [
  ['op', 'Layer', '', (row) => row.op],
  ['name', 'Name', 'name wide', (row) => row.name],
  ['before', 'Before', 'right', (row) => time(row.before)],
  ['after', 'After', 'right', (row) => time(row.after)],
  ['change', 'Change', 'right wide', (row) => element('span', { class: row.change > 0 ? 'worse' : 'better' }, signed(row.change))],
  ['ratio', 'Ratio', 'right', (row) => element('span', { class: row.ratio > 1 ? 'worse' : 'better' }, `${figures(row.ratio)}×`)],
];

function figureRows(run, before) {
  const kernels = (one) => one.times.kernels ?? sum(one.kernels.map((kernel) => kernel.seconds));
  const memory = (one) => sum(KINDS.map(([name]) => one.memory[name]));
  const start = (one) => sum(one.start.map(([, seconds]) => seconds));
  const rows = [['One run', (one) => one.times.median, time], ['Kernels', kernels, time], ['Memory', memory, bytes], ['Start', start, time]];
  return rows.map(([title, of, shown]) => {
    const ratio = of(run) / of(before);
    const note = Number.isFinite(ratio) ? `${figures(ratio)}× of ${shown(of(before))}` : `was ${shown(of(before))}`;
    const [value, ...unit] = shown(of(run)).split(' ');
    return element('div', { class: 'tile' }, element('div', { class: 'name' }, title), element('div', { class: 'value' }, value, element('small', {}, unit.join(' '))),
      element('div', { class: `note ${ratio > 1.005 ? 'worse' : ratio < 0.995 ? 'better' : ''}` }, note));
  });
}

const described = (run) => `${run.subject.model} on ${run.subject.device}, ${run.subject.precision}, fourfold ${run.subject.fourfold}, ${run.subject.made.slice(0, 16).replace('T', ' ')}`;

function compareSection(app) {
  const [run, before] = app.runs;
  const rows = changeRows(run, before);
  const table = new SortedTable(CHANGES, rows, 'change', (node) => app.choose(node, run));
  const told = `${rows.length} layers have a time in both. Before: ${described(before)}. After: ${described(run)}.`;
  const content = rows.length ? table.element : element('p', { class: 'soft' }, 'No layer has a time in both runs.');
  return section('compare', 'Before and after', told, [], element('div', { class: 'tiles', style: { 'margin-bottom': '16px' } }, figureRows(run, before)), content);
}
