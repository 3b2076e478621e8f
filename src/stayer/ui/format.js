// How times, durations, sizes and other people's text are shown.

const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const SECONDS = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });

let ahead = 0;
/** @type {number | null} */
let frozen = null;

/** The store's clock, which all times are by, in epoch seconds. It stands still while the figures are old. */
export const now = () => frozen ?? Date.now() / 1000 + ahead;

/** Let the clock stand still at a moment; null: let it go on. @param {number | null} at */
export function freeze(at) {
  frozen = at;
}

/** What the store's clock says at this moment. @param {string} time */
export function setClock(time) {
  const said = seconds(time);
  if (said !== null) ahead = said - Date.now() / 1000;
}

/** How long the last attempt of a task took, or has taken. @param {{started_at: string | null, finished_at: string | null}} task */
export const lasted = (task) => {
  const begun = seconds(task.started_at);
  return begun === null ? null : Math.max(0, (seconds(task.finished_at) ?? now()) - begun);
};

/** RFC 3339 as epoch seconds. @param {string | null | undefined} time */
export function seconds(time) {
  if (!time) return null;
  const parsed = Date.parse(time);
  return Number.isNaN(parsed) ? null : parsed / 1000;
}

/** Seconds since a time; null if it is not known. @param {string | null | undefined} time */
export function age(time) {
  const at = seconds(time);
  return at === null ? null : Math.max(0, now() - at);
}

/** `42s`, `3m 12s`, `2h 05m`, `3d 4h`: rounded as the command line does it. @param {number | null | undefined} length */
export function duration(length) {
  if (length === null || length === undefined || !Number.isFinite(length)) return "–";
  const whole = Math.max(0, Math.floor(length));
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  if (length > 0 && length < 1) return "<1s";
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
  const hours = Math.round(whole / 3600);
  return hours < 2400 ? `${Math.floor(hours / 24)}d ${hours % 24}h` : `${count(Math.floor(hours / 24))}d`;
}

/** Exactly, as the server reads it: `90s`, `12h`. @param {number} length */
export function spelled(length) {
  for (const [unit, long] of /** @type {[string, number][]} */ ([["d", 86400], ["h", 3600], ["m", 60]])) if (length && length % long === 0) return `${length / long}${unit}`;
  return `${length}s`;
}

/** Seconds, from `30d` or `90`; null if it can't be read. @param {string} written */
export function lengthOf(written) {
  const found = /^(\d+(?:\.\d+)?)\s*([smhdw]?)$/.exec(written);
  return found ? Number(found[1]) * { "": 1, s: 1, m: 60, h: 3600, d: 86400, w: 604800 }[/** @type {"s"} */ (found[2])] : null;
}

/** @param {string | null | undefined} time */
export const ago = (time) => (age(time) === null ? "–" : `${duration(age(time))} ago`);

/** `17:42`, with the day if it is another one. @param {number} epoch */
export function clock(epoch) {
  const date = new Date(epoch * 1000);
  const same = date.toDateString() === new Date(now() * 1000).toDateString();
  return same ? CLOCK.format(date) : `${DAY.format(date)} ${CLOCK.format(date)}`;
}

/** `02:30 Europe/Berlin`, with the day if it is another one there; null: that zone is not known here. @param {number} epoch @param {string} zone */
export function clockIn(epoch, zone) {
  try {
    const date = new Date(epoch * 1000);
    const write = (/** @type {Date} */ at, /** @type {Intl.DateTimeFormatOptions} */ options) => new Intl.DateTimeFormat(undefined, { ...options, timeZone: zone }).format(at);
    const day = (/** @type {Date} */ at) => write(at, { weekday: "short", day: "numeric", month: "short" });
    const today = day(date) === day(new Date(now() * 1000));
    return `${today ? "" : `${day(date)} `}${write(date, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" })} ${zone}`;
  } catch {
    return null;
  }
}

/** `17:42:05`. @param {number} epoch */
export const exactClock = (epoch) => SECONDS.format(new Date(epoch * 1000));

/** The whole of it, for titles: local and UTC. @param {string | null | undefined} time */
export function absolute(time) {
  const at = seconds(time);
  if (at === null) return "";
  const date = new Date(at * 1000);
  return `${DAY.format(date)} ${date.getFullYear()}, ${SECONDS.format(date)} (${date.toISOString()})`;
}

/** `4 312` @param {number | null | undefined} number */
export const count = (number) =>
  number === null || number === undefined ? "–" : GROUPED.format(number).replaceAll(",", "\u202f");

/** `3 tasks` @param {number} number @param {string} what */
export const many = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

/** `1.6 GB` @param {number | null | undefined} bytes */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  if (bytes < 1000) return `${Math.round(bytes)} B`;
  const units = ["kB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let unit = -1;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** How far, between 0 and 1; null if nobody knows. @param {{done: number | null, total: number | null} | null} progress */
export function fraction(progress) {
  if (!progress || progress.done === null) return null;
  const { done, total } = progress;
  // A report without a total is a fraction already.
  if (total === null) return done >= 0 && done <= 1 ? done : null;
  return total > 0 ? Math.min(1, Math.max(0, done / total)) : null;
}

/** `63 %`, `0.4 %` @param {number | null} part */
export function percent(part) {
  if (part === null) return "";
  const hundred = part * 100;
  if (hundred > 0 && hundred < 1) return `${hundred.toFixed(1)}\u202f%`;
  return `${Math.floor(hundred)}\u202f%`;
}

/**
 * Other people's text for one line: cut, and with nothing in it that moves the cursor or turns the
 * direction of reading.
 * @param {unknown} value @param {number} [length]
 */
export function clean(value, length = 200) {
  const whole = typeof value === "string" ? value : String(value ?? "");
  const start = whole.length > length * 2 ? whole.slice(0, length * 2) : whole;
  const plain = start
    .replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ")
    .replace(/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, "\ufffd")
    .trim();
  return plain.length > length || start.length < whole.length ? `${plain.slice(0, length - 1)}…` : plain;
}

/** What a task runs. @param {{name: string | null, command: string[] | null}} task */
export { kind } from "./kinds.js";

/** What a task is called for people: what it runs, else its queue. @param {any} task @param {number} [length] */
export function title(task, length = 80) {
  if (task.name) return clean(task.name, length);
  if (task.command?.length) return clean(task.command.map((/** @type {string} */ word, /** @type {number} */ at) => (at ? word : word.split("/").pop())).join(" "), length);
  return clean(`${task.queue} task`, length);
}
