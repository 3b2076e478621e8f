// Keeping a view fresh: asks again and again while somebody looks, and at once when something happens.

import { Away } from "./api.js";
import { answered, failed, forget } from "./health.js";
import { isUp, on } from "./stream.js";

/** @typedef {{signal: AbortSignal, refresh: () => void}} Live */

/** How soon what failed is tried again, in milliseconds. */
export const AGAIN = 3000;

/**
 * Call `load` now, every `interval` seconds, after events that matter, and when the server or its store is back.
 * A load that takes long makes the next one wait longer: a slow server is not asked faster.
 * @param {AbortSignal} signal ends it
 * @param {(signal: AbortSignal) => Promise<Record<string, string> | void>} load gives the queues that it had to leave out
 * @param {{interval?: number, matters?: (event: import("./stream.js").Event) => boolean, expects?: (error: Error) => boolean}} [options] `expects` says whether an error is an answer too, and shows it
 * @returns {Live}
 */
export function live(signal, load, options = {}) {
  const interval = (options.interval ?? 2) * 1000;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let running = false;
  let wanted = false;
  let broken = 0; // how often in a row nothing, or half of it, came back

  async function turn() {
    clearTimeout(timer);
    if (signal.aborted || document.hidden) return;
    if (running) {
      wanted = true;
      return;
    }
    running = true;
    const begun = performance.now();
    let bad = false;
    try {
      const away = await load(signal);
      if (!signal.aborted) wanted = answered(load, away ?? undefined) || wanted; // drawn by a clock that stood still
    } catch (thrown) {
      if (signal.aborted) return;
      const error = /** @type {Error} */ (thrown);
      if (options.expects?.(error)) answered(load);
      else {
        bad = true;
        broken += 1;
        // A single answer that breaks off is no news; of a server that is gone the stream tells.
        if (!(error instanceof Away) || broken > 1) failed(load, error);
      }
    } finally {
      running = false;
    }
    if (!bad) broken = 0;
    const taken = performance.now() - begun;
    if (isUp() === false) return; // being up again begins it anew
    schedule(wanted ? Math.max(250, taken) : bad ? Math.max(AGAIN, taken) : Math.max(interval, taken * 4));
    wanted = false;
  }

  function schedule(/** @type {number} */ pause) {
    clearTimeout(timer);
    if (!signal.aborted) timer = setTimeout(turn, pause);
  }

  let soon = false;
  on("event", (event) => {
    if (soon || !options.matters?.(event)) return;
    soon = true;
    setTimeout(() => {
      soon = false;
      turn();
    }, 300); // events come in swarms
  }, signal);
  on("up", () => turn(), signal);
  on("away", () => turn(), signal);
  document.addEventListener("visibilitychange", () => turn(), { signal });
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    forget(load);
  });
  turn();
  return { signal, refresh: turn };
}

/** Call each second while somebody looks. @param {AbortSignal} signal @param {() => void} step */
export function everySecond(signal, step) {
  const timer = setInterval(() => document.hidden || step(), 1000);
  signal.addEventListener("abort", () => clearInterval(timer));
}
