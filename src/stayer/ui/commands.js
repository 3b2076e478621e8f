// Every command line that the page gives away, so that a test can try them all.

/** A word as a shell takes it. @param {string} word */
export const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** A line as a shell takes it apart: by spaces, but for what is in quotes. @param {string} line */
export function words(line) {
  /** @type {string[]} */
  const found = [];
  for (const [whole] of line.matchAll(/(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\])+/g)) {
    found.push(whole.replace(/'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)/g, (_, single, double, escaped) => single ?? double?.replace(/\\(["\\$`])/g, "$1") ?? escaped));
  }
  return found;
}

export const COMMANDS = {
  worker: "stayer worker --allow-commands",
  /** @param {string} queue */
  workerFor: (queue) => `stayer worker -q ${quoted(queue)} --allow-commands`,
  run: "stayer run -- echo hello",
  runWithProgress: "stayer run -- sh -c 'for n in $(seq 100); do echo $n/100 >> $STAYER_REPORT; sleep 1; done'",
  add: "stayer add -q encode -- ffmpeg -i a.mkv a.webm",
  submitFlow: "stayer flow submit flow.json",
  /** @param {string} id */
  showFlow: (id) => `stayer flow show ${operand(id)}`,
  addSchedule: "stayer cron add nightly '30 2 * * *' -- make report",
  /** @param {string} id */
  show: (id) => `stayer show ${operand(id)}`,
  /** @param {string} id */
  showAll: (id) => `stayer show --json ${operand(id)}`,
  link: "stayer token link",
};

/** An argument that is no option, whatever it begins with. @param {string} word */
const operand = (word) => `${word.startsWith("-") ? "-- " : ""}${quoted(word)}`;
