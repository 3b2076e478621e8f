// The runs of a sweep, or of a map of a flow, to be compared: parameters, state, result, duration.

import { attribute, fill, h, keyed, text } from "./dom.js";
import { age, clean, count, duration } from "./format.js";
import { href } from "./router.js";
import { inOneLine } from "./value.js";
import { badge, setBadge } from "./widgets.js";

/** So many rows are drawn; who has more sorts first, or asks the command line. */
const MOST = 1000;

/** @typedef {{name: string, label: string, figure: boolean, value: (run: any) => unknown}} Column */

/** What the columns are, as the runs have them. @param {any} sweep @returns {Column[]} */
function columnsOf(sweep) {
  const of = (/** @type {string} */ name) => ({ name: `p ${name}`, label: name, figure: true, value: (/** @type {any} */ run) => run.parameters[name] });
  const result = (/** @type {any} */ run) => (run.result && typeof run.result === "object" ? run.result : {});
  const others = sweep.runs.some((/** @type {any} */ run) => run.result !== null && typeof run.result !== "object");
  return [
    { name: "#", label: "#", figure: true, value: (run) => run.place },
    ...sweep.parameters.map(of),
    { name: "state", label: "State", figure: false, value: (run) => run.state },
    ...sweep.figures.map((/** @type {string} */ name) => ({ name: `r ${name}`, label: name, figure: true, value: (/** @type {any} */ run) => result(run)[name] })),
    ...(others ? [{ name: "result", label: "Result", figure: true, value: (/** @type {any} */ run) => (typeof run.result === "object" ? undefined : run.result) }] : []),
    { name: "took", label: "Took", figure: true, value: (run) => run.duration },
    ...(sweep.runs.some((/** @type {any} */ run) => run.error) ? [{ name: "error", label: "Error", figure: false, value: (/** @type {any} */ run) => run.error }] : []),
  ];
}

/** Numbers by their size before texts, and what is not there last, whichever way. @param {unknown} one @param {unknown} other @param {number} way */
export function compare(one, other, way) {
  const none = (/** @type {unknown} */ value) => value === undefined || value === null;
  if (none(one) || none(other)) return Number(none(one)) - Number(none(other));
  if (typeof one === "number" && typeof other === "number") return way * (one - other);
  if (typeof one === "number" || typeof other === "number") return typeof one === "number" ? -1 : 1;
  return way * inOneLine(one, 2000).localeCompare(inOneLine(other, 2000));
}

/** @param {string} label */
export function runsTable(label) {
  const head = h("tr");
  const body = h("tbody");
  const more = h("p.under");
  const node = h("div.runs-frame", { tabindex: 0, role: "region", "aria-label": label }, h("table.runs", null, h("thead", null, head), body), more);
  let sorted = { name: "#", way: 1 };
  /** @type {any} */
  let sweep = null;
  /** @type {Column[]} */
  let columns = [];

  function draw() {
    const by = columns.find((column) => column.name === sorted.name) ?? columns[0];
    const runs = [...sweep.runs].sort((one, other) => compare(by.value(one), by.value(other), sorted.way) || one.place - other.place);
    for (const [index, cell] of [...head.children].entries()) attribute(cell, "aria-sort", columns[index] === by ? (sorted.way > 0 ? "ascending" : "descending") : null);
    keyed(body, runs.slice(0, MOST), (run) => run.id, (run) => {
      const cells = columns.map((column) => h(column.figure ? "td.number" : "td"));
      const state = badge(run.state);
      const place = h("a.id", { href: href("task", run.id) }, count(run.place));
      columns.forEach((column, index) => column.name === "#" ? fill(cells[index], place) : column.name === "state" ? fill(cells[index], state) : null);
      return { node: h("tr", { "data-row": true }, cells), update: (now) => columns.forEach((column, index) => {
        if (column.name === "#") return;
        if (column.name === "state") return setBadge(state, now.state);
        const value = column.value(now);
        if (column.name === "took") return text(cells[index], duration(now.duration ?? (now.state === "started" ? age(now.started_at) : null)));
        text(cells[index], value === undefined || value === null ? "–" : inOneLine(value, 300));
        attribute(cells[index], "data-none", value === undefined || value === null);
      }) };
    });
    text(more, runs.length > MOST ? `The first ${count(MOST)} of ${count(runs.length)} in this order.` : "");
  }

  return {
    node,
    /** @param {any} found as `GET /v1/sweeps/{id}` answers */
    update(found) {
      sweep = found;
      const fresh = columnsOf(found);
      if (fresh.map((each) => each.name).join("\n") !== columns.map((each) => each.name).join("\n")) {
        columns = fresh;
        /** @type {any} */ (body).known = undefined;
        fill(body);
        fill(head, columns.map((column) => h(column.figure ? "th.number" : "th", { scope: "col" }, h("button", { type: "button", onclick: () => {
          sorted = { name: column.name, way: sorted.name === column.name ? -sorted.way : 1 };
          draw();
        } }, clean(column.label, 40)))));
      }
      draw();
    },
  };
}
