// Small helpers to build elements, messages and dialogs.
export const byId = (id) => document.getElementById(id);

export function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export const button = (text, onclick, kind = "", options = {}) => element("button", { type: "button", class: kind, onclick, ...options }, text);

export const percent = (value) => Math.round(100 * value) + " %";

export const count = (num, noun) => num.toLocaleString("en") + " " + noun + (num === 1 ? "" : noun.endsWith("s") ? "es" : "s");

// Show a message for a while, above an open dialog. Only the newest one offers to take something back.
export function toast(message, { bad = false, action = null, label = "", stays = false } = {}) {
  const toasts = byId("toasts");
  (document.querySelector("dialog[open]") || document.body).append(toasts);
  if (action) for (const older of toasts.querySelectorAll("button")) older.remove();
  const box = element("div", { class: bad ? "toast bad" : "toast" }, element("span", {}, message));
  if (action) box.append(button(label, () => { box.remove(); action(); }));
  toasts.append(box);
  while (toasts.children.length > 2) toasts.firstChild.remove();
  if (!stays) setTimeout(() => box.remove(), bad ? 12000 : 7000);
  return box;
}

// Run something that may fail; a failure is shown and does not stop the page.
export async function attempt(work) {
  try { return await work(); } catch (error) { if (!(error instanceof Superseded)) toast(String(error.message || error), { bad: true }); return undefined; }
}

// Why a view is not drawn: another one was asked for meanwhile.
export class Superseded extends Error {}

// Open a dialog in place of the one that is open; each is an element of its own, so that none gets the events of another.
export function openDialog(title, ...content) {
  document.querySelector("dialog[open]")?.close();
  const dialog = element("dialog", { "aria-label": title });
  const close = button("Close", () => dialog.close(), "", { "aria-label": "Close" });
  dialog.append(element("div", { class: "toolbar" }, element("h2", {}, title), close), ...content);
  dialog.addEventListener("close", () => { if (dialog.contains(byId("toasts"))) document.body.append(byId("toasts")); dialog.remove(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Ask for a value with a form; resolves to null if it is closed.
function askWith(title, field, action) {
  return new Promise((resolve) => {
    const form = element("form", { class: "line", onsubmit: (event) => { event.preventDefault(); const value = field.value.trim(); if (value) { resolve(value); dialog.close(); } } }, field, element("button", { class: "main" }, action));
    const dialog = openDialog(title, form);
    dialog.addEventListener("close", () => resolve(null));
    field.focus();
  });
}

// Ask for a name, with the known classes as suggestions.
export function askName(title, value = "", action = "Save") {
  const input = nameInput(title, { value, required: true });
  const answer = askWith(title, input, action);
  input.select();
  return answer;
}

export const askChoice = (title, names, action) => askWith(title, element("select", { "aria-label": title, required: true }, element("option", { value: "" }, "Choose a class"), ...names.map((name) => element("option", { value: name }, name))), action);

// A field for the name of a class.
export function nameInput(label, options = {}) {
  const input = element("input", { maxLength: 200, autocomplete: "off", "aria-label": label, ...options });
  input.setAttribute("list", "names");
  return input;
}

export function confirmed(title, text, action) {
  return new Promise((resolve) => {
    const yes = button(action, () => { resolve(true); dialog.close(); }, "danger");
    const dialog = openDialog(title, element("p", {}, text), element("div", { class: "line" }, yes));
    dialog.addEventListener("close", () => resolve(false));
    yes.focus();
  });
}
