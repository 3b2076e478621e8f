// Keeping a view fresh: asks again and again while somebody looks, and at once when something happens.

import { Away } from "./api.js";
import { isUp, on } from "./stream.js";

/** @typedef {{signal: AbortSignal, refresh: () => void}} Live */

/**
 * Call `load` now, every `interval` seconds, after events that matter, and when the server is back.
 * A load that takes long makes the next one wait longer: a slow server is not asked faster.
 * @param {AbortSignal} signal ends it
 * @param {(signal: AbortSignal) => Promise<void>} load
 * @param {{interval?: number, matters?: (event: import("./stream.js").Event) => boolean, failed?: (error: Error) => void}} [options]
 * @returns {Live}
 */
export function live(signal, load, options = {}) {
  const interval = (options.interval ?? 2) * 1000;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let running = false;
  let wanted = false;

  async function turn() {
    clearTimeout(timer);
    if (signal.aborted || document.hidden) return;
    if (running) {
      wanted = true;
      return;
    }
    running = true;
    const begun = performance.now();
    try {
      await load(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Away)) options.failed?.(/** @type {Error} */ (error));
    } finally {
      running = false;
    }
    const taken = performance.now() - begun;
    if (isUp() === false) return; // being up again begins it anew
    schedule(wanted ? Math.max(250, taken) : Math.max(interval, taken * 4));
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
  document.addEventListener("visibilitychange", () => turn(), { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  turn();
  return { signal, refresh: turn };
}

/** Call each second while somebody looks. @param {AbortSignal} signal @param {() => void} step */
export function everySecond(signal, step) {
  const timer = setInterval(() => document.hidden || step(), 1000);
  signal.addEventListener("abort", () => clearInterval(timer));
}
