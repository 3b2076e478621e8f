// Which of a task's events its page shows.

import { COMMANDS } from "./commands.js";
import { count } from "./format.js";

const MOST = 100;

/** The newest, the last of them first, and what is to be said of those before. @param {string} id @param {any[]} events */
export function shownEvents(id, events) {
  const shown = events.slice(-MOST).reverse();
  const earlier = events.slice(0, -MOST);
  const dropped = earlier.find((event) => event.event === "dropped");
  if (dropped) shown.push(dropped);
  const kept = earlier.length - (dropped ? 1 : 0);
  if (kept) shown.push({ ...earlier[0], number: `and ${kept}`, event: "earlier", note: `${count(kept)} more: ${COMMANDS.showAll(id)}` });
  return shown;
}
