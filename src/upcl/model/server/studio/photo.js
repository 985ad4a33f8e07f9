// One photo: a tile in a list, and the dialog that explains its answer and corrects it.
import { ask, showPicture } from "./api.js";
import { attempt, button, element, nameInput, openDialog, percent } from "./dom.js";

export const NONE = "none of these";

export function image(digest, alt = "") {
  const holder = element("img", { alt, decoding: "async", draggable: false, loading: "lazy" });
  showPicture(holder, digest, () => holder.replaceWith(element("span", { class: "none" }, "no picture stored")));
  return holder;
}

// The name of a photo for people: what its file is called.
export const photoName = (photo) => photo.file.split("/").at(-1) || "photo " + photo.digest.slice(0, 6);

// A tile with the answer and one click to say whether it is right.
export function tile(photo, teach, { note = "" } = {}) {
  if (photo.gone) return goneTile(photo, teach);
  const wrong = photo.label && photo.answer && photo.answer !== photo.label;
  const box = element("div", { class: "tile" + (wrong ? " wrong" : "") });
  const says = photo.answer === null ? "not learned yet" : photo.answer, name = photoName(photo);
  const act = (kind, text, work, label) => { const made = button(text, work, "", { "aria-label": label, title: label }); made.dataset.act = kind; return made; };
  // While an answer is learned, its tile takes no further clicks: they would be meant for something else.
  const learn = (chosen) => async () => {
    if (box.classList.contains("busy")) return;
    box.classList.add("busy");
    if (!await teach.label([photo.digest], chosen)) box.classList.remove("busy");
  };
  const open = element("button", { class: "open", type: "button", "aria-label": "Open " + name + ": " + says, onclick: () => showPhoto(photo.digest, teach) }, image(photo.digest));
  open.dataset.act = "open";
  const bar = element("i"); bar.style.width = 100 * (photo.answer === NONE ? 0 : photo.confidence) + "%";
  const row = element("div", { class: "row" });
  if (photo.label) row.append(act("wrong", "Move", () => showPhoto(photo.digest, teach), "Move " + name + " to another class"));
  else if (photo.answer) {
    row.append(act("right", "✓", learn(photo.answer), "Right: " + name + " is " + (photo.answer === NONE ? "none of these classes" : photo.answer)));
    row.append(act("wrong", "✗", () => showPhoto(photo.digest, teach), "Wrong: choose what " + name + " shows"));
    if (photo.answer !== NONE) row.append(act("none", "None", learn(NONE), name + " shows none of these classes"));
  } else row.append(act("wrong", "Name it", () => teach.name([photo.digest], ""), "Name what " + name + " shows"));
  const detail = note || (photo.held_out ? "held out" : photo.answer === null || photo.answer === NONE && !photo.alternative ? name : photo.answer === NONE ? "perhaps" : percent(photo.confidence));
  const line = element("div", { class: "detail" }, element("small", { title: photo.file }, detail));
  if (!photo.label && photo.alternative) line.append(act("other", photo.alternative, learn(photo.alternative), "Wrong: " + name + " is " + photo.alternative));
  box.append(open, element("span", { class: "says", title: says }, says), element("span", { class: "sure" }, bar), line, row);
  return box;
}

// What is left of a photo in a list until the list is opened again.
export function goneTile(photo, teach) {
  const taught = teach.taught.get(photo.digest);
  const picture = taught === undefined ? element("span", { class: "open" }) : element("button", { class: "open", type: "button", "aria-label": "Open a photo that was taught", onclick: () => showPhoto(photo.digest, teach) }, image(photo.digest));
  return element("div", { class: "tile gone" }, picture, element("span", { class: "says" }, taught === undefined ? "no longer here" : taught === null ? "label removed" : "✓ " + taught));
}

export async function showPhoto(digest, teach) {
  const photo = await attempt(() => ask("/photo/" + digest));
  if (!photo) return;
  const large = element("img", { class: "large", alt: photo.file });
  showPicture(large, digest, () => {});
  const caption = element("p", { class: "hint" }, photo.label ? "Taught as “" + photo.label + "”" + (photo.held_out ? ", held out to measure accuracy." : ".") : "No label yet.");
  const act = (work) => async () => { dialog.close(); await work(); };
  const answers = element("div");
  for (const guess of photo.top) {
    const bar = element("i"); bar.style.width = 100 * guess.confidence + "%";
    answers.append(element("button", { class: "answer", type: "button", "aria-label": "It is " + guess.name + " (" + percent(guess.confidence) + ")", onclick: act(() => teach.label([digest], guess.name)) }, element("span", {}, guess.name), element("span", {}, bar), element("span", {}, percent(guess.confidence))));
  }
  const input = nameInput("Another name", { placeholder: "Another name" });
  const form = element("form", { class: "line", onsubmit: (event) => { event.preventDefault(); const name = input.value.trim(); if (name) act(() => teach.label([digest], name))(); } }, input, element("button", { class: "main" }, "Teach"));
  const more = element("div", { class: "line" }, button("None of these", act(() => teach.label([digest], NONE))));
  if (photo.label) more.append(button("Remove label", act(() => teach.label([digest], null))));
  more.append(button("Delete photo", act(() => teach.discard([digest])), "danger"));
  const left = element("div", {}, large);
  if (photo.stored && photo.answer) {
    const why = button("Why this answer?", async () => {
      const found = await attempt(() => ask("/why/" + digest));
      if (!found) return;
      large.src = found.picture;
      why.replaceWith(element("p", { class: "hint" }, "Bright places speak for “" + found.name + "”. " + (found.exact ? "This map is exact: the score is the sum over these places." : "This map is an approximation.")));
    });
    left.append(element("div", { class: "line" }, why));
  }
  const near = element("div", { class: "thumbs named" }, ...photo.nearest.map((other) => element("button", { type: "button", "aria-label": "Similar photo: " + other.name, onclick: () => showPhoto(other.digest, teach) }, image(other.digest), element("small", {}, other.name))));
  const heading = !photo.answer ? "What is it?" : photo.answer === NONE ? "Matches none of the classes" : "It looks like “" + photo.answer + "”";
  const right = element("div", {}, caption, photo.top.length ? element("h3", {}, "What is it? One click teaches it") : "", answers, form, more, photo.nearest.length ? element("h3", {}, "Most similar photos that were taught") : "", near);
  const dialog = openDialog(heading, element("div", { class: "photo" }, left, right));
}
