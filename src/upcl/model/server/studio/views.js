// The views: photos of a class or without a label, groups of mixed photos, what to review, the history. A view that is
// drawn again, because something was learned, keeps what a person works on in place.
import { change } from "./api.js";
import { attempt, button, confirmed, count, element, nameInput } from "./dom.js";
import { Grid } from "./grid.js";
import { goneTile, image, NONE, showPhoto, tile } from "./photo.js";

const addButtons = (teach, name) => [
  button("Add photos", () => teach.addFiles(name), name ? "" : "main"),
  button("Add a folder", () => teach.addFolder(name)),
  button("Camera", () => teach.camera(name)),
];

let list = null; // the grid that is shown, with its heading and tools

export async function photosView(view, teach, name, fresh) {
  const photos = await teach.ask("/photos" + (name === null ? "" : "?class=" + encodeURIComponent(name)));
  if (name === null) for (const { digest } of photos) teach.taught.delete(digest);
  const title = name === null ? "New photos" : name;
  const heading = title + " · " + photos.length.toLocaleString("en");
  if (!fresh && list?.name === name && list.grid.box.isConnected) {
    list.heading.textContent = heading;
    list.grid.update(photos);
    return;
  }
  list = null;
  const tools = element("div", { class: "toolbar" }, element("h2", {}, heading));
  if (photos.length || name !== null) tools.append(...addButtons(teach, name));
  if (name === null && photos.length) tools.append(button("Group similar photos", () => teach.show("groups")), button("Label these next", () => teach.show("suggestions")));
  if (name !== null && photos.length > 3) tools.append(button("Split", () => teach.show("groups", name)));
  if (name === null && photos.length) tools.append(element("p", { class: "hint" }, photos[0].answer === null ? "These photos have no label. Group similar ones and name the groups, or open one and name it." : "This is what the model sees. Say whether it is right (✓), the class next to it, another one (✗) or none of these: each click is learned at once."));
  if (!photos.length) { view.replaceChildren(tools, empty(teach, name)); return; }
  const grid = new Grid(photos, (photo) => tile(photo, teach), title);
  view.replaceChildren(tools, grid.box);
  grid.measure();
  list = { name, grid, heading: tools.querySelector("h2") };
}

function empty(teach, name) {
  if (name !== null) return element("div", { class: "drop" }, "No photo yet. Drop photos here, or choose them.");
  const first = !teach.state.classes.length;
  const steps = ["Add photos, all mixed or one class at a time.", "Say what they show: group similar ones and name each group.", "Add another photo: the model says what it is. Correct it with one click."];
  return element("div", { class: "drop" }, element("strong", {}, first ? "Teach a model with your photos" : "Drop photos here to ask what they show, or to teach"), first ? element("ol", {}, ...steps.map((step) => element("li", {}, step))) : "", element("div", { class: "toolbar" }, ...addButtons(teach, null)), element("p", { class: "hint" }, "You can also drop photos and folders here. They stay on the machine that runs this page."));
}

export async function groupsView(view, teach, name, num, fresh) {
  if (!fresh) return;
  const query = new URLSearchParams({ ...(name === null ? {} : { class: name }), ...(num ? { num } : {}) });
  const groups = await teach.ask("/groups?" + query);
  const tools = element("div", { class: "toolbar" }, element("h2", {}, name === null ? "Groups of similar photos" : "Split “" + name + "”"));
  tools.append(button("Fewer groups", () => teach.show("groups", name, Math.max(2, Math.floor(groups.length * 0.7)))), button("More groups", () => teach.show("groups", name, Math.min(50, Math.ceil(groups.length * 1.4) + 1))), button("Back", () => teach.show("photos", name)));
  tools.append(element("p", { class: "hint" }, "Name a group to make or extend a class. Click a photo that does not belong to it to leave it out."));
  view.replaceChildren(tools, ...groups.map((group) => groupBox(group, teach, name)));
}

const SHOWN = 40; // photos of a group at first

function groupBox(group, teach, from) {
  const left = new Set();
  const input = nameInput("Name of a group of " + count(group.digests.length, "photo"), { value: group.name, onfocus: () => input.select() });
  const submit = element("button", { class: "main" });
  const label = () => { submit.textContent = (from === null ? "Teach " : "Move ") + count(group.digests.length - left.size, "photo"); submit.disabled = left.size === group.digests.length; };
  const box = element("form", { class: "group", onsubmit: async (event) => {
    event.preventDefault();
    const name = input.value.trim(), chosen = group.digests.filter((digest) => !left.has(digest));
    if (!name) { input.focus(); return; }
    submit.disabled = true;
    if (!await teach.label(chosen, name)) { label(); return; }
    const height = box.offsetHeight + "px", done = element("p", { class: "group-done" }, "✓ " + count(chosen.length, "photo") + ": " + name);
    done.style.minHeight = height; // so that the next group does not come under the pointer
    box.replaceWith(done);
    const next = done.nextElementSibling?.closest(".group") || document.querySelector(".group");
    if (next) next.querySelector("input").focus();
    else if (teach.shown.view === "groups") teach.show("photos", null);
  } });
  const split = button("Split", async () => {
    const parts = await attempt(() => change("groups", { digests: group.digests, num: 2 }));
    if (parts?.length > 1) box.replaceWith(...parts.map((part) => groupBox(part, teach, from)));
  }, "", { hidden: group.digests.length < 2 });
  const thumb = (digest) => {
    const made = element("button", { type: "button", "aria-pressed": "false", "aria-label": "Leave photo " + digest.slice(0, 6) + " out", onclick: () => {
      left.has(digest) ? left.delete(digest) : left.add(digest);
      made.classList.toggle("out", left.has(digest)); made.setAttribute("aria-pressed", String(left.has(digest)));
      label();
    } }, image(digest));
    return made;
  };
  const thumbs = element("div", { class: "thumbs" }, ...group.digests.slice(0, SHOWN).map(thumb));
  const rest = group.digests.slice(SHOWN);
  if (rest.length) thumbs.append(button("Show " + rest.length.toLocaleString("en") + " more", (event) => { event.target.remove(); thumbs.append(...rest.map(thumb)); }, "text"));
  label();
  box.append(element("div", { class: "row" }, input, submit, split), thumbs);
  return box;
}

export async function suggestionsView(view, teach, fresh) {
  if (!fresh) {
    for (const made of view.querySelectorAll(".tile[data-digest]")) if (teach.taught.has(made.dataset.digest)) {
      const gone = goneTile({ digest: made.dataset.digest }, teach), focused = made.contains(document.activeElement);
      gone.classList.add("still");
      made.replaceWith(gone);
      if (focused) (view.querySelector(".tile[data-digest] .row button") || view.querySelector(".toolbar button"))?.focus();
    }
    return;
  }
  const photos = await teach.ask("/suggestions");
  for (const { digest } of photos) teach.taught.delete(digest);
  const tools = element("div", { class: "toolbar" }, element("h2", {}, "Label these next"), button("More suggestions", () => teach.show("suggestions"), "main"), button("Back", () => teach.show("photos", null)), element("p", { class: "hint" }, "The model is unsure about these, and each stands for many others. The gain is the number of wrong answers that its label is expected to correct."));
  const tiles = element("div", { class: "tiles" }, ...photos.map((photo) => { const made = tile(photo, teach, { note: "gain " + photo.gain }); made.classList.add("still"); made.dataset.digest = photo.digest; return made; }));
  view.replaceChildren(tools, photos.length ? tiles : element("p", {}, "Every photo has a label."));
}

const thumbs = (digests, teach) => element("div", { class: "thumbs" }, ...digests.slice(0, 24).map((digest) => element("button", { type: "button", "aria-label": "Open photo " + digest.slice(0, 6), onclick: () => showPhoto(digest, teach) }, image(digest))), digests.length > 24 ? element("small", {}, "and " + (digests.length - 24).toLocaleString("en") + " more") : "");

function card(title, text, ...content) {
  return element("section", { class: "card" }, element("h2", {}, title), element("p", {}, text), ...content);
}

// A row of something to review; a button that does its work takes the row away.
function row(...content) {
  const box = element("div", { class: "pair" });
  const settle = (text, work, kind = "") => button(text, async () => { if (await work()) { (box.nextElementSibling?.querySelector("button") || box.closest(".card")).focus?.(); box.remove(); } }, kind);
  box.append(...content.map((part) => Array.isArray(part) ? settle(...part) : part));
  return box;
}

export async function reviewView(view, teach, fresh) {
  if (!fresh) return;
  view.replaceChildren(element("p", { class: "hint" }, "Comparing all photos with each other …"));
  const found = await teach.ask("/review"), cards = [];
  if (found.doubts.length) {
    const rows = found.doubts.slice(0, 30).map((doubt) => row(thumbs([doubt.digest], teach), element("span", {}, "taught as “" + doubt.label + "”, looks like “" + doubt.likely + "”"), ["Move to " + doubt.likely, () => teach.label([doubt.digest], doubt.likely)], ["Label is right", () => teach.confirm([doubt.digest])]));
    cards.push(card("Labels that may be wrong · " + found.doubts.length, "Each photo was classified by a model trained without it. The most doubtful first.", ...rows));
  }
  if (found.confusions.length) {
    const mend = (part) => part.answer === NONE ? button("Add photos", () => teach.addFiles(part.label)) : ["Merge the classes", () => teach.merge(part.label, part.answer)];
    const rows = found.confusions.slice(0, 20).map((part) => row(element("span", {}, count(part.digests.length, "photo") + " of “" + part.label + "” taken for “" + part.answer + "”"), thumbs(part.digests, teach), mend(part)));
    cards.push(card("Confusion between classes", "Wrong answers on photos that were held out from training.", ...rows));
  }
  const needs = Object.entries(found.needs);
  if (needs.length) cards.push(card("Classes that need photos · " + needs.length, "More photos of these would help most.", ...needs.map(([name, reason]) => row(element("span", {}, name + ": " + reason), button("Add photos", () => teach.addFiles(name))))));
  if (found.duplicates.length) {
    const rows = found.duplicates.slice(0, 30).map(([first, second]) => row(thumbs([first, second], teach), element("span", {}, "nearly the same"), ["Delete the second", () => teach.discard([second]), "danger"], ["Keep both", () => teach.confirm([first, second])]));
    cards.push(card("Near-duplicates · " + found.duplicates.length, "Such photos add no information, and accuracy looks better than it is.", ...rows));
  }
  if (found.outliers.length) {
    const rows = found.outliers.slice(0, 30).map((digest) => row(thumbs([digest], teach), element("span", {}, "unlike the photos of every class"), ["Remove label", () => teach.label([digest], null)], ["Label is right", () => teach.confirm([digest])]));
    cards.push(card("Outliers · " + found.outliers.length, "They resemble no class, not even their own.", ...rows));
  }
  view.replaceChildren(...(cards.length ? cards : [element("p", {}, teach.state.classes.length ? "Nothing to review: no doubtful label, no near-duplicate, no class that needs photos." : "There is nothing to review yet: teach two classes first.")]));
}

export function historyView(view, teach) {
  const { history } = teach.state;
  const known = history.filter((step) => step.accuracy !== null);
  const rows = history.slice().reverse().map((step, index) => element("tr", {}, element("td", {}, new Date(step.when).toLocaleString()), element("td", {}, step.note || "learned"), element("td", {}, step.accuracy === null ? "" : Math.round(step.accuracy) + " %"), element("td", {}, step.stored && index ? button("Roll back to this", async () => { if (await confirmed("Roll back to “" + (step.note || "learned") + "”?", "Later steps are removed from the model, which cannot be undone. Photos stay, without their labels.", "Roll back")) teach.rollback(step.step); }) : "")));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...["When", "What", "Accuracy", ""].map((title) => element("th", {}, title)))), element("tbody", {}, ...rows));
  view.replaceChildren(element("h2", {}, "Accuracy over time"), known.length ? curve(known) : element("p", { class: "hint" }, teach.noAccuracy), history.length ? table : "");
}

function curve(steps) {
  const space = "http://www.w3.org/2000/svg";
  const add = (parent, name, values, text) => { const made = document.createElementNS(space, name); for (const key in values) made.setAttribute(key, values[key]); if (text) made.textContent = text; parent.append(made); return made; };
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "curve"); svg.setAttribute("viewBox", "0 0 600 150"); svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "Accuracy on held-out photos after each step: " + steps.map((step) => Math.round(step.accuracy) + " %").join(", "));
  const x = (k) => 40 + (steps.length > 1 ? 540 * k / (steps.length - 1) : 270), y = (value) => 130 - 1.1 * value;
  for (const value of [0, 50, 100]) { add(svg, "text", { x: 0, y: y(value) + 4 }, value + " %"); add(svg, "line", { x1: 36, x2: 590, y1: y(value), y2: y(value) }); }
  add(svg, "polyline", { points: steps.map((step, k) => x(k) + "," + y(step.accuracy)).join(" ") });
  steps.forEach((step, k) => add(svg, "circle", { cx: x(k), cy: y(step.accuracy), r: 4 }));
  return svg;
}
