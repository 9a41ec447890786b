// Opens the data and puts the page together.
const THEMES = [['auto', 'Auto'], ['light', 'Light'], ['dark', 'Dark']];
const dark = matchMedia('(prefers-color-scheme: dark)');
let theme = 'auto';

function applyTheme() {
  document.documentElement.dataset.theme = theme === 'auto' ? (dark.matches ? 'dark' : 'light') : theme;
}

async function readData() {
  const packed = Uint8Array.from(atob(document.getElementById('data').textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).json();
}

function head(run) {
  const { subject } = run;
  const facts = [`${subject.device} (${subject.device_kind})`, `precision ${subject.precision}`, subject.driver !== '-' ? `driver ${subject.driver}` : '', `inputs: ${subject.data}`, `fourfold ${subject.fourfold}`, subject.made.slice(0, 16).replace('T', ' ')];
  return [
    element('div', {}, element('h1', {}, subject.model), element('p', { style: { 'margin-top': '4px' } }, run.summary)),
    element('div', { class: 'tools' }, choice('Theme', THEMES, theme, (value) => { theme = value; applyTheme(); })),
    element('p', { class: 'facts small' }, facts.filter(Boolean).map((fact) => element('span', {}, fact))),
  ];
}

/** What stands beside the graph until a node is chosen: how to, and the nodes that take longest. */
function firstHint(app) {
  const [run] = app.runs;
  const total = sum(run.nodes.map((node) => node.seconds));
  const slowest = run.nodes.map((node, number) => ({ node, number })).filter(({ node }) => node.seconds).sort((a, b) => b.node.seconds - a.node.seconds).slice(0, 10);
  const row = ({ node, number }) => element('button', { type: 'button', class: 'meter', onclick: () => app.choose(number, run) },
    element('span', { style: { '--share': `${(100 * node.seconds) / slowest[0].node.seconds}%` } }, node.op, element('small', { class: 'soft' }, shortName(node.name, 40))),
    element('span', { class: 'number' }, time(node.seconds), element('small', { class: 'soft' }, percent(node.seconds / total))));
  return [
    element('p', { class: 'op' }, 'Choose a node'),
    element('p', { class: 'soft small', style: { 'margin-top': '6px' } }, 'Click one to see its shapes, attributes, kernels and times. Drag to pan; click, then scroll to zoom. By keys: arrows, + and −, 0 for all.'),
    slowest.length ? element('h3', {}, 'What takes longest') : null, ...slowest.map(row),
  ].filter(Boolean);
}

/** The graph of the runs, one of them shown, with what is known of the node that is chosen. */
function graphSection(app) {
  const views = new Map(app.runs.map((run) => [run, new GraphView(run, (node) => app.choose(node, run))]));
  const panel = element('div', { class: 'details', role: 'region', 'aria-label': 'The chosen node', 'aria-live': 'polite', tabindex: 0 });
  const canvas = element('div', { class: 'canvas' });
  const marks = element('div', { class: 'legend' });
  let [shown] = app.runs;
  let coloring = 'placement';
  const show = () => {
    const view = views.get(shown);
    view.color(coloring, app.runs.find((run) => run !== shown));
    marks.replaceChildren(...legend(coloring, shown));
    canvas.replaceChildren(view.svg, view.map.svg, marks);
  };
  panel.append(...firstHint(app));
  app.choose = (node, run) => {
    if (run !== shown) {
      shown = run;
      show();
    }
    views.get(run).select(node);
    views.get(run).show(node);
    panel.replaceChildren(...nodeDetails(run, node));
    panel.scrollTop = 0;
    document.querySelectorAll('[data-node].chosen').forEach((one) => one.closest('.node') ?? one.classList.remove('chosen'));
    document.querySelectorAll(`tr[data-node="${node}"], circle[data-node="${node}"]`).forEach((one) => one.classList.add('chosen'));
  };
  const modes = [['placement', 'Placement'], ['time', 'Time'], ['error', 'Error']].filter(([value]) => value !== 'error' || app.runs.some((run) => run.accuracy));
  if (app.runs.length > 1) modes.push(['change', 'Change']);
  const view = () => views.get(shown);
  const tools = [
    app.runs.length > 1 ? choice('Run', app.titles.map((title, place) => [String(place), title]).reverse(), '0', (value) => { shown = app.runs[Number(value)]; show(); }) : null,
    choice('Colour by', modes, coloring, (value) => { coloring = value; show(); }),
    element('input', { type: 'search', placeholder: 'Find a layer', 'aria-label': 'Find a layer', oninput: (event) => view().find(event.target.value) }),
    element('span', { class: 'tools' }, [['−', 'Zoom out', () => view().zoomBy(0.8)], ['+', 'Zoom in', () => view().zoomBy(1.25)], ['All', 'Show all', () => view().fit()]]
      .map(([text, title, act]) => element('button', { type: 'button', title, 'aria-label': title, onclick: act }, text))),
  ].filter(Boolean);
  show();
  const run = app.runs[0];
  const told = `${run.nodes.filter((node) => !isPort(node)).length} nodes as they ran: the file’s operators, rewritten and fused.`;
  return section('graph', 'Graph', told, tools, element('div', { class: 'stage' }, canvas, panel));
}

function navigation(sections) {
  const links = sections.map((one) => element('a', { href: `#${one.id}` }, one.querySelector('h2')?.textContent ?? 'Overview'));
  const visible = new Set();
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) visible[entry.isIntersecting ? 'add' : 'delete'](entry.target);
    const first = sections.findIndex((one) => visible.has(one));
    links.forEach((link, place) => (place === first ? link.setAttribute('aria-current', 'true') : link.removeAttribute('aria-current')));
  }, { rootMargin: '-64px 0px -60% 0px' });
  sections.forEach((one) => seen.observe(one));
  return element('div', {}, links);
}

async function open() {
  applyTheme();
  dark.addEventListener('change', applyTheme);
  const { run, before } = await readData();
  const app = { runs: before ? [run, before] : [run], titles: before ? ['After', 'Before'] : [''], choose: () => {} };
  app.inOrder = app.runs.map((one, place) => ({ run: one, title: app.titles[place] })).reverse();
  findCommonStart(run.nodes.filter((node) => !isPort(node)).map((node) => node.name));
  document.getElementById('head').append(...head(run));
  const graph = graphSection(app);
  const sections = [overview(app), before ? compareSection(app) : null, graph, timelineSection(app), kernelSection(app), rooflineSection(app), memorySection(app), startSection(app), adviceSection(app), accuracySection(app)].filter(Boolean);
  document.getElementById('main').replaceChildren(...sections);
  document.getElementById('nav').append(navigation(sections));
  document.documentElement.dataset.ready = 'yes';
  requestAnimationFrame(() => setTimeout(() => performance.mark('drawn')));
}

open().catch((reason) => {
  document.getElementById('main').replaceChildren(element('p', { class: 'wait', role: 'alert' }, `The report cannot be shown: ${reason.message}. It needs a browser of 2023 or later.`));
  throw reason;
});
