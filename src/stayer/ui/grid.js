// The parameters of a sweep as people write them: `lr=0.1,0.01`, `seed=1..5`, one a line, as on the command line.

const RANGE = /^(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?$/;
const MOST = 20_000;

/** @param {string} text */
function value(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text; // what is no JSON is text
  }
}

/** @param {string} name @param {RegExpExecArray} found */
function range(name, [, first, last, step]) {
  const [begin, end] = [Number(first), Number(last)];
  const by = step ? Number(step) : begin <= end ? 1 : -1;
  if (!by || (end - begin) * by < 0) throw new Error(`${name}: ${first}..${last} in steps of ${by} leads nowhere`);
  const length = Math.floor((end - begin) / by) + 1;
  if (length > MOST) throw new Error(`${name}: these are too many values`);
  return Array.from({ length }, (_, index) => begin + index * by);
}

/** @param {string} written @returns {Record<string, unknown[]>} */
export function parseGrid(written) {
  /** @type {Record<string, unknown[]>} */
  const grid = {};
  for (const line of written.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`Sweep: write NAME=VALUES, such as lr=0.1,0.01, instead of ${line.slice(0, 40)}`);
    const name = line.slice(0, at).trim();
    const values = line.slice(at + 1).trim();
    const whole = values.startsWith("[") ? value(values) : null;
    grid[name] = Array.isArray(whole) ? whole : (values.match(/"(?:[^"\\]|\\.)*"|[^,]+/g) ?? []).map((each) => each.trim()).flatMap((each) => {
      const found = RANGE.exec(each);
      return found ? range(name, found) : [value(each)];
    });
  }
  return grid;
}
