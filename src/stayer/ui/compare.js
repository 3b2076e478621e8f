// Tasks side by side, in a dialog: what differs between them, a column for each.

import { get } from "./api.js";
import { h } from "./dom.js";
import { clean, duration, many, size } from "./format.js";
import { inOneLine } from "./value.js";
import { taskLink } from "./widgets.js";

/** So many tasks the server compares at once. */
export const MOST = 100;
const TIMES = /^(waited|ran|cpu|steps\..*)$/;

/** @param {string[]} ids */
export async function showComparison(ids) {
  const { ids: found, rows } = await get("v1/compare", { id: ids });
  const table = h("table.runs", null,
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "What differs"), found.map((/** @type {string} */ id) => h("th.number", { scope: "col" }, taskLink(id))))),
    h("tbody", null, rows.map((/** @type {any} */ row) => h("tr", null, h("th", { scope: "row" }, clean(row.name, 80)), row.values.map((/** @type {unknown} */ value) => h("td.number", value === null ? { "data-none": true } : null, written(row.name, value)))))));
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog.compare", { "aria-labelledby": "compared" },
    h("h2", { id: "compared" }, `${many(found.length, "task")}, side by side`),
    rows.length ? h("div.runs-frame", { tabindex: 0, role: "region", "aria-label": "What differs" }, table) : h("p", null, "Nothing differs."),
    h("form.buttons", { method: "dialog" }, h("button.button", { type: "submit" }, "Close"))));
  dialog.addEventListener("click", (event) => (event.target === dialog || /** @type {Element} */ (event.target).closest("a")) && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {string} name @param {unknown} value */
function written(name, value) {
  if (value === null) return "–";
  if (typeof value !== "number") return inOneLine(value, 80);
  if (name === "memory") return size(value);
  if (!TIMES.test(name)) return inOneLine(value, 80);
  return value < 1 ? `${Math.round(value * 1000)}ms` : duration(value);
}
