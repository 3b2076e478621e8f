// Flows: tasks that run after each other, seen as one thing.

import { get } from "../api.js";
import { COMMANDS } from "../commands.js";
import { attribute, fill, h, keyed, text } from "../dom.js";
import { age, clean, count, duration, many } from "../format.js";
import { everySecond, live } from "../live.js";
import { badge, empty, setBadge, setTime, stackBar } from "../widgets.js";
import { href } from "../router.js";

export const title = "Flows";

const STATES = ["complete", "failed", "cancelled", "started", "reserved", "pending", "scheduled", "waiting"];
const MOST = 100;

/** @param {HTMLElement} main @param {import("../router.js").Place} _place @param {AbortSignal} signal */
export function open(main, _place, signal) {
  const list = h("div.queues", { "data-list": true });
  const more = h("p.quiet");
  const none = h("div");
  fill(main, h("h1", null, "Flows"), list, more, none);
  /** @type {any[]} */
  let flows = [];
  const draw = () => keyed(list, flows, (flow) => flow.id, (flow) => flowCard(flow.id));
  live(signal, async (stop) => {
    const page = await get("v1/flows", { limit: MOST }, { signal: stop });
    flows = page.flows;
    draw();
    text(more, page.next ? `The newest ${count(flows.length)}.` : "");
    fill(none, flows.length ? null : empty("No flows yet", "A flow is tasks that run after each other, submitted as one thing.", COMMANDS.submitFlow));
  }, { interval: 3, matters: () => true });
  everySecond(signal, draw);
}

/** @param {string} id */
function flowCard(id) {
  const name = h("a", { href: href("flow", id) });
  const state = badge("pending");
  const figure = h("div.figure");
  const under = h("div.under");
  const about = h("p.why");
  const made = h("p.queue-head");
  const stack = stackBar(STATES);
  const node = h("section.card.flow", { "data-row": true },
    h("div.queue-top", null, h("h3", null, name), state, h("span.grow"), h("span.under.id", null, clean(id, 40))),
    h("div.queue-middle", null, h("div", null, h("div.tile-label", null, "Complete"), figure, under), h("div.queue-why", null, about, made)), stack.node);
  return { node, update: (/** @type {any} */ flow) => {
    const sum = STATES.reduce((total, each) => total + flow.counts[each], 0);
    text(name, clean(flow.name, 60));
    attribute(node, "aria-label", `Flow ${clean(flow.name, 60)}`);
    setBadge(state, flow.state);
    text(figure, count(flow.counts.complete));
    text(under, `of ${many(sum, "task")}`);
    const bad = ["failed", "cancelled"].filter((each) => flow.counts[each]).map((each) => `${count(flow.counts[each])} ${each}`);
    const running = flow.counts.started + flow.counts.reserved;
    text(about, [running ? `${count(running)} running` : "", ...bad].filter(Boolean).join(", ") || (flow.state === "complete" ? "all complete" : "nothing is running"));
    attribute(about, "data-mood", flow.counts.failed ? "bad" : null);
    setTime(made, flow.created, `${many(flow.parts.length, "part")}, submitted ${duration(age(flow.created))} ago${flow.owner ? ` by ${clean(flow.owner, 30)}` : ""}`);
    stack.update(flow.counts);
  } };
}
