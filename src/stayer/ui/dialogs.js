// Dialogs: asking before something is done, and asking for what is needed to do it.

import { h } from "./dom.js";
import { say } from "./widgets.js";

/**
 * @typedef {{name: string, label: string, value?: string, hint?: string, placeholder?: string, options?: string[], required?: boolean}} Field
 */

/**
 * Ask; the answers, or null if it is not to be done. `act` runs while the dialog is open: what goes
 * wrong is said there, and can be mended.
 * @param {{heading: string, sentence?: string, button: string, danger?: boolean, fields?: Field[], act: (answers: Record<string, string>, progress: (said: string) => void) => Promise<void>}} question
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
      fields.map((each) => each.node),
      problem,
      h("div.buttons", null,
        h("button.button", { type: "button", onclick: () => dialog.close() }, "Not now"), confirm));
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": "question" }, form));
    let done = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      confirm.setAttribute("disabled", "");
      say(problem, "");
      try {
        await question.act(Object.fromEntries(fields.map((each) => [each.name, each.input.value.trim()])),
          (said) => say(problem, said));
        done = true;
        dialog.close();
      } catch (error) {
        say(problem, /** @type {Error} */ (error).message);
        confirm.removeAttribute("disabled");
      }
    });
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(done);
    });
    document.body.append(dialog);
    dialog.showModal();
    (fields[0]?.input ?? confirm).focus();
  });
}

/** @param {Field} asked */
function field(asked) {
  const id = `field-${asked.name}`;
  const common = { id, name: asked.name, required: asked.required, autocomplete: "off", "aria-describedby": asked.hint ? `${id}-hint` : null };
  const input = /** @type {HTMLInputElement} */ (
    asked.options
      ? h("select", common, asked.options.map((each) => h("option", { value: each }, each)))
      : h("input", { ...common, placeholder: asked.placeholder }));
  if (asked.value !== undefined) input.value = asked.value;
  const node = h("div.field", null, h("label", { for: id }, asked.label), input,
    asked.hint ? h("p.hint", { id: `${id}-hint` }, asked.hint) : null);
  return { name: asked.name, input, node };
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
