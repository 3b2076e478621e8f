// What happens, as it happens, and whether the server and its store are there: for every view.

import { secret } from "./session.js";
import { connect } from "./sse-source.js";

/** @typedef {{number: number, at: string, id: string, queue: string, event: string, attempt: number, worker: string | null, note: string | null}} Event */

const events = new EventTarget();
let up = /** @type {boolean | null} */ (null);
let quiet = /** @type {import("./sse-source.js").Silence | null} */ (null);

/** Whether the server answers; null before the first word. */
export const isUp = () => up;

/** What the server says of a store that does not answer; null: it does. */
export const silence = () => quiet;

/** `up` comes also when the store is back, `away` when it is gone. @param {"event" | "up" | "down" | "away"} what @param {(detail: any) => void} listener @param {AbortSignal} [signal] */
export function on(what, listener, signal) {
  events.addEventListener(what, (event) => listener(/** @type {CustomEvent} */ (event).detail), { signal });
}

/** @param {import("./sse-source.js").Message} message */
function take(message) {
  if (message.type === "event") {
    events.dispatchEvent(new CustomEvent("event", { detail: message.event }));
  } else if (message.type === "login") {
    location.assign("login");
  } else if (message.up !== null) {
    const [upBefore, quietBefore] = [up, quiet];
    up = message.up;
    quiet = message.silence;
    const tell = (/** @type {string} */ what) => events.dispatchEvent(new CustomEvent(what, { detail: { again: upBefore !== null } }));
    if (!up && upBefore !== false) tell("down");
    if (up && quiet && !(upBefore && quietBefore)) tell("away");
    if (up && !quiet && (!upBefore || quietBefore)) tell("up");
  }
}

/** Begin to listen. */
export function start() {
  if (typeof SharedWorker === "function") {
    const worker = new SharedWorker("ui/stream-worker.js", { type: "module", name: "stayer" });
    worker.port.onmessage = (message) => take(message.data);
    worker.port.start();
    worker.port.postMessage({ secret: secret() }); // workers have no local storage
    addEventListener("pagehide", () => worker.port.postMessage("bye"));
    addEventListener("pageshow", (event) => {
      // From the back-forward cache: the worker has forgotten us.
      if (event.persisted) location.reload();
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) worker.port.postMessage("again");
    });
    return;
  }
  // A tab that nobody looks at needs no stream, and there are few to have.
  let source = document.hidden ? null : connect("v1/", secret(), take);
  document.addEventListener("visibilitychange", () => {
    source?.close();
    source = document.hidden ? null : connect("v1/", secret(), take);
  });
}
