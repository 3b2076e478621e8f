// Durations as people write them.

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Milliseconds of a number (milliseconds already) or a text such as "90s", "1h30m", "2d". */
export function milliseconds(duration) {
  if (typeof duration === "number" && duration >= 0) return duration;
  const parts = [...String(duration).matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d|w)/g)];
  if (parts.length === 0 || parts.map((part) => part[0]).join("") !== duration) {
    throw new TypeError(`no duration: ${duration}. Write milliseconds, or a text such as "90s" or "1h30m"`);
  }
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * UNITS[unit], 0);
}
