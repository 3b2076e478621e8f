// What tasks have in common: that they run the same. The rules are those of `core/kinds.py`.

const INTERPRETER = /^(?:python|pypy|ruby|perl|php|lua|node|deno|bun|julia|java|Rscript|sh|bash|dash|zsh|ksh|fish)[\d.]*$/;
const CODE = /^(?:-[a-z]*[ce]|-r)$/;
const PART = ["-m", "-jar"];
const WITH_VALUE = ["-W", "-X"];
const LONGEST = 40;

/** @param {string} path */
const last = (path) => path.replace(/\/+$/, "").split("/").pop() || path;

/** A task's name, else what its command runs, else nothing. @param {{name?: string | null, command?: string[] | null}} task */
export function kind(task) {
  if (task.name || !task.command?.length) return task.name || "";
  const program = last(task.command[0]);
  const rest = INTERPRETER.test(program) ? task.command.slice(1) : [];
  for (let at = 0; at < rest.length; at++) {
    const word = rest[at];
    if (CODE.test(word)) {
      const code = [...(rest[at + 1] ?? "").split(/\s+/).filter(Boolean).join(" ")];
      return `${program} ${word} ${code.length <= LONGEST ? code.join("") : `${code.slice(0, LONGEST - 1).join("")}…`}`.trimEnd();
    }
    if (PART.includes(word)) return `${program} ${word} ${last(rest[at + 1] ?? "")}`.trimEnd();
    if (WITH_VALUE.includes(word)) at++;
    else if (!word.startsWith("-")) return `${program} ${last(word)}`;
  }
  return program;
}
