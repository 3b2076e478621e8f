// What an attempt reports of itself: a chart for each metric, and how long its steps took.

import { get, taskPath } from "./api.js";
import { fill, h } from "./dom.js";
import { clean, count, duration, lasted } from "./format.js";
import { metricChart } from "./metric-chart.js";
import { card } from "./widgets.js";

/** @param {string} id */
export function statisticsCards(id) {
  const charts = h("div.column");
  const steps = h("ol.steps");
  const metricsCard = card("Metrics", charts);
  const stepsCard = card("Steps", steps);
  const node = h("div.column", { hidden: true }, metricsCard, stepsCard);
  /** @type {Map<string, ReturnType<typeof metricChart>>} */
  const known = new Map();
  return {
    node,
    /** @param {any} task @param {AbortSignal} signal */
    async update(task, signal) {
      if (!task.attempt) return;
      const found = await get(taskPath(id, "statistics"), {}, { signal });
      const names = Object.keys(found.metrics);
      metricsCard.hidden = !names.length;
      stepsCard.hidden = !found.steps.length;
      node.hidden = !names.length && !found.steps.length;
      for (const [name, chart] of known)
        if (!names.includes(name)) {
          chart.node.remove();
          known.delete(name);
        }
      for (const name of names) drawMetric(known, charts, name, found.metrics[name]);
      drawSteps(steps, found.steps, lasted(task));
    },
  };
}

/** @param {Map<string, ReturnType<typeof metricChart>>} known @param {HTMLElement} place @param {string} name @param {any} series */
function drawMetric(known, place, name, series) {
  let chart = known.get(name);
  if (!chart) {
    known.set(name, (chart = metricChart(clean(name, 100))));
    place.append(chart.node);
  }
  const hasX = series.points.every((/** @type {any} */ point) => point[1] !== null);
  chart.update([{ name: clean(name, 100), colour: "metric", points: series.points.map((/** @type {any} */ point) => [hasX ? point[1] : point[0], point[2]]) }], !hasX);
}

/** Bars from the start to the end of each on one scale. @param {HTMLElement} place @param {any[]} steps @param {number | null} ran */
function drawSteps(place, steps, ran) {
  const end = Math.max(ran ?? 0, 1e-3, ...steps.map((step) => step.end ?? 0));
  fill(place, steps.map((step) => {
    const until = step.end ?? end;
    const took = step.elapsed + (step.since === null ? 0 : Math.max(0, end - step.since));
    const bar = h("span.step-bar", { "data-open": step.since !== null ? "" : null });
    bar.style.insetInlineStart = `${(100 * step.start) / end}%`;
    bar.style.inlineSize = `${Math.max(0.5, (100 * (until - step.start)) / end)}%`;
    const times = step.count > 1 ? ` · ${count(step.count)} times` : "";
    return h("li", null, h("span.step-name", null, clean(step.name, 100)), h("span.step-lane", null, bar), h("span.step-time", null, `${duration(took)}${times}`));
  }));
}
