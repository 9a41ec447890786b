// The graph, to zoom and to pan: by mouse, touch or keys, with a map of the whole beside it.
const NODE_HEIGHT = 44;
const LARGEST_ZOOM = 3;

/** Draws a run's graph; `choose` hears which node was clicked. */
class GraphView {
  constructor(run, choose) {
    this.run = run;
    this.choose = choose;
    this.width = Math.max(...run.nodes.map((node) => node.x + node.width / 2), 1);
    this.height = Math.max(...run.nodes.map((node) => node.y + NODE_HEIGHT), 1);
    this.at = { x: 0, y: 0, zoom: 1 };
    this.chosen = null;
    this.pointers = new Map();
    this.nodes = run.nodes.map((node, number) => this.drawNode(node, number));
    this.edges = run.edges.map((edge) => shape('path', { class: 'edge', d: curve(edge.points), 'marker-end': 'url(#arrow)' }, shape('title', {}, `${firstName(edge.value)}  ${shapeOf(edge.type)}`)));
    this.layer = shape('g', {}, this.edges, this.nodes);
    this.svg = shape('svg', {
      class: 'view', tabindex: 0, role: 'img', 'aria-label': `Graph of ${run.nodes.length} nodes. Arrow keys go from node to node, plus and minus zoom, 0 shows all.`,
      onpointerdown: (event) => this.press(event), onpointermove: (event) => this.move(event), onpointerup: (event) => this.release(event),
      onpointercancel: (event) => this.release(event), onwheel: (event) => this.wheel(event), onkeydown: (event) => this.key(event),
    }, shape('defs', {}, shape('marker', { id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: 'userSpaceOnUse', orient: 'auto' }, shape('path', { d: 'M0 0 8 4 0 8z' }))), this.layer);
    this.map = new GraphMap(this);
    new ResizeObserver(() => this.resized()).observe(this.svg);
  }

  drawNode(node, number) {
    const left = node.x - node.width / 2;
    const value = node.writes[0] ?? node.reads[0];
    const title = isPort(node) ? node.target : node.op;
    return shape('g', { class: 'node', 'data-node': number, transform: `translate(${left} ${node.y})` },
      shape('rect', { class: 'box', width: node.width, height: NODE_HEIGHT, rx: isPort(node) ? NODE_HEIGHT / 2 : 7 }),
      shape('text', { x: node.width / 2, y: 19 }, title.length > 34 ? `${title.slice(0, 33)}…` : title),
      shape('text', { class: 'type', x: node.width / 2, y: 35 }, value ? shapeOf(value.type) : ''),
      shape('title', {}, `${firstName(node.name)}${node.seconds === null ? '' : `\n${time(node.seconds)}`}`));
  }

  color(coloring, other) {
    const look = COLORINGS[coloring](this.run, other);
    this.fills = this.run.nodes.map((node) => look(node).fill);
    this.nodes.forEach((drawn, number) => {
      drawn.firstChild.style.fill = this.fills[number];
      drawn.classList.toggle('filled', coloring !== 'placement');
    });
    this.map.draw();
  }

  find(text) {
    const words = text.trim().toLowerCase();
    const hits = this.run.nodes.map((node) => !words || `${node.name} ${node.op}`.toLowerCase().includes(words));
    this.nodes.forEach((drawn, number) => drawn.classList.toggle('faded', !hits[number]));
    if (words && hits.includes(true)) this.show(hits.indexOf(true));
  }

  select(number) {
    this.chosen = number;
    this.nodes.forEach((drawn, place) => drawn.classList.toggle('chosen', place === number));
    this.run.edges.forEach((edge, place) => this.edges[place].classList.toggle('near', edge.source === number || edge.target === number));
  }

  /** Moves so that a node is in the middle, if it cannot be seen. */
  show(number) {
    const node = this.run.nodes[number];
    const box = this.size();
    const x = node.x * this.at.zoom + this.at.x;
    const y = node.y * this.at.zoom + this.at.y;
    if (x > 60 && y > 20 && x < box.width - 120 && y < box.height - 60) return;
    this.place(box.width / 2 - node.x * this.at.zoom, box.height / 2 - node.y * this.at.zoom, this.at.zoom);
  }

  size() {
    return { width: this.svg.clientWidth || 800, height: this.svg.clientHeight || 600 };
  }

  /** The first rows, large enough to be read. */
  start() {
    const box = this.size();
    const zoom = Math.min(1, Math.max(0.7, (box.width - 100) / this.width));
    const first = this.run.nodes[0]?.x ?? 0;
    this.place((box.width - 70) / 2 - first * zoom, 22, zoom);
  }

  fit() {
    const box = this.size();
    const zoom = Math.min(1, (box.width - 100) / this.width, (box.height - 40) / this.height);
    this.place((box.width - 70 - this.width * zoom) / 2, 20, zoom);
  }

  resized() {
    if (!this.placed && this.svg.clientWidth) {
      this.placed = true;
      this.start();
    } else this.map.draw();
  }

  place(x, y, zoom) {
    this.at = { x, y, zoom };
    this.layer.setAttribute('transform', `translate(${x} ${y}) scale(${zoom})`);
    this.map.draw();
  }

  zoomBy(factor, x = this.size().width / 2, y = this.size().height / 2) {
    const box = this.size();
    const least = Math.min(0.4, (box.width - 60) / this.width, (box.height - 20) / this.height);
    const zoom = Math.min(LARGEST_ZOOM, Math.max(least, this.at.zoom * factor));
    const scale = zoom / this.at.zoom;
    this.place(x - (x - this.at.x) * scale, y - (y - this.at.y) * scale, zoom);
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  press(event) {
    this.pointers.set(event.pointerId, this.point(event));
    this.dragged = 0;
    this.pressed = event.target.closest('.node');
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const now = this.point(event);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
    this.pointers.set(event.pointerId, now);
    this.dragged += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (this.dragged > 4) this.svg.setPointerCapture(event.pointerId);
    if (others.length) {
      const apart = (point) => Math.hypot(point.x - others[0].x, point.y - others[0].y) || 1;
      this.zoomBy(apart(now) / apart(before), (now.x + others[0].x) / 2, (now.y + others[0].y) / 2);
    } else this.place(this.at.x + now.x - before.x, this.at.y + now.y - before.y, this.at.zoom);
  }

  release(event) {
    this.pointers.delete(event.pointerId);
    if (this.pressed && this.dragged <= 4 && event.type === 'pointerup') this.choose(Number(this.pressed.dataset.node));
  }

  /** Scrolls the page, unless the graph has been clicked, or fingers pinch. */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.svg) return;
    event.preventDefault();
    const { x, y } = this.point(event);
    this.zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), x, y);
  }

  key(event) {
    const steps = { ArrowDown: 'target', ArrowUp: 'source' };
    const sides = { ArrowLeft: -1, ArrowRight: 1 };
    const zooms = { '+': 1.25, '=': 1.25, '-': 0.8 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (steps[event.key]) this.step(steps[event.key]);
    else if (sides[event.key]) this.sideways(sides[event.key]);
    else if (zooms[event.key]) this.zoomBy(zooms[event.key]);
    else if (event.key === '0') this.fit();
    else return;
    event.preventDefault();
  }

  /** To the nearest node along an edge. */
  step(end) {
    const start = end === 'target' ? 'source' : 'target';
    const next = this.chosen === null ? 0 : this.run.edges.find((edge) => edge[start] === this.chosen)?.[end];
    if (next !== undefined) this.choose(next);
  }

  /** To the next node of the same row. */
  sideways(direction) {
    const here = this.run.nodes[this.chosen ?? 0];
    const row = this.run.nodes.map((node, number) => ({ node, number })).filter(({ node }) => node.y === here.y && (node.x - here.x) * direction > 0);
    row.sort((a, b) => Math.abs(a.node.x - here.x) - Math.abs(b.node.x - here.x));
    if (row.length) this.choose(row[0].number);
  }
}

/** A line through points, which leaves and arrives straight down. */
function curve(points) {
  let path = `M${points[0][0]} ${points[0][1]}`;
  for (let place = 1; place < points.length; place++) {
    const [[x0, y0], [x1, y1]] = [points[place - 1], points[place]];
    const bend = (y1 - y0) / 2;
    path += x0 === x1 ? `L${x1} ${y1}` : `C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}`;
  }
  return path;
}

/** All of the graph at once, and the part of it that can be seen. */
class GraphMap {
  constructor(view) {
    this.view = view;
    this.svg = shape('svg', { class: 'map', 'aria-hidden': 'true', onpointerdown: (event) => this.go(event), onpointermove: (event) => event.buttons && this.go(event) });
  }

  draw() {
    const { run, width, height, at, fills } = this.view;
    const box = this.view.size();
    const window_ = shape('rect', { class: 'window', x: -at.x / at.zoom, y: -at.y / at.zoom, width: box.width / at.zoom, height: box.height / at.zoom });
    if (this.marks === undefined || this.fills !== fills) {
      this.fills = fills;
      this.marks = run.nodes.map((node, place) => shape('rect', { class: 'mark', x: node.x - node.width / 2, y: node.y, width: node.width, height: NODE_HEIGHT, style: { fill: fills?.[place], stroke: 'var(--strong-line)', 'stroke-width': height / 400 } }));
      this.svg.setAttribute('viewBox', `${-width * 0.05} ${-height * 0.01} ${width * 1.1} ${height * 1.02}`);
      this.svg.setAttribute('preserveAspectRatio', 'xMidYMin meet');
      this.svg.replaceChildren(...this.marks, window_);
    } else this.svg.lastChild.replaceWith(window_);
  }

  go(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    const box = this.view.size();
    const { zoom } = this.view.at;
    this.view.place(box.width / 2 - point.x * zoom, box.height / 2 - point.y * zoom, zoom);
  }
}
