// What failed, by fault: many failures are few faults. The server gathers them.

import { get, mayOperate } from "../api.js";
import { ask } from "../dialogs.js";
import { onAll } from "../bulk.js";
import { fill, h, keyed, text } from "../dom.js";
import { ago, clean, count, many } from "../format.js";
import { leftOut } from "../health.js";
import { icon } from "../icons.js";
import { live } from "../live.js";
import { empty, setTime, taskLink, toast, when } from "../widgets.js";
import { href } from "../router.js";
import { sparkBars } from "../sparkbars.js";

export const title = "Failures";

const SHOWN = 100;
const MEMBERS = 20;

/** @param {HTMLElement} main @param {import("../router.js").Place} _place @param {AbortSignal} signal */
export function open(main, _place, signal) {
  const list = h("div.failures", { "data-list": true });
  const about = h("p.quiet");
  const none = h("div");
  fill(main, h("h1", null, "Failures"), about, list, none);
  const known = live(signal, async (stop) => {
    const found = await get("v1/failures", { limit: SHOWN, partial: true }, { signal: stop });
    const faults = found.faults === 1 ? "one fault" : `${count(found.faults)} different faults`;
    const more = found.faults > found.failures.length ? `, the ${count(found.failures.length)} most frequent of them` : "";
    text(about, found.tasks ? `${many(found.tasks, "failed task")}, ${faults}${more}.` : "");
    keyed(list, found.failures, (failure) => failure.fingerprint, (failure) => card(failure, () => known.refresh()));
    const away = leftOut(found);
    fill(none, found.tasks || Object.keys(away).length ? null : empty("Nothing has failed", "Tasks that fail are kept here until they are retried, deleted or purged."));
    return away;
  }, { interval: 10, matters: (event) => ["failed", "retried", "pending", "deleted"].includes(event.event) });
}

/** @param {any} first @param {() => void} again */
function card(first, again) {
  let failure = first;
  const fault = { fingerprint: [first.fingerprint] };
  const kind = clean(first.kind || first.queues[0], 80);
  const number = h("div.figure", { "data-mood": "failed" });
  const last = h("time.under");
  const bars = sparkBars();
  const members = h("ol.members");
  const sample = h("p.sample");
  const more = h("a.under", { href: href("tasks", "", { fingerprint: first.fingerprint }) });
  const details = h("details", null, h("summary", null, "Tasks"), members, more);
  const show = async () => {
    if (!(/** @type {HTMLDetailsElement} */ (details)).open) return;
    const { tasks } = await get("v1/tasks", { ...fault, limit: MEMBERS, brief: true, partial: true });
    keyed(members, tasks, (task) => task.id, (task) => ({ node: h("li", null, taskLink(task.id), h("span.quiet", null, clean(task.node ?? "", 24)), when(task.finished_at)) }));
  };
  details.addEventListener("toggle", show);
  const retry = () => ask({
    heading: `Retry ${many(failure.count, "task")}?`, sentence: `All that failed with ${clean(failure.type, 60)} in ${kind} go back to their queues.`, button: "Retry them all",
    act: async (_, progress) => {
      const done = await onAll("retry", fault, (sum) => progress(`${count(sum)} so far …`));
      toast(`${many(done, "task")} back in the queues`);
      again();
    },
  });
  const node = h("section.card.failure", { "data-row": true, "aria-label": `${clean(first.type, 60)} in ${kind}` },
    h("div.failure-count", null, number, last),
    h("div.failure-what", null, h("h3", null, h("span.failure-type", null, clean(first.type, 80)), h("span.quiet", null, " in "), kind), sample, bars.node, h("div.spark-ends.under", { "aria-hidden": "true" }, h("span", null, "24 h ago"), h("span", null, "now")), details),
    mayOperate() ? h("button.button", { type: "button", onclick: retry }, icon("retry"), "Retry all") : null);
  return { node, update: (/** @type {any} */ item) => {
    failure = item;
    text(number, count(item.count));
    setTime(last, item.last, `last ${ago(item.last)}`);
    text(sample, clean(item.message || item.ending, 400));
    bars.update(item.lately);
    text(more, item.count > MEMBERS ? `All ${count(item.count)} of them` : "In the list of tasks");
    show();
  } };
}
