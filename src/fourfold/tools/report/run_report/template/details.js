// What is known of one node: where, why, how long, shapes, attributes, ways that were tried, text.
const WORDS = /(\/\/[^\n]*)|\b(__kernel|__global|__local|const|static|void|float\d*|half\d*|int\d*|uint\d*|long|ulong|char\d*|uchar\d*|short\d*|bool|restrict|for|if|else|return|while|switch|case|break|fn|var|let|vec\d|f32|f16|i32|u32|struct|extern|__global__)\b|\b(\d+(?:\.\d+)?(?:e[+-]?\d+)?[fuh]?)\b/g;

/** A kernel's text with its comments, words and numbers set apart. */
function highlighted(text) {
  const pieces = [];
  let last = 0;
  for (const match of text.matchAll(WORDS)) {
    pieces.push(text.slice(last, match.index));
    const kind = match[1] ? 'comment' : match[2] ? 'word' : 'value';
    pieces.push(element('span', { class: kind }, match[0]));
    last = match.index + match[0].length;
  }
  return [...pieces, text.slice(last)];
}

const pairs = (rows) => element('dl', { class: 'pairs' }, rows.map(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));

function nodeDetails(run, number) {
  const node = run.nodes[number];
  const where = isPort(node) ? node.target : node.target === 'gpu' ? run.subject.device : run.parts[node.part]?.target ?? node.target;
  return [
    element('p', { class: 'op' }, isPort(node) ? `${node.target} of the model` : node.op),
    element('p', { class: 'name', title: node.name }, firstName(node.name)),
    element('p', { style: { margin: '8px 0 0' } }, element('span', { class: 'badge', style: { color: targetColor(node.target) } }, where)),
    whyThere(node),
    timesOf(run, node),
    accuracyOf(node),
    tensorsOf('Reads', node.reads),
    tensorsOf('Writes', node.writes),
    node.attributes.length ? [element('h3', {}, 'Attributes'), pairs(node.attributes)] : [],
    operatorsOf(run, node),
    waysOf(node),
    kernelsOf(run, node),
  ].flat(2);
}

function whyThere(node) {
  const reasons = [...new Set(node.operators.map((one) => one.reason).filter(Boolean))];
  const free = node.target === 'gpu' && !node.kernels.length;
  if (free) reasons.push('Needs no kernel: its result already lies where its readers look for it.');
  return reasons.map((reason) => element('p', { class: 'small soft', style: { 'margin-top': '6px' } }, reason));
}

function timesOf(run, node) {
  const total = sum(run.nodes.map((one) => one.seconds));
  const rows = [];
  if (node.seconds !== null) {
    rows.push(['Time', `${time(node.seconds)}, ${percent(node.seconds / total)} of all kernels`]);
    if (node.flops) rows.push(['Arithmetic', `${figures(rate(node.flops, node.seconds))} GFLOP/s`]);
    if (node.bytes) rows.push(['Memory', `${figures(rate(node.bytes, node.seconds))} GB/s`]);
    const share = shareOfRoof(run, node);
    if (share !== null) rows.push(['Of the roof', percent(share)]);
  } else if (node.operators.length && node.target !== 'gpu') {
    rows.push(['Time', `about ${time(sum(node.operators.map((one) => one.seconds)))}, estimated`]);
  }
  if (node.flops) rows.push(['Work', `${count(node.flops)}FLOP${node.bytes ? `, ${bytes(node.bytes)} moved` : ''}`]);
  return rows.length ? [element('h3', {}, 'Time'), pairs(rows)] : [];
}

/** How much of what the device allows a node reaches; null where that is not known. */
function shareOfRoof(run, node) {
  if (!run.ceilings || !node.seconds || !node.bytes || !node.flops) return null;
  const roof = Math.min(run.ceilings.flops, (node.flops / node.bytes) * Math.max(run.ceilings.bytes, run.ceilings.cached_bytes));
  return node.flops / node.seconds / roof;
}

function accuracyOf(node) {
  const found = node.accuracy;
  if (!found) return [];
  const verdict = element('span', { class: found.agrees ? 'better' : 'worse' }, found.verdict);
  return [element('h3', {}, 'Accuracy'), pairs([['Verdict', verdict], ['Largest error', error(found.largest)], ['Mean error', error(found.mean)], ['Allowed', error(found.allowed)]])];
}

function tensorsOf(title, tensors) {
  if (!tensors.length) return [];
  const row = (tensor) => [element('span', { class: 'mono' }, shapeOf(tensor.type) || '–'),
    element('span', { title: tensor.name }, shortName(tensor.name, 40), tensor.constant ? element('span', { class: 'soft' }, ' · constant') : null)];
  return [element('h3', {}, title), pairs(tensors.map(row))];
}

function operatorsOf(run, node) {
  if (!node.operators.length) return [];
  return [element('h3', {}, node.operators.length > 1 ? `${node.operators.length} operators of the file` : 'Operator of the file'),
    pairs(node.operators.map((one) => [one.op, element('span', { title: one.name }, shortName(one.name, 40))]))];
}

function waysOf(node) {
  const found = node.tuning;
  if (!found) return [];
  const rows = [['Way', found.way], ['Chosen by', found.tuned ? 'tuning' : 'default; not tuned on this device']];
  if (found.looked_at) rows.push(['Looked at', `${found.looked_at} ways`]);
  if (found.kept_seconds) rows.push(['Its time then', time(found.kept_seconds)]);
  const most = Math.max(...found.candidates.map((one) => one.seconds), 0);
  const bars = found.candidates.map((one) => element('div', { class: 'meter', style: { 'margin-top': '4px' } },
    element('span', { style: { '--share': `${(100 * one.seconds) / most}%` } }, one.way === found.way ? element('b', {}, one.way) : one.way),
    element('span', { class: 'number' }, time(one.seconds))));
  const title = bars.length ? [element('h3', {}, 'Candidates, each timed alone')] : [];
  return [element('h3', {}, 'Way to run it'), pairs(rows), title, bars];
}

function kernelsOf(run, node) {
  if (!node.kernels.length) return [];
  const one = (number) => {
    const kernel = run.kernels[number];
    const waited = kernel.waiting ? `; groups waited ${time(kernel.waiting)} for others, on average` : '';
    const form = `${kernel.grid.join('×')} work-items in groups of ${kernel.local.join('×')}${waited}`;
    const text = element('details', {}, element('summary', {}, `${kernel.entry}  ${kernel.seconds === null ? '' : time(kernel.seconds)}`),
      element('p', { class: 'small soft', style: { padding: '0 10px 8px' } }, form));
    text.addEventListener('toggle', () => {
      if (text.open && !text.querySelector('pre')) text.append(element('pre', { tabindex: 0 }, highlighted(run.texts[kernel.text] ?? '')));
    });
    return text;
  };
  return [element('h3', {}, node.kernels.length > 1 ? `${node.kernels.length} kernels` : 'Kernel'), node.kernels.map(one)];
}
