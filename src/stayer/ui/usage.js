// What an attempt used over time, as three small charts one above the other.

import { timeChart } from "./charts.js";
import { now, percent, seconds, size } from "./format.js";
import { card } from "./widgets.js";

export function usageCharts() {
  const rate = (/** @type {number} */ value) => `${size(value)}/s`;
  const cpu = timeChart({ kind: "lines", height: 110, label: "Processor", format: (value) => percent(value), least: 0.1 });
  const memory = timeChart({ kind: "lines", height: 110, label: "Memory", format: size, least: 1e6 });
  const disk = timeChart({ kind: "lines", height: 110, label: "Disk", format: rate, least: 1000 });
  const node = card("Resource use", cpu.node, memory.node, disk.node);
  node.hidden = true;
  return {
    node,
    /** @param {any[]} points @param {any} task */
    update(points, task) {
      node.hidden = points.length < 2;
      if (points.length < 2) return;
      // Points say how long it has run; a pause is no part of that, so their own times are better.
      const begun = seconds(task.started_at) ?? now();
      const times = points.map((point) => seconds(point.at) ?? begun + point.ran);
      const saved = seconds(task.checkpoint_at);
      const marks = saved && saved >= times[0] ? [{ at: Math.min(saved, times[times.length - 1]), label: "saved its work" }] : [];
      const per = (/** @type {string} */ name) => points.map((point, at) => {
        const before = points[at - 1];
        if (!before) return null;
        return Math.max(0, (point[name] - before[name]) / Math.max(0.001, point.ran - before.ran));
      });
      const runs = task.state === "started";
      // The last report of an attempt comes when its processes are gone.
      const rss = points.map((point, at) => (!runs && !point.rss && at === points.length - 1 ? null : point.rss));
      const peak = Math.max(...points.map((point) => Math.max(point.rss, point.peak ?? 0)));
      cpu.update({ times, marks, series: [{ name: "processor", colour: "cpu", values: per("cpu") }] });
      memory.update({ times, marks, series: [runs ? { name: "memory", colour: "rss", values: rss } : { name: "memory at most", colour: "rss", values: rss, said: peak }] });
      disk.update({ times, marks, series: [
        { name: "read", colour: "read", values: per("read") }, { name: "written", colour: "written", values: per("written") }] });
    },
  };
}

