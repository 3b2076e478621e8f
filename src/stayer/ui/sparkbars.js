// When something happened in the last day, as small bars.

import { attribute, s } from "./dom.js";
import { now } from "./format.js";

const STEPS = 48;
const SPAN = 86_400;

export function sparkBars() {
  const bars = Array.from({ length: STEPS }, (_, index) => s("rect", { x: index * 5, width: 3.5, rx: 1 }));
  const node = s("svg.spark-bars", { viewBox: `0 0 ${STEPS * 5} 24`, role: "img", "aria-label": "when, in the last 24 hours" }, bars);
  return {
    node,
    /** @param {(number | null)[]} times */
    update(times) {
      const counts = new Array(STEPS).fill(0);
      for (const time of times) {
        const step = STEPS - 1 - Math.floor(((now() - (time ?? 0)) / SPAN) * STEPS);
        if (step >= 0 && step < STEPS) counts[step] += 1;
      }
      const most = Math.max(1, ...counts);
      bars.forEach((bar, index) => {
        const height = counts[index] ? Math.max(3, (counts[index] / most) * 24) : 1.5;
        attribute(bar, "height", height);
        attribute(bar, "y", 24 - height);
        attribute(bar, "data-some", counts[index] > 0);
      });
    },
  };
}
