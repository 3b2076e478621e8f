// Line icons, drawn on a grid of 24.

import { s } from "./dom.js";

const PATHS = {
  now: "M3 12h4l3-8 4 16 3-8h4",
  tasks: "M8 6h13M8 12h13M8 18h13M3.5 6h.01M3.5 12h.01M3.5 18h.01",
  flows: "M3 5h6v5H3zM15 14h6v5h-6zM15 4h6v5h-6zM9 7.5h6M9 7.5c3.5 0 2.5 9 6 9",
  queues: "M4 6h16v4H4zM4 14h16v4H4z",
  schedules: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7v5.5l3.5 2",
  nodes: "M4 4h16v7H4zM4 13h16v7H4zM7.5 7.5h.01M7.5 16.5h.01",
  failures: "M12 3 2.5 20h19zM12 10v4.5M12 17.2h.01",
  timeline: "M4 5h8M9 12h9M5 19h12M3 3v18",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2.5M12 19.5V22M4.9 4.9l1.8 1.8M17.3 17.3l1.8 1.8M2 12h2.5M19.5 12H22M4.9 19.1l1.8-1.8M17.3 6.7l1.8-1.8",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z",
  help: "M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4M12 17.5h.01M12 2.5a9.5 9.5 0 1 0 0 19 9.5 9.5 0 0 0 0-19z",
  person: "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4 21c0-4 3.5-6 8-6s8 2 8 6",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M4 12.5 9.5 18 20 6.5",
  cancel: "M6 6l12 12M18 6 6 18",
  retry: "M4 12a8 8 0 1 1 2.4 5.7M4 19v-5h5",
  pause: "M8 5v14M16 5v14",
  resume: "M7 4.5 19 12 7 19.5z",
  hold: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  release: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 6.6-1.6",
  signal: "M13 2 5 14h6l-1 8 8-12h-6z",
  stack: "M12 3 3 8l9 5 9-5zM3 12.5l9 5 9-5M3 17l9 5 9-5",
  set: "M4 7h9M17 7h3M4 17h3M11 17h9M13 4.5h4v5h-4zM7 14.5h4v5H7z",
  delete: "M4 6h16M9 6V4h6v2M6 6l1 15h10l1-15",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16.2 16.2 21 21",
  down: "M12 4v15M6 13l6 6 6-6",
  up: "M12 20V5M6 11l6-6 6 6",
  arrow: "M5 12h14M13 6l6 6-6 6",
  more: "M4.5 12h1M11.5 12h1M18.5 12h1",
  add: "M12 5v14M5 12h14",
  clone: "M8 8h12v12H8zM16 8V4H4v12h4M14 11v6M11 14h6",
  edit: "M4 20h4L20 8l-4-4L4 16zM13.5 6.5l4 4",
  drop: "M5 5l14 14M19 5 5 19",
};

/** @typedef {keyof typeof PATHS} Icon */

/** A picture that says nothing to a screen reader: what it stands for is said beside it. */
export function icon(/** @type {Icon} */ name) {
  return s("svg.icon", { viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: PATHS[name] }));
}
