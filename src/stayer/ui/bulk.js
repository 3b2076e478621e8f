// A verb on many tasks: those selected, or all that match the filter, page by page.

import { post } from "./api.js";
import { MOST, showComparison } from "./compare.js";
import { ask } from "./dialogs.js";
import { attribute, h, text } from "./dom.js";
import { count, many } from "./format.js";
import { icon } from "./icons.js";
import { toast } from "./widgets.js";

/** @typedef {{filter: Record<string, string[]>, selected: Set<string>, matching: number, more: boolean}} Choice */

/** @type {{verb: import("./icons.js").Icon, label: string, danger?: boolean, sentence: string}[]} */
const VERBS = [
  { verb: "retry", label: "Retry", sentence: "Failed and cancelled tasks go back to their queues." },
  { verb: "hold", label: "Hold", sentence: "Waiting tasks don't start until you release them." },
  { verb: "release", label: "Release", sentence: "Held tasks may start again." },
  { verb: "cancel", label: "Cancel", danger: true, sentence: "Tasks that have not ended are cancelled. Running tasks are stopped." },
];

/** @param {() => Choice} choice @param {() => void} done */
export function bulk(choice, done) {
  const label = h("span.quiet");
  const buttons = VERBS.map((verb) => {
    const button = h(`button.button.small${verb.danger ? ".danger" : ""}`, { type: "button", "data-bulk": verb.verb }, icon(verb.verb), verb.label);
    button.addEventListener("click", () => begin(verb, choice(), done));
    return button;
  });
  const compare = h("button.button.small", { type: "button", "data-bulk": "compare", title: `Select 2 to ${MOST} tasks to see them side by side` }, "Compare");
  compare.addEventListener("click", () => showComparison([...choice().selected]).catch((error) => toast(error.message, "bad")));
  const node = h("div.bulk", { role: "toolbar", "aria-label": "With many tasks" }, label, buttons, compare);
  return {
    node,
    update() {
      const { filter, selected, matching } = choice();
      const all = !selected.size;
      const possible = selected.size > 0 || (Object.keys(filter).length > 0 && matching > 0);
      text(label, all ? (possible ? "All that match:" : "Filter or select, then:") : `${many(selected.size, "selected task")}:`);
      for (const button of buttons) attribute(button, "disabled", !possible);
      attribute(compare, "disabled", selected.size < 2 || selected.size > MOST);
      attribute(node, "data-idle", !possible);
    },
  };
}

/** @param {typeof VERBS[number]} verb @param {Choice} chosen @param {() => void} done */
function begin(verb, { filter, selected, matching, more }, done) {
  const some = selected.size > 0;
  const whom = some ? many(selected.size, "selected task") : `all ${count(matching)}${more ? " or more" : ""} tasks that match`;
  ask({
    heading: `${verb.label} ${whom}?`, sentence: verb.sentence, button: verb.label, danger: verb.danger,
    act: async (_, progress) => {
      const said = (/** @type {number} */ number) => progress(`${count(number)} so far …`);
      const number = some ? await onIds(verb.verb, [...selected], said) : await onAll(verb.verb, filter, said);
      toast(`${verb.label}: ${many(number, "task")}`);
      selected.clear();
      done();
    },
  });
}

/** @param {string} verb @param {string[]} ids @param {(number: number) => void} progress */
export async function onIds(verb, ids, progress) {
  let number = 0;
  for (let at = 0; at < ids.length; at += 50) {
    const page = await post(`v1/tasks/${verb}`, undefined, { id: ids.slice(at, at + 50), limit: 1000 });
    number += page.tasks.length;
    progress(number);
  }
  return number;
}

/** @param {string} verb @param {Record<string, string[]>} filter @param {(number: number) => void} progress */
export async function onAll(verb, filter, progress) {
  let number = 0;
  let cursor = null;
  do {
    const page = await post(`v1/tasks/${verb}`, undefined, { ...filter, limit: 100, cursor });
    number += page.tasks.length;
    cursor = page.next;
    progress(number);
  } while (cursor);
  return number;
}
