// Round moments for the axes of charts.

import { exactClock } from "./format.js";

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" });

/**
 * Moments that a clock shows as round ones, at most so many, and how each is written.
 * @param {number} from @param {number} to @param {number} most
 * @returns {{at: number, label: string}[]}
 */
export function timeTicks(from, to, most) {
  const step = STEPS.find((each) => (to - from) / each <= most) ?? Math.ceil((to - from) / Math.max(1, most) / 604_800) * 604_800;
  const found = [];
  const zone = new Date(from * 1000).getTimezoneOffset() * 60;
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) found.push({ at, label: written(at, step) });
  return found;
}

/** @param {number} at @param {number} step */
function written(at, step) {
  const whole = exactClock(at);
  if (step >= 86_400 || (step >= 10_800 && whole.startsWith("00:00"))) return DAY.format(new Date(at * 1000));
  return step < 60 ? whole : whole.slice(0, 5);
}
