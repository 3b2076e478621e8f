// A flow as a graph: parts in layers from left to right, each to the right of what it runs after.

import { attribute, s, text } from "./dom.js";
import { clean, count, duration, fraction, lasted, percent } from "./format.js";
import { href } from "./router.js";

const WIDTH = 196;
const HEIGHT = 58;
const ACROSS = 64;
const DOWN = 18;
const EDGE = 12;

/** As the style says: what fits is measured. */
const FAMILY = getComputedStyle(document.documentElement).getPropertyValue("--sans") || "sans-serif";
const NAME_FONT = `600 13.5px ${FAMILY}`;
const STATE_FONT = `12px ${FAMILY}`;

/** As much of a text as is so wide. @param {string} whole @param {number} width @param {string} font */
function fitting(whole, width, font) {
  const pen = (fitting.pen ??= document.createElement("canvas").getContext("2d"));
  if (!pen) return whole;
  pen.font = font;
  let shown = whole;
  while (shown.length > 1 && pen.measureText(shown).width > width) shown = `${shown.replace(/…$/, "").slice(0, -1)}…`;
  return shown;
}
/** @type {CanvasRenderingContext2D | null | undefined} */
fitting.pen = undefined;

/** @typedef {{name: string, state: string, tasks: number, is_map: boolean, after: string[], counts: Record<string, number>}} Part */
/** @typedef {{name: string, part: Part | null, ways: string[]}} Item a part, or a place that a long line passes */
/** @typedef {{item: Item, layer: number, row: number}} Place */

/** How far to the right each part stands: as its longest way says. @param {Part[]} parts */
function layersOf(parts) {
  const known = new Set(parts.map((part) => part.name));
  /** @type {Map<string, number>} */
  const layers = new Map();
  // A part stands in the list before what runs after it, or not: go on until nothing moves.
  for (let moved = true, rounds = 0; moved && rounds <= parts.length; rounds += 1) {
    moved = false;
    for (const part of parts) {
      const layer = Math.max(0, ...part.after.filter((name) => known.has(name)).map((name) => (layers.get(name) ?? 0) + 1));
      if (layers.get(part.name) !== layer) {
        layers.set(part.name, layer);
        moved = true;
      }
    }
  }
  return layers;
}

/**
 * Where everything stands, each as near to what it comes from as it can. A line over several layers has
 * a place in each, so that it passes by what stands there.
 * @param {Part[]} parts
 * @returns {Map<string, Place>}
 */
export function layered(parts) {
  const layers = layersOf(parts);
  /** @type {Item[][]} */
  const columns = [];
  const add = (/** @type {number} */ layer, /** @type {Item} */ item) => (columns[layer] ??= []).push(item);
  for (const part of parts) {
    const layer = layers.get(part.name) ?? 0;
    const ways = part.after.filter((name) => layers.has(name)).map((name) => {
      let last = name;
      for (let between = (layers.get(name) ?? 0) + 1; between < layer; between += 1) {
        const passing = `${name} ${part.name} ${between}`;
        add(between, { name: passing, part: null, ways: [last] });
        last = passing;
      }
      return last;
    });
    add(layer, { name: part.name, part, ways });
  }
  /** @type {Map<string, Place>} */
  const places = new Map();
  columns.forEach((column, layer) => {
    const middle = (/** @type {Item} */ item) => item.ways.reduce((sum, name) => sum + (places.get(name)?.row ?? 0), 0) / Math.max(1, item.ways.length);
    const sorted = layer ? [...column].sort((a, b) => middle(a) - middle(b)) : column;
    sorted.forEach((item, row) => places.set(item.name, { item, layer, row }));
  });
  return places;
}

/** `7 412 / 10 000`, `3 failed`, `started · 42 % · 3m 12s` @param {Part} part @param {any} [task] of a part that is one */
export function condition(part, task) {
  const running = part.counts.started + part.counts.reserved;
  const bad = ["failed", "cancelled"].filter((state) => part.counts[state]).map((state) => `${count(part.counts[state])} ${state}`);
  if (!part.is_map) {
    const known = task?.state === part.state ? task : null;
    return [part.state, known?.state === "started" ? percent(fraction(known.progress)) : "", known?.started_at ? duration(lasted(known)) : ""].filter(Boolean).join(" · ");
  }
  return [`${count(part.counts.complete)} / ${count(part.tasks)}`, running ? `${count(running)} running` : "", ...bad].filter(Boolean).join(" · ");
}

/** A picture that can be updated; it is laid out once, since the shape of a flow never changes. @param {any} flow */
export function flowGraph(flow) {
  const places = layered(flow.parts);
  const tallest = Math.max(1, ...[...places.values()].map(({ row }) => row + 1));
  const deepest = Math.max(1, ...[...places.values()].map(({ layer }) => layer + 1));
  const sizes = [...places.values()].reduce((found, { layer }) => found.set(layer, (found.get(layer) ?? 0) + 1), new Map());
  const x = (/** @type {Place} */ place) => EDGE + place.layer * (WIDTH + ACROSS);
  const y = (/** @type {Place} */ place) => EDGE + (place.row + (tallest - sizes.get(place.layer)) / 2) * (HEIGHT + DOWN);
  const width = 2 * EDGE + deepest * WIDTH + (deepest - 1) * ACROSS;
  const height = 2 * EDGE + tallest * (HEIGHT + DOWN) - DOWN;
  const all = [...places.values()];
  const edges = all.flatMap((to) => to.item.ways.map((name) => {
    const from = /** @type {Place} */ (places.get(name));
    const [left, top, right, bottom] = [x(from) + WIDTH, y(from) + HEIGHT / 2, x(to), y(to) + HEIGHT / 2];
    const through = from.item.part ? "" : `M${x(from)},${top} H${left} `;
    return s("path.flow-edge", { d: `${through}M${left},${top} C${left + ACROSS / 2},${top} ${right - ACROSS / 2},${bottom} ${right},${bottom}`,
      "data-from": name.split(" ", 1)[0] });
  }));
  const nodes = new Map(all.flatMap((place) => (place.item.part ? [[place.item.name, node(flow, place.item.part, x(place), y(place))]] : [])));
  const picture = s("svg.flow-graph", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `Parts of ${clean(flow.name, 60)}` },
    edges, [...nodes.values()].map((each) => each.node));
  return {
    node: picture,
    /** @param {any} now @param {Map<string, any>} tasks by part, of parts that are one task */
    update(now, tasks) {
      const states = new Map(now.parts.map((/** @type {Part} */ part) => [part.name, part.state]));
      for (const part of now.parts) nodes.get(part.name)?.update(part, tasks.get(part.name));
      for (const edge of edges) attribute(edge, "data-state", states.get(/** @type {any} */ (edge).dataset.from));
    },
  };
}

/** @param {any} flow @param {Part} part @param {number} left @param {number} top */
function node(flow, part, left, top) {
  const address = part.is_map ? href("tasks", "", { flow: flow.id, prefix: `${flow.id}.${part.name}.` }) : href("task", `${flow.id}.${part.name}`);
  const said = s("text.flow-part-state", { x: 14, y: 41 });
  const title = s("title");
  const done = s("rect.flow-done", { x: 1, y: HEIGHT - 5, height: 4, rx: 2, width: 0 });
  const name = fitting(clean(part.name, 60), WIDTH - 42, NAME_FONT);
  const link = s("a.flow-part", { href: address, transform: `translate(${left},${top})` }, title,
    s("rect.flow-box", { width: WIDTH, height: HEIGHT, rx: 10 }), part.is_map ? s("rect.flow-behind", { x: 4, y: -4, width: WIDTH - 8, height: 4, rx: 2 }) : null,
    s("circle", { cx: 18, cy: 20, r: 4.5 }), s("text.flow-part-name", { x: 30, y: 24.5 }, name), said, done);
  return {
    node: link,
    /** @param {Part} now @param {any} task */
    update(now, task) {
      const how = condition(now, task);
      attribute(link, "data-state", now.state);
      text(said, fitting(how, WIDTH - 24, STATE_FONT));
      text(title, `${clean(part.name, 300)}: ${how}`);
      const ended = now.counts.complete + now.counts.failed + now.counts.cancelled;
      const through = now.tasks ? ended / now.tasks : 0;
      attribute(done, "width", ((WIDTH - 2) * (through || (task?.state === "started" && fraction(task.progress)) || 0)).toFixed(1));
    },
  };
}
