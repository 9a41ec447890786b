// The roofline: what each layer reaches, below what the device can do at most.
const EDGE = { left: 54, right: 18, top: 16, bottom: 42 };

/** Whole powers of ten around values, on an axis of so many pixels. */
function decades(values, from, to) {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.ceil(Math.log10(Math.max(...values)) + 0.02);
  const place = (value) => from + ((Math.log10(value) - low) / (high - low)) * (to - from);
  return { place, low: 10 ** low, high: 10 ** high, ticks: Array.from({ length: high - low + 1 }, (_, step) => 10 ** (low + step)) };
}

function roofline(run, width, choose) {
  const height = Math.max(300, Math.min(440, width * 0.48));
  const nodes = run.nodes.map((node, number) => ({ node, number })).filter(({ node }) => node.seconds && node.flops && node.bytes);
  const top = run.ceilings;
  const slopes = [['memory', top.bytes], ['caches', top.cached_bytes]].filter(([name, most]) => name === 'memory' || most > top.bytes * 1.2);
  const ridge = top.flops / top.bytes;
  const x = decades([...nodes.map(({ node }) => node.flops / node.bytes), ridge / 4, ridge * 4], EDGE.left, width - EDGE.right);
  const y = decades([...nodes.map(({ node }) => node.flops / node.seconds), top.flops, top.flops / 100], height - EDGE.bottom, EDGE.top);
  return shape('svg', { class: 'chart', viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': 'Roofline: arithmetic a second over arithmetic a byte' },
    roofAxes(x, y, width, height),
    slopes.map(([name, most]) => slope(x, y, name, most, top.flops)),
    shape('text', { class: 'label', x: width - EDGE.right, y: y.place(top.flops) - 7, 'text-anchor': 'end' }, `${figures(top.flops / 1e9)} GFLOP/s multiply-add`),
    dots(run, nodes, x, y, choose));
}

/** One roof: as fast as memory brings numbers, up to what can be computed. */
function slope(x, y, name, most, flops) {
  const ridge = flops / most;
  const from = Math.max(x.low, y.low / most);
  const [x0, y0, x1, y1] = [x.place(from), y.place(from * most), x.place(ridge), y.place(flops)];
  const angle = (Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI;
  const middle = [x0 + (x1 - x0) * 0.35, y0 + (y1 - y0) * 0.35];
  return [
    shape('path', { d: `M${x0} ${y0}L${x1} ${y1}H${x.place(x.high)}`, fill: 'none', stroke: 'var(--ink)', 'stroke-width': name === 'memory' ? 2 : 1.2, 'stroke-dasharray': name === 'memory' ? null : '5 4' }),
    shape('text', { class: 'label', x: middle[0], y: middle[1] - 8, 'text-anchor': 'middle', transform: `rotate(${angle} ${middle[0]} ${middle[1]})` }, `${figures(most / 1e9)} GB/s ${name}`),
  ];
}

function dots(run, nodes, x, y, choose) {
  const colors = familyColors(run);
  const most = Math.max(...nodes.map(({ node }) => node.seconds));
  const sorted = [...nodes].sort((a, b) => b.node.seconds - a.node.seconds);
  return sorted.map(({ node, number }) => shape('circle', {
    class: 'pick', 'data-node': number, cx: x.place(node.flops / node.bytes), cy: y.place(node.flops / node.seconds), r: 3 + 9 * Math.sqrt(node.seconds / most),
    style: { fill: colors.get(family(node)), 'fill-opacity': 0.72, stroke: 'var(--card)' }, onclick: () => choose(number),
  }, shape('title', {}, `${node.op}: ${time(node.seconds)}\n${figures(rate(node.flops, node.seconds))} GFLOP/s, ${figures(node.flops / node.bytes)} FLOP a byte\n${firstName(node.name)}`)));
}

function roofAxes(x, y, width, height) {
  const bottom = height - EDGE.bottom;
  const power = (value) => (value >= 1e6 ? `${value / 1e6} M` : value >= 1e3 ? `${value / 1e3} k` : String(Number(value.toPrecision(1))));
  return [
    x.ticks.map((value) => [shape('line', { class: 'grid', x1: x.place(value), x2: x.place(value), y1: EDGE.top, y2: bottom }), shape('text', { x: x.place(value), y: bottom + 17, 'text-anchor': 'middle' }, power(value))]),
    y.ticks.map((value) => [shape('line', { class: 'grid', x1: EDGE.left, x2: width - EDGE.right, y1: y.place(value), y2: y.place(value) }), shape('text', { x: EDGE.left - 8, y: y.place(value) + 4, 'text-anchor': 'end' }, power(value / 1e9))]),
    shape('text', { x: (EDGE.left + width - EDGE.right) / 2, y: height - 6, 'text-anchor': 'middle' }, 'FLOP for each byte moved'),
    shape('text', { x: 0, y: 0, 'text-anchor': 'middle', transform: `translate(13 ${(EDGE.top + bottom) / 2}) rotate(-90)` }, 'GFLOP/s'),
  ];
}

function rooflineSection(app) {
  const run = app.runs[0];
  const told = 'Dots are layers, as large as their share of the time. The lines are what a short probe measured on this device: what stays in caches may reach the dashed one. Winograd’s way, which does less arithmetic than the model says, and dot products of bytes may lie above both.';
  const usable = run.nodes.some((node) => node.seconds && node.flops && node.bytes);
  if (!run.ceilings || !usable) {
    const why = run.ceilings ? 'no layer has both a time and a count of its work' : 'the ceilings of the device are unknown';
    return section('roofline', 'Roofline', '', [], element('p', { class: 'soft' }, `There is nothing to draw: ${why}.`));
  }
  const place = element('div');
  drawnToWidth(place, (width) => roofline(run, width, (node) => app.choose(node, run)));
  const families = [...familyColors(run)].slice(0, 9).map(([name, color]) => element('span', {}, element('i', { style: { background: color } }), name));
  return section('roofline', 'Roofline', told, [], place, element('div', { class: 'legend', style: { 'margin-top': '8px' } }, families));
}
