// A chart of one metric: lines over time or over x, of one attempt or of several tasks. It need not begin at zero.

import { attribute, fill, h, s } from "./dom.js";
import { duration } from "./format.js";

const LEFT = 64;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;

/** @typedef {{name: string, colour: string, points: [number, number | null][]}} Line */

/** As short as it can be read. @param {number | null} value */
export const figure = (value) => {
  if (value === null || value === undefined) return "not a number";
  return String(Number(value.toPrecision(6)));
};

/** @param {string} label @param {number} [height] */
export function metricChart(label, height = 120) {
  const drawing = s("svg.chart", { role: "img", height, "aria-label": label });
  const legend = h("div.legend");
  const node = h("div.chart-box.metric-chart", { "data-metric": label }, legend, drawing);
  /** @type {Line[]} */
  let lines = [];
  let isTime = true;
  let width = 0;

  function draw() {
    if (!width) return;
    attribute(drawing, "viewBox", `0 0 ${width} ${height}`);
    attribute(drawing, "width", width);
    const frame = framed(lines, width, height);
    fill(drawing, grid(frame, isTime), ...lines.map((line) => curve(frame, line)));
    fill(legend, lines.map((line) => h("span.key", { "data-colour": line.colour }, line.name, h("b", null, figure(line.points.at(-1)?.[1] ?? null)))));
  }

  new ResizeObserver(([entry]) => {
    const found = Math.floor(entry.contentRect.width);
    if (found === width) return;
    width = found;
    draw();
  }).observe(node);

  return {
    node,
    /** @param {Line[]} next @param {boolean} overTime */
    update(next, overTime) {
      lines = next;
      isTime = overTime;
      draw();
    },
  };
}

/** @param {Line[]} lines @param {number} width @param {number} height */
function framed(lines, width, height) {
  const points = lines.flatMap((line) => line.points);
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y).filter((y) => y !== null);
  const [from, to] = [Math.min(...xs), Math.max(...xs)];
  const [least, most] = ys.length ? [Math.min(...ys), Math.max(...ys)] : [0, 1];
  const room = most > least ? (most - least) * 0.05 : Math.abs(most) * 0.1 || 1;
  const [bottom, top] = [least - room, most + room];
  return {
    width, height, from, to, least, most,
    x: (/** @type {number} */ x) => LEFT + ((x - from) / Math.max(to - from, 1e-12)) * (width - LEFT - RIGHT),
    y: (/** @type {number} */ y) => TOP + ((top - y) / (top - bottom)) * (height - TOP - BOTTOM),
  };
}

/** @param {ReturnType<typeof framed>} frame @param {boolean} isTime */
function grid(frame, isTime) {
  const group = s("g.grid");
  const values = frame.most > frame.least ? [frame.least, (frame.least + frame.most) / 2, frame.most] : [frame.most];
  for (const value of values) {
    const y = Math.round(frame.y(value)) + 0.5;
    group.append(s("line", { x1: LEFT, x2: frame.width - RIGHT, y1: y, y2: y }),
      s("text", { x: LEFT - 8, y: y + 3.5, "text-anchor": "end" }, String(Number(value.toPrecision(3)))));
  }
  if (!Number.isFinite(frame.from)) return group;
  const shown = (/** @type {number} */ x) => (isTime ? `+${duration(x)}` : String(Number(x.toPrecision(6))));
  group.append(s("text", { x: LEFT, y: frame.height - 5, "text-anchor": "start" }, shown(frame.from)),
    s("text", { x: frame.width - RIGHT, y: frame.height - 5, "text-anchor": "end" }, shown(frame.to)));
  return group;
}

/** Where a value is not a number, the line is broken. @param {ReturnType<typeof framed>} frame @param {Line} line */
function curve(frame, line) {
  const group = s("g.area", { "data-colour": line.colour });
  /** @type {string[]} */
  let open = [];
  const end = () => {
    if (open.length > 1) group.append(s("path.line", { d: `M${open.join("L")}` }));
    if (open.length === 1) group.append(s("circle.dot", { cx: open[0].split(",")[0], cy: open[0].split(",")[1], r: 2.5 }));
    open = [];
  };
  for (const [x, y] of line.points) {
    if (y === null) end();
    else open.push(`${frame.x(x).toFixed(1)},${frame.y(y).toFixed(1)}`);
  }
  end();
  return group;
}
