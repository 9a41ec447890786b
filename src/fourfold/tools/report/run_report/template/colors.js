// Which colour a node has: by where it ran, by its time, by its error, or by what changed.
const FAMILIES = 10;
const TARGETS = { gpu: 'var(--gpu)', numpy: 'var(--numpy)', input: 'var(--port)', output: 'var(--port)' };
const isPort = (node) => node.target === 'input' || node.target === 'output';
const targetColor = (target) => TARGETS[target] ?? 'var(--cpu)';

/** Colours of kinds of work, the one that takes longest first. */
function familyColors(run) {
  const spent = new Map();
  for (const node of run.nodes) {
    if (!isPort(node)) spent.set(family(node), (spent.get(family(node)) ?? 0) + (node.seconds ?? 0));
  }
  const names = [...spent.keys()].sort((a, b) => spent.get(b) - spent.get(a));
  return new Map(names.map((name, place) => [name, `var(--c${Math.min(place, FAMILIES - 1)})`]));
}

const family = (node) => node.op.split(' + ')[0];

const mixed = (color, share) => `color-mix(in oklab, ${color} ${Math.round(share * 100)}%, var(--card))`;

/** For each node: how it is filled, and whether that is a strong colour. */
const COLORINGS = {
  placement: (run) => (node) => ({ fill: mixed(targetColor(node.target), isPort(node) ? 0.14 : node.kernels.length || node.target !== 'gpu' ? 0.3 : 0.1) }),
  time: (run) => {
    const most = Math.max(...run.nodes.map((node) => node.seconds ?? 0), 1e-12);
    return (node) => ({ fill: node.seconds === null ? 'var(--card)' : mixed('var(--hot)', 0.06 + 0.66 * Math.sqrt(node.seconds / most)) });
  },
  error: () => (node) => {
    const found = node.accuracy;
    if (!found) return { fill: 'var(--card)' };
    if (!found.agrees) return { fill: mixed('var(--bad)', 0.6) };
    const share = found.largest ? Math.min(1, Math.max(0, 1 + Math.log10(found.largest / found.allowed) / 5)) : 0;
    return { fill: mixed('var(--good)', 0.5 - 0.4 * share) };
  },
  change: (run, other) => {
    const before = secondsByValue(other);
    return (node) => {
      const old = before.get(valueOf(node));
      if (node.seconds === null || old === undefined) return { fill: 'var(--card)' };
      const ratio = Math.log2(node.seconds / old);
      return { fill: mixed(ratio > 0 ? 'var(--bad)' : 'var(--good)', Math.min(0.7, Math.abs(ratio) * 0.7)) };
    };
  },
};

/** What a node is known by in two runs: the first value that it writes. */
const valueOf = (node) => node.writes[0]?.name ?? node.name;
const secondsByValue = (run) => new Map(run.nodes.filter((node) => node.seconds !== null).map((node) => [valueOf(node), node.seconds]));

/** What the colours mean. */
function legend(coloring, run) {
  const mark = (color, text) => element('span', {}, element('i', { style: { background: color } }), text);
  const ramp = (from, to, low, high) => element('span', {}, low, element('span', { class: 'ramp', style: { background: `linear-gradient(90deg, ${from}, ${to})` } }), high);
  if (coloring === 'placement') {
    const targets = [...new Set(run.nodes.filter((node) => !isPort(node)).map((node) => node.target))];
    const title = (target) => run.parts[run.nodes.find((node) => node.target === target)?.part]?.target ?? target;
    return [...targets.map((target) => mark(targetColor(target), target === 'gpu' ? run.subject.device : title(target))), mark('var(--port)', 'in and out')];
  }
  if (coloring === 'time') return [ramp(mixed('var(--hot)', 0.06), mixed('var(--hot)', 0.72), '0', time(Math.max(...run.nodes.map((node) => node.seconds ?? 0))))];
  if (coloring === 'error') return [ramp(mixed('var(--good)', 0.5), mixed('var(--good)', 0.1), 'agrees', 'at its limit'), mark(mixed('var(--bad)', 0.6), 'differs')];
  return [mark(mixed('var(--good)', 0.6), 'faster'), mark(mixed('var(--bad)', 0.6), 'slower'), mark('var(--card)', 'not in both')];
}
