// The table of layers, or of kinds of kernels, sorted by any column.
const share = (part, whole) => (whole ? part / whole : 0);

function layerRows(run) {
  const total = sum(run.nodes.map((node) => node.seconds));
  const most = Math.max(...run.nodes.map((node) => node.seconds ?? 0));
  return run.nodes.map((node, number) => ({ node, number })).filter(({ node }) => node.kernels.length).map(({ node, number }) => ({
    number,
    op: node.op,
    name: shortName(node.name, 60),
    full: node.name,
    kernel: node.kernels.map((one) => run.kernels[one].entry).join(', '),
    seconds: node.seconds,
    share: share(node.seconds, total),
    bar: share(node.seconds, most),
    flops: node.seconds && node.flops ? rate(node.flops, node.seconds) : null,
    bytes: node.seconds && node.bytes ? rate(node.bytes, node.seconds) : null,
    roof: shareOfRoof(run, node),
  }));
}

function kindRows(run) {
  const groups = new Map();
  for (const kernel of run.kernels) {
    const title = kernel.entry.replace(/_\d+$/, '');
    groups.set(title, [...(groups.get(title) ?? []), kernel]);
  }
  const total = sum(run.kernels.map((kernel) => kernel.seconds));
  return [...groups].map(([title, kernels]) => {
    const nodes = [...new Set(kernels.map((kernel) => kernel.node))].map((number) => run.nodes[number]);
    const alone = nodes.every((node) => node.kernels.every((number) => kernels.includes(run.kernels[number])));
    const seconds = sum(kernels.map((kernel) => kernel.seconds));
    return {
      number: kernels[0].node, op: title, name: `${kernels.length} of them`, full: '', kernel: title, seconds, share: share(seconds, total), bar: share(seconds, total),
      flops: alone && seconds ? rate(sum(nodes.map((node) => node.flops)), seconds) : null,
      bytes: seconds ? rate(sum(kernels.map((kernel) => kernel.bytes_read + kernel.bytes_written)), seconds) : null, roof: null,
    };
  });
}

const rounded = (value) => (value === null ? '–' : figures(value));
const COLUMNS = [
  ['op', 'Layer', '', (row) => row.op],
  ['name', 'Name', 'name wide', (row) => row.name],
  ['kernel', 'Kernel', 'mono wide', (row) => row.kernel],
  ['seconds', 'Time', 'right', (row) => time(row.seconds)],
  ['share', 'Share', 'tight', (row) => [element('span', { class: 'share wide', style: { width: `${Math.max(1, row.bar * 64)}px` } }), percent(row.share)]],
  ['flops', 'GFLOP/s', 'right', (row) => rounded(row.flops)],
  ['bytes', 'GB/s', 'right wide', (row) => rounded(row.bytes)],
  ['roof', 'Of roof', 'right wide', (row) => (row.roof === null ? '–' : percent(row.roof))],
];

/** A table whose head sorts it; `columns` have a key, a title, a class and what a cell shows. */
class SortedTable {
  constructor(columns, rows, key, choose) {
    Object.assign(this, { columns, rows, key, choose, descending: true, words: '' });
    this.heads = columns.map(([name, title, kind]) => element('th', { scope: 'col', class: kind.replace('mono', '').replace('name', '') },
      element('button', { type: 'button', 'data-key': name, onclick: () => this.sort(name) }, title)));
    this.body = element('tbody');
    this.element = element('div', { class: 'table', tabindex: 0 }, element('table', {}, element('thead', {}, element('tr', {}, this.heads)), this.body));
    this.draw();
  }

  sort(key) {
    const texts = typeof this.rows[0]?.[key] === 'string';
    this.descending = key === this.key ? !this.descending : !texts;
    this.key = key;
    this.draw();
  }

  show(rows) {
    this.rows = rows;
    this.draw();
  }

  filter(words) {
    this.words = words.trim().toLowerCase();
    this.draw();
  }

  draw() {
    const sign = this.descending ? -1 : 1;
    const value = (row) => row[this.key] ?? -Infinity;
    const compare = (a, b) => (typeof value(a) === 'string' ? value(a).localeCompare(value(b)) : value(a) - value(b));
    const shown = this.rows.filter((row) => !this.words || `${row.op} ${row.full} ${row.name} ${row.kernel}`.toLowerCase().includes(this.words));
    shown.sort((a, b) => sign * compare(a, b));
    this.heads.forEach((head, place) => {
      if (this.columns[place][0] === this.key) head.setAttribute('aria-sort', this.descending ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    this.body.replaceChildren(...shown.map((row) => this.row(row)));
  }

  row(row) {
    const cells = this.columns.map(([, , kind, cell], place) => element('td', { class: kind }, place ? cell(row) : element('button', { type: 'button' }, cell(row))));
    if (row.full) cells[1].title = row.full;
    return element('tr', { class: 'pick', 'data-node': row.number, onclick: () => this.choose(row.number) }, cells);
  }
}

function kernelSection(app) {
  const run = app.runs[0];
  const table = new SortedTable(COLUMNS, layerRows(run), 'seconds', (node) => app.choose(node, run));
  const by = choice('Rows', [['layers', 'Layers'], ['kinds', 'Kinds of kernel']], 'layers', (value) => table.show(value === 'layers' ? layerRows(run) : kindRows(run)));
  const search = element('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter the table', oninput: (event) => table.filter(event.target.value) });
  const told = 'Arithmetic is counted as the model defines it, and each byte once. A click shows the layer in the graph.';
  return section('kernels', 'Kernels', told, [by, search], table.element);
}
