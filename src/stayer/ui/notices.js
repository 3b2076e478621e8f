// Who was told of a task, or is to be told, and with what outcome.

import { get, mayOperate, post, taskPath } from "./api.js";
import { fill, h, text } from "./dom.js";
import { clean, count } from "./format.js";
import { badge, card, toast, when } from "./widgets.js";

const AGAIN = 3000; // ms: what is pending changes without an event

/** @param {string} id @param {AbortSignal} signal */
export function noticesCard(id, signal) {
  const list = h("ol.events");
  const node = card("Notifications", list);
  node.hidden = true;
  let timer = 0;
  signal.addEventListener("abort", () => clearTimeout(timer));

  let seen = "";

  /** Notices come with a change of the task, so they need not be asked for more often. @param {any} task */
  async function update(task) {
    const mark = `${task.state} ${task.attempt} ${task.failures} ${task.finished_at} ${task.notify}`;
    if (mark === seen) return;
    await load(task);
    seen = mark;
  }

  /** @param {any} task */
  async function load(task) {
    clearTimeout(timer);
    const { notices } = await get(taskPath(id, "notices"), { limit: 20 }, { signal });
    node.hidden = !notices.length && !task.notify.length;
    fill(list, notices.map((/** @type {any} */ notice) => line(notice, () => load(task))),
      notices.length ? null : task.notify.map((/** @type {string} */ hook) => h("li", null, badge("later"), h("span.quiet", null, clean(hook, 200)))));
    if (notices.some((/** @type {any} */ notice) => notice.state === "pending") && !signal.aborted) {
      timer = setTimeout(() => load(task).catch(() => {}), AGAIN);
    }
  }
  return { node, update };
}

/** @param {any} notice @param {() => Promise<void>} again */
function line(notice, again) {
  const state = badge(notice.state === "delivered" ? "complete" : notice.state);
  text(state, notice.state);
  const tries = notice.tries > 1 ? `${count(notice.tries)} tries` : "";
  const said = clean([`${notice.event}: ${notice.to}`, tries, notice.state === "delivered" ? "" : notice.said ?? ""].filter(Boolean).join(", "), 300);
  const retry = mayOperate() && notice.state === "failed"
    ? h("button.button.small", { type: "button", onclick: async () => {
      try {
        await post("v1/notices/retry", { ids: [notice.id] });
        await again();
      } catch (error) {
        toast(/** @type {Error} */ (error).message, "bad");
      }
    } }, "Send again")
    : null;
  return h("li", null, state, h("span.quiet", null, said, retry), when(notice.at));
}
