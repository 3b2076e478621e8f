// Dialogs: asking before something is done, and asking for what is needed to do it.

import { h } from "./dom.js";
import { say } from "./widgets.js";

/**
 * `rows`: of a text with several lines. `offers`: what may be chosen, beside what may be typed. `group`: folded away below
 * the heading of that name. `shown`: whether it matters, given the other answers.
 * @typedef {{name: string, label: string, value?: string, hint?: string, placeholder?: string, options?: string[], required?: boolean, rows?: number, offers?: string[], group?: string, shown?: (answers: Record<string, string>) => boolean}} Field
 */

/**
 * Ask; the answers, or null if it is not to be done. `act` runs while the dialog is open: what goes
 * wrong is said there, and can be corrected.
 * @param {{heading: string, sentence?: string, button: string, danger?: boolean, wide?: boolean, fields?: Field[], act: (answers: Record<string, string>, progress: (said: string) => void) => Promise<void>}} question
 * @returns {Promise<boolean>}
 */
export function ask(question) {
  return new Promise((resolve) => {
    const problem = h("p.problem", { role: "alert" });
    const confirm = h(`button.button${question.danger ? ".danger" : ".primary"}`, { type: "submit" }, question.button);
    const fields = (question.fields ?? []).map(field);
    const form = h("form", { method: "dialog" },
      h("h2", { id: "question" }, question.heading),
      question.sentence ? h("p", null, question.sentence) : null,
      groups(fields),
      problem,
      h("div.buttons", null,
        h("button.button", { type: "button", onclick: () => dialog.close() }, "Close"), confirm));
    const dialog = /** @type {HTMLDialogElement} */ (h(question.wide ? "dialog.wide" : "dialog", { "aria-labelledby": "question" }, form));
    let done = false;
    const answers = () => Object.fromEntries(fields.map((each) => [each.name, each.input.value.trim()]));
    const showFitting = () => fields.forEach((each) => {
      each.node.hidden = !(each.shown?.(answers()) ?? true);
      each.input.disabled = each.node.hidden; // what is not seen can't be asked for
    });
    form.addEventListener("change", showFitting);
    showFitting();
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      confirm.setAttribute("disabled", "");
      say(problem, "");
      try {
        await question.act(answers(), (said) => say(problem, said));
        done = true;
        dialog.close();
      } catch (error) {
        say(problem, /** @type {Error} */ (error).message);
        problem.scrollIntoView({ block: "nearest" });
        confirm.removeAttribute("disabled");
      }
    });
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    // Whoever goes back has left the page that was asked about.
    const leave = () => confirm.hasAttribute("disabled") || dialog.close();
    addEventListener("hashchange", leave);
    dialog.addEventListener("close", () => {
      removeEventListener("hashchange", leave);
      dialog.remove();
      resolve(done);
    });
    document.body.append(dialog);
    dialog.showModal();
    (fields.find((each) => !each.node.hidden)?.input ?? confirm).focus();
  });
}

/** The fields in their order, those of a group below its heading. @param {ReturnType<typeof field>[]} fields */
function groups(fields) {
  /** @type {Map<string, HTMLElement>} */
  const folded = new Map();
  return fields.map((each) => {
    if (!each.group) return each.node;
    const known = folded.get(each.group);
    if (known) {
      known.append(each.node);
      return null;
    }
    const inside = h("div.field-group", null, each.node);
    folded.set(each.group, inside);
    return h("details.fields", null, h("summary", null, each.group), inside);
  });
}

/** @param {Field} asked */
function field(asked) {
  const id = `field-${asked.name}`;
  const common = { id, name: asked.name, required: asked.required, autocomplete: "off", "aria-describedby": asked.hint ? `${id}-hint` : null };
  const input = /** @type {HTMLInputElement} */ (
    asked.options
      ? h("select", common, asked.options.map((each) => h("option", { value: each }, each)))
      : asked.rows ? h("textarea.mono", { ...common, rows: asked.rows, placeholder: asked.placeholder, spellcheck: "false" })
        : h("input", { ...common, placeholder: asked.placeholder, list: asked.offers ? `${id}-offers` : null }));
  if (asked.value !== undefined) input.value = asked.value;
  const node = h("div.field", null, h("label", { for: id }, asked.label), input,
    asked.offers ? h("datalist", { id: `${id}-offers` }, asked.offers.map((each) => h("option", { value: each }))) : null,
    asked.hint ? h("p.hint", { id: `${id}-hint` }, asked.hint) : null);
  return { name: asked.name, group: asked.group, shown: asked.shown, input, node };
}

/** Something to read, closed by Esc or a click. @param {string} heading @param {...Node} content */
export function show(heading, ...content) {
  const dialog = /** @type {HTMLDialogElement} */ (
    h("dialog", { "aria-label": heading },
      h("h2", null, heading), content,
      h("div.buttons", null, h("button.button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close"))));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
