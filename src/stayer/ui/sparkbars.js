// When something happened in the last day, as small bars.

import { attribute, s } from "./dom.js";

const STEPS = 48;

export function sparkBars() {
  const bars = Array.from({ length: STEPS }, (_, index) => s("rect", { x: index * 5, width: 3.5, rx: 1 }));
  const node = s("svg.spark-bars", { viewBox: `0 0 ${STEPS * 5} 24`, role: "img", "aria-label": "when, in the last 24 hours" }, bars);
  return {
    node,
    /** How often in each half hour, the oldest first. @param {number[]} counts */
    update(counts) {
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
