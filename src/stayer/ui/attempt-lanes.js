// The life of a task as lanes: when it waited, when each attempt ran, stood still, and how it ended.

import { attribute, fill, h, s } from "./dom.js";
import { clean, clock, duration, exactClock, now, seconds } from "./format.js";
import { remaining } from "./risk.js";
import { timeTicks } from "./ticks.js";

const ROW = 30;
const LEFT = 92;
const RIGHT = 14;
const AXIS = 22;

/** @typedef {{from: number, to: number, look: string, label: string, open?: boolean}} Piece */
/** @typedef {{name: string, pieces: Piece[], note: string}} Lane */

/** What happened, lane by lane. @param {any} task with attempts and events @returns {Lane[]} */
export function lanesOf(task) {
  const end = seconds(task.finished_at) ?? now();
  const attempts = task.attempts.slice(-12);
  /** @type {Piece[]} */
  const waits = [];
  let free = seconds(task.created) ?? end;
  let last = 0;
  for (const attempt of task.attempts) {
    const taken = seconds(attempt.reserved_at) ?? seconds(attempt.started_at) ?? free;
    // Of very many attempts some are no longer known: nobody can say that it waited there.
    const follows = attempt.attempt === last + 1;
    last = attempt.attempt;
    if (follows && taken > free) waits.push({ from: free, to: taken, look: "wait", label: "waited" });
    free = seconds(attempt.finished_at) ?? end;
  }
  if (!["started", "reserved"].includes(task.state) && free < end) waits.push({ from: free, to: end, look: "wait", label: "waits", open: !task.finished_at });
  return [{ name: "in its queue", pieces: waits, note: "" }, ...attempts.map((/** @type {any} */ each) => laneOf(each, task, end))];
}

/** @param {any} attempt @param {any} task @param {number} end @returns {Lane} */
function laneOf(attempt, task, end) {
  const taken = seconds(attempt.reserved_at);
  const started = seconds(attempt.started_at);
  const finished = seconds(attempt.finished_at);
  const to = finished ?? end;
  /** @type {Piece[]} */
  const pieces = [];
  if (taken !== null && (started ?? to) > taken) pieces.push({ from: taken, to: started ?? to, look: "taken", label: "taken, not yet started" });
  if (started !== null) {
    pieces.push({ from: started, to, look: attempt.ending ?? "running", label: attempt.ending ?? "runs", open: finished === null });
    let since = null;
    for (const event of task.events) {
      if (event.attempt !== attempt.attempt) continue;
      const at = seconds(event.at) ?? 0;
      if (event.event === "pause") since ??= at;
      if (event.event === "resume" && since !== null) {
        pieces.push({ from: since, to: at, look: "paused", label: "paused" });
        since = null;
      }
    }
    if (since !== null) pieces.push({ from: since, to, look: "paused", label: "paused now" });
  }
  return { name: `attempt ${attempt.attempt}`, pieces, note: clean(attempt.node ?? "", 24) };
}

/** A drawing that can be updated. */
export function lanesChart() {
  const drawing = s("svg.lanes", { role: "img", "aria-label": "Attempts over time" });
  const node = h("div.chart-box", null, drawing);
  let width = 0;
  /** @type {Lane[]} */
  let lanes = [];
  /** @type {number | null} */
  let forecast = null;

  function draw() {
    const all = lanes.flatMap((lane) => lane.pieces);
    if (!width || !all.length) return fill(drawing);
    const from = Math.min(...all.map((piece) => piece.from));
    const known = Math.max(...all.map((piece) => piece.to));
    const to = Math.max(known, forecast ?? 0, from + 1);
    const height = lanes.length * ROW + AXIS;
    const x = (/** @type {number} */ at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
    attribute(drawing, "viewBox", `0 0 ${width} ${height}`);
    attribute(drawing, "width", width);
    attribute(drawing, "height", height);
    fill(drawing, axis(from, to, x, height), lanes.map((lane, index) => laneDrawing(lane, index * ROW, x)));
    const running = all.find((piece) => piece.open && piece.look === "running");
    if (forecast && running && forecast > known) {
      const y = (lanes.length - 1) * ROW + 6;
      drawing.append(s("rect.forecast", { x: x(known), y, width: Math.max(0, x(forecast) - x(known)), height: ROW - 12, rx: 4 },
        s("title", null, `expected to end at ${clock(forecast)}`)));
    }
  }

  new ResizeObserver(([entry]) => {
    width = Math.floor(entry.contentRect.width);
    draw();
  }).observe(node);

  return {
    node,
    /** @param {any} task with attempts and events */
    update(task) {
      lanes = lanesOf(task);
      const left = remaining(task);
      forecast = task.state === "started" && left ? now() + left : null;
      draw();
    },
  };
}

/** @param {number} from @param {number} to @param {(at: number) => number} x @param {number} height */
function axis(from, to, x, height) {
  const group = s("g.grid");
  for (const { at, label } of timeTicks(from, to, Math.max(2, Math.floor((x(to) - x(from)) / 100)))) {
    group.append(s("line", { x1: x(at), x2: x(at), y1: 0, y2: height - AXIS }),
      s("text", { x: x(at), y: height - 6, "text-anchor": x(to) - x(at) < 20 ? "end" : "middle" }, label));
  }
  return group;
}

/** @param {Lane} lane @param {number} y @param {(at: number) => number} x */
function laneDrawing(lane, y, x) {
  return s("g", { transform: `translate(0 ${y})` },
    s("text.lane-name", { x: 0, y: ROW / 2 + 4 }, lane.name),
    lane.pieces.map((piece) => {
      const wide = Math.max(2, x(piece.to) - x(piece.from));
      const said = `${piece.label} · ${duration(piece.to - piece.from)}${lane.note ? ` · ${lane.note}` : ""}`;
      return s("g", null,
        s("rect.piece", { x: x(piece.from), y: 6, width: wide, height: ROW - 12, rx: Math.min(4, wide / 2), "data-look": piece.look },
          s("title", null, `${said}, from ${exactClock(piece.from)} to ${piece.open ? "now" : exactClock(piece.to)}`)),
        wide > said.length * 6.4 + 16 && piece.look !== "taken" ? s("text.piece-label", { x: x(piece.from) + 8, y: ROW / 2 + 4, "data-look": piece.look }, said) : null);
    }));
}
