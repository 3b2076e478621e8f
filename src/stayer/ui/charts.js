// Charts in SVG, drawn in pixels of the place they are given, and drawn again when that changes.

import { attribute, fill, h, s } from "./dom.js";
import { exactClock } from "./format.js";
import { timeTicks } from "./ticks.js";

const LEFT = 56;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;

/**
 * @typedef {{name: string, colour: string, values: (number | null)[], said?: number}} Series values at the chart's times; `said` is in the legend instead of the last
 * @typedef {{times: number[], series: Series[], marks?: {at: number, label: string}[]}} Data
 */

/**
 * A chart over time: `lines` are areas one before the other, `bars` are stacked.
 * @param {{kind: "lines" | "bars", height: number, label: string, format: (value: number) => string, legend?: boolean, whole?: boolean, times?: boolean, least?: number}} options `whole`: there are no parts of what is counted; `times`: values are seconds; `least`: what the top stands for at least
 */
export function timeChart(options) {
  const drawing = s("svg.chart", { role: "img", height: options.height, "aria-label": options.label });
  const legend = h("div.legend");
  const readout = h("div.readout", { hidden: true });
  const node = h("div.chart-box", null, options.legend === false ? null : legend, drawing, readout);
  /** @type {Data} */
  let data = { times: [], series: [] };
  let width = 0;

  function draw() {
    if (!width) return;
    attribute(drawing, "viewBox", `0 0 ${width} ${options.height}`);
    attribute(drawing, "width", width);
    const frame = framed(data, options, width);
    fill(drawing, grid(frame, options), ...data.series.map((each, index) =>
      options.kind === "bars" ? bars(frame, data, index) : area(frame, each)), marks(frame, data));
    fill(legend, data.series.map((each) => h("span.key", { "data-colour": each.colour }, each.name,
      h("b", null, options.format(options.kind === "bars" ? sum(each.values) : each.said ?? last(each.values))))));
  }

  new ResizeObserver(([entry]) => {
    const found = Math.floor(entry.contentRect.width);
    if (found === width) return;
    width = found;
    draw();
  }).observe(node);

  drawing.addEventListener("pointermove", (event) => {
    const frame = framed(data, options, width);
    const index = frame.nearest(event.offsetX);
    drawing.querySelector(".cross")?.remove();
    readout.hidden = index < 0;
    if (index < 0) return;
    const x = frame.x(data.times[index]) + (options.kind === "bars" ? frame.step / 2 : 0);
    drawing.append(s("line.cross", { x1: x, x2: x, y1: TOP, y2: options.height - BOTTOM }));
    fill(readout, h("b", null, exactClock(data.times[index])), data.series.map((each) =>
      h("span.key", { "data-colour": each.colour }, each.name, h("b", null, each.values[index] === null ? "–" : options.format(each.values[index] ?? 0)))));
    readout.style.insetInlineStart = `${Math.min(Math.max(0, x - 60), Math.max(0, width - 170))}px`;
  });
  drawing.addEventListener("pointerleave", () => {
    drawing.querySelector(".cross")?.remove();
    readout.hidden = true;
  });

  return {
    node,
    /** @param {Data} next */
    update(next) {
      data = next;
      draw();
    },
  };
}

/** @param {(number | null)[]} values */
const sum = (values) => values.reduce((/** @type {number} */ total, each) => total + (each ?? 0), 0);

/** @param {(number | null)[]} values */
const last = (values) => values.findLast((each) => each !== null) ?? 0;

/** Where values and times are on the drawing. @param {Data} data @param {{kind: string, height: number, times?: boolean, least?: number}} options @param {number} width */
function framed(data, options, width) {
  const { times, series } = data;
  const tops = options.kind === "bars"
    ? times.map((_, index) => series.reduce((total, each) => total + (each.values[index] ?? 0), 0))
    : series.flatMap((each) => each.values.map((value) => value ?? 0));
  const most = (options.times ? niceTime : nice)(Math.max(options.least ?? 0, ...tops));
  const step = times.length > 1 ? times[1] - times[0] : 1;
  const from = times[0] ?? 0;
  const to = (times.at(-1) ?? 1) + (options.kind === "bars" ? step : 0);
  const inner = Math.max(1, width - LEFT - RIGHT);
  const x = (/** @type {number} */ at) => LEFT + ((at - from) / Math.max(to - from, 1e-9)) * inner;
  const y = (/** @type {number} */ value) => options.height - BOTTOM - (value / most) * (options.height - TOP - BOTTOM);
  return {
    x, y, most, from, to, width, times,
    step: x(from + step) - x(from),
    /** @param {number} pixel */
    nearest(pixel) {
      if (!times.length || pixel < LEFT || pixel > width - RIGHT) return -1;
      const at = from + ((pixel - LEFT) / inner) * (to - from) - (options.kind === "bars" ? step / 2 : 0);
      let best = 0;
      times.forEach((time, index) => {
        if (Math.abs(time - at) < Math.abs(times[best] - at)) best = index;
      });
      return best;
    },
  };
}

/** A round number at or above. @param {number} value */
function nice(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 8, 10].find((each) => each * power >= value) ?? 10) * power;
}

/** A round time at or above, in seconds, of which half is one too. @param {number} value */
const niceTime = (value) => [2, 4, 10, 20, 60, 120, 240, 600, 1200, 3600, 7200, 14_400, 28_800, 86_400].find((each) => each >= value) ?? nice(value / 86_400) * 86_400;

/** @param {ReturnType<typeof framed>} frame @param {{height: number, whole?: boolean, format: (value: number) => string}} options */
function grid(frame, options) {
  const group = s("g.grid");
  // Steps of round numbers: fifths of 10, fourths of 2, 4 and 8.
  const lines = options.height > 140 ? (/^0*\.?0*1/.test(String(frame.most)) ? 5 : 4) : 2;
  for (let index = 0; index <= lines; index += 1) {
    const value = (frame.most * index) / lines;
    const y = Math.round(frame.y(value)) + 0.5;
    group.append(s("line", { x1: LEFT, x2: frame.width - RIGHT, y1: y, y2: y }));
    if (!options.whole || Number.isInteger(value))
      group.append(s("text", { x: LEFT - 8, y: y + 3.5, "text-anchor": "end" }, options.format(value)));
  }
  for (const { at, label } of timeTicks(frame.from, frame.to, Math.max(1, Math.min(7, Math.floor(frame.width / 80))))) {
    const x = frame.x(at);
    if (x <= frame.width - RIGHT - 18) group.append(s("text", { x, y: options.height - 5, "text-anchor": "middle" }, label));
  }
  return group;
}

/** @param {ReturnType<typeof framed>} frame @param {Data} data @param {number} index */
function bars(frame, data, index) {
  const group = s("g.bars", { "data-colour": data.series[index].colour });
  const gap = frame.step > 6 ? 2 : 0.5;
  data.times.forEach((time, at) => {
    const value = data.series[index].values[at] ?? 0;
    if (!value) return;
    const below = data.series.slice(0, index).reduce((total, each) => total + (each.values[at] ?? 0), 0);
    const top = frame.y(below + value);
    group.append(s("rect", { x: frame.x(time) + gap / 2, y: top, rx: 1.5,
      width: Math.max(1, frame.step - gap), height: Math.max(1, frame.y(below) - top) }));
  });
  return group;
}

/** @param {ReturnType<typeof framed>} frame @param {Series} series */
function area(frame, series) {
  return s("g.area", { "data-colour": series.colour }, runs(frame, series).map((points) => {
    // A single point is no line, but it is known.
    if (points.length === 1) return [s("circle.dot", { cx: points[0][0], cy: points[0][1], r: 2.5 })];
    const line = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L");
    const [first, end] = [points[0][0], points[points.length - 1][0]];
    return [s("path.under", { d: `M${line}L${end.toFixed(1)},${frame.y(0)}L${first.toFixed(1)},${frame.y(0)}Z` }),
      s("path.line", { d: `M${line}` })];
  }).flat());
}

/** Points that belong together: where nothing is known, the line is broken. @param {ReturnType<typeof framed>} frame @param {Series} series */
function runs(frame, series) {
  /** @type {[number, number][][]} */
  const found = [];
  /** @type {[number, number][] | null} */
  let open = null;
  series.values.forEach((value, index) => {
    if (value === null) {
      open = null;
      return;
    }
    if (!open) found.push((open = []));
    open.push([frame.x(frame.times[index]), frame.y(value)]);
  });
  return found;
}

/** @param {ReturnType<typeof framed>} frame @param {Data} data */
function marks(frame, data) {
  return s("g.marks", null, (data.marks ?? []).map((mark) => {
    const x = frame.x(mark.at);
    return s("line", { x1: x, x2: x, y1: TOP, y2: frame.y(0) }, s("title", null, mark.label));
  }));
}

/** A small line without axes, for a row of a table. */
export function sparkline() {
  const under = s("path.under");
  const line = s("path.line");
  const node = s("svg.spark", { viewBox: "0 0 80 22", preserveAspectRatio: "none", "aria-hidden": "true" }, under, line);
  return {
    node,
    /** @param {number[]} values @param {number} [floor] the least that the top stands for */
    update(values, floor = 0) {
      const shown = values.slice(-40);
      const most = Math.max(floor, ...shown, 1e-9);
      const step = 80 / Math.max(1, shown.length - 1);
      const path = shown.map((value, index) => `${(index * step).toFixed(1)},${(20.5 - (value / most) * 18.5).toFixed(1)}`).join("L");
      attribute(line, "d", shown.length > 1 ? `M${path}` : "");
      attribute(under, "d", shown.length > 1 ? `M${path}L80,22L0,22Z` : "");
    },
  };
}
