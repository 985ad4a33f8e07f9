// The page: keeps what is shown in step with the service. Everything that is taught is saved by the service at once.
import { ask, change, ConnectionLost, download, onConnection } from "./api.js";
import { askChoice, askName, attempt, button, byId, confirmed, count, element, Superseded, toast } from "./dom.js";
import { image, NONE } from "./photo.js";
import { acceptDrops, byFolder, chooseFiles, patiently, sendPhotos, takePictures, whileLearning } from "./uploads.js";
import { groupsView, historyView, photosView, reviewView, suggestionsView } from "./views.js";

const POLL = 2000; // milliseconds
const TABS = { photos: "photos", groups: "photos", suggestions: "photos", review: "review", history: "history" };

class Studio {
  state = { version: "", classes: [], unlabelled: 0, history: [], undo: null, accuracy: null };
  shown = { view: "photos", name: null, num: null };
  taught = new Map(); // what photos were taught as on this page, by digest
  cards = new Map(); // the classes on the page, by name
  drawing = 0; asked = 0; answered = 0; changing = 0; polling = false; problem = "";
  noAccuracy = "Accuracy is shown once five photos of a class are taught together: a fifth of them is held out to measure it.";

  async start() {
    onConnection((online) => { byId("offline").hidden = online; });
    byId("undo").addEventListener("click", () => this.undo());
    byId("new-class").addEventListener("submit", (event) => { event.preventDefault(); this.addClass(byId("new-name").value.trim()); });
    byId("add-class-folders").addEventListener("click", async () => this.addClassFolders(await chooseFiles(true)));
    for (const tab of ["photos", "review", "history"]) byId("tab-" + tab).addEventListener("click", () => this.show(tab, tab === "photos" ? this.shown.name : null));
    document.querySelector("nav").addEventListener("keydown", (event) => this.moveTab(event));
    document.addEventListener("click", (event) => { for (const menu of document.querySelectorAll("details[open]")) if (!menu.contains(event.target)) menu.open = false; });
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") for (const menu of document.querySelectorAll("details[open]")) { menu.open = false; menu.querySelector("summary").focus(); } });
    for (const item of document.querySelectorAll("[data-download]")) item.addEventListener("click", () => { byId("save").open = false; this.download(item.dataset.download); });
    acceptDrops(document.querySelector("aside"), (photos) => this.addClassFolders(photos));
    acceptDrops(byId("view"), (photos) => this.add(photos, this.shown.view === "photos" ? this.shown.name : null));
    for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
    await attempt(async () => { this.state = await ask(""); });
    await this.show("photos");
    setInterval(() => { if (!document.hidden) this.poll(); }, POLL);
  }

  // Look for changes made elsewhere. What comes after a change that was made here meanwhile is out of date.
  async poll() {
    if (this.polling) return;
    this.polling = true;
    const { changing } = this;
    try {
      const state = await ask("", true);
      if (changing === this.changing) this.take(state);
      this.problem = "";
    } catch (error) {
      if (!(error instanceof ConnectionLost) && this.problem !== error.message) { this.problem = error.message; toast(error.message, { bad: true }); }
    } finally { this.polling = false; }
  }

  // Use a newer description of the model, and draw what it changes; what a person works on stays as it is.
  take(state) {
    if (state.version === this.state.version) return;
    this.state = state; this.drawFrame();
    attempt(() => this.draw());
  }

  async run(path, body) {
    this.changing++;
    const state = await attempt(() => whileLearning(() => change(path, body)));
    this.changing++;
    if (!state) return false;
    this.state = state; this.drawFrame();
    attempt(() => this.draw());
    return true;
  }

  show(view, name = null, num = null) { this.shown = { view, name, num }; this.drawing++; this.drawFrame(); return attempt(() => this.draw(true)); }

  draw(fresh = false) {
    const view = byId("view"), { view: kind, name, num } = this.shown;
    if (kind === "groups") return groupsView(view, this, name, num, fresh);
    if (kind === "suggestions") return suggestionsView(view, this, fresh);
    if (kind === "review") return reviewView(view, this, fresh);
    if (kind === "history") return historyView(view, this);
    return photosView(view, this, name, fresh);
  }

  // Ask for what a view is to show. It ends here if another view was opened meanwhile, or if a later answer came first.
  async ask(path) {
    const { drawing } = this, number = ++this.asked, found = await ask(path);
    if (drawing !== this.drawing || number < this.answered) throw new Superseded();
    this.answered = number;
    return found;
  }

  // teaching

  async label(digests, name) {
    const before = digests.map((digest) => this.taught.get(digest));
    for (const digest of digests) this.taught.set(digest, name);
    if (!await this.run("label", { digests, name })) {
      digests.forEach((digest, k) => before[k] === undefined ? this.taught.delete(digest) : this.taught.set(digest, before[k]));
      return false;
    }
    const photos = count(digests.length, "photo");
    this.undoable(name === null ? "Label of " + photos + " removed" : photos + " taught as “" + name + "”");
    return true;
  }

  // Say what was done, and offer to take just this step back.
  undoable(message) { const step = this.state.undo?.step; toast(message, step === undefined ? {} : { action: () => this.undo(step), label: "Undo" }); }

  async name(digests, proposal) { const name = await askName("What is it?", proposal === NONE ? "" : proposal, "Teach"); if (name) await this.label(digests, name); }

  async add(photos, name) {
    if (name === null && this.shown.view !== "photos") this.show("photos");
    const digests = await sendPhotos(photos, name);
    if (name === null) { await this.poll(); return digests.length; } // a person may look at something else by now
    return digests.length && await patiently(() => this.label(digests, name)) ? digests.length : 0;
  }

  async addClassFolders(photos) {
    const { folders, loose } = byFolder(photos), taught = [];
    for (const [name, part] of folders) if (await this.add(part, name)) taught.push(name);
    if (taught.length > 1) toast(count(taught.length, "class") + " taught: " + taught.slice(0, 5).join(", "));
    if (loose.length) await this.add(loose, null);
  }

  addFiles(name) { return chooseFiles().then((photos) => photos.length && this.add(photos, name)); }
  addFolder(name) { return chooseFiles(true).then((photos) => photos.length && this.add(photos, name)); }
  camera(name) { takePictures((photo) => this.add([photo], name)); }
  async addClass(name) {
    byId("new-name").value = ""; // at once, so that a second click does nothing
    if (!name) return;
    if (await this.run("class", { name })) this.show("photos", name); else byId("new-name").value = name;
  }

  async download(kind) {
    const note = toast("Preparing the download …", { stays: true });
    if (await attempt(async () => { await download(kind, this.state.model); return true; })) toast("Downloaded");
    note.remove();
  }

  async rename(name) {
    const renamed = await askName("Rename “" + name + "”", name);
    if (!renamed || renamed === name || !await this.run("rename", { name, new: renamed })) return;
    if (this.shown.name === name) this.show("photos", renamed);
    toast("“" + name + "” is now “" + renamed + "”", { action: () => this.run("rename", { name: renamed, new: name }), label: "Undo" });
  }

  async mergeAsk(name) {
    const others = this.state.classes.filter((found) => found.name !== name && found.learned).map((found) => found.name);
    if (!others.length) { toast("There is no other class with photos.", { bad: true }); return; }
    const into = await askChoice("Merge “" + name + "” into which class?", others, "Merge");
    if (into) await this.merge(name, into);
  }

  async merge(name, into) {
    if (!await this.run("merge", { name, into })) return false;
    if (this.shown.name === name) this.show("photos", into);
    this.undoable("“" + name + "” was merged into “" + into + "”");
    return true;
  }

  async forget(name) {
    if (!await confirmed("Forget “" + name + "”?", "The class and its photos are deleted, and the model is as if it had never seen them. Neither this nor the steps before it can be undone.", "Forget")) return;
    if (!await this.run("forget", { name })) return;
    if (this.shown.name === name) this.show("photos");
    toast("“" + name + "” is forgotten");
  }

  async discard(digests) { return await confirmed("Delete " + count(digests.length, "photo") + "?", "Deleted from the disk, and from the model as if it had never seen it. This cannot be undone.", "Delete") && this.run("discard", { digests }); }

  confirm(digests) { return this.run("confirm", { digests }); }

  async undo(step = this.state.undo?.step) {
    if (step === undefined) return;
    const { note } = this.state.undo || {};
    if (await this.run("undo", { step })) toast("Undone: " + (note || "the last step"));
    if (this.shown.view === "suggestions") this.show("suggestions");
    if (this.shown.name !== null && !this.state.classes.some((found) => found.name === this.shown.name)) this.show("photos");
  }

  async rollback(step) { if (await this.run("rollback", { step })) toast("Rolled back"); }

  // the frame around the view

  drawFrame() {
    const { state } = this;
    byId("model").textContent = state.model || "upcl studio";
    document.title = (state.model || "model") + " · upcl studio";
    const found = state.accuracy;
    byId("accuracy").textContent = found ? Math.round(found.percent) + " % right on " + count(found.photos, "held-out photo") + " (95 % interval " + Math.round(found.low) + " to " + Math.round(found.high) + " %)" + (found.none >= 0.5 ? ", though " + Math.round(found.none) + " % are called “none of these”" : "") : state.classes.length ? "Accuracy unknown: no photo is held out yet." : "Nothing learned yet";
    byId("accuracy").title = found ? "" : this.noAccuracy;
    byId("undo").disabled = !state.undo;
    byId("undo").title = state.undo ? "Undo: " + state.undo.note : "Nothing to undo";
    for (const item of document.querySelectorAll("[data-download]")) item.disabled = !state.history.length;
    byId("names").replaceChildren(...state.classes.map(({ name }) => element("option", { value: name })));
    for (const tab of ["photos", "review", "history"]) { const on = TABS[this.shown.view] === tab; byId("tab-" + tab).setAttribute("aria-selected", String(on)); byId("tab-" + tab).tabIndex = on ? 0 : -1; if (on) byId("view").setAttribute("aria-labelledby", "tab-" + tab); }
    this.drawClasses([{ name: null, title: "New photos", detail: count(state.unlabelled, "photo") + " without a label", pictures: [] }, ...state.classes.map((part) => ({ name: part.name, title: part.name, detail: this.classDetail(part), pictures: part.pictures, empty: !part.learned }))]);
  }

  // Only classes that have changed are drawn again, so that an open menu and the focus stay where they are.
  drawClasses(parts) {
    const list = byId("classes"), kept = new Map();
    const active = document.activeElement, focused = list.contains(active) ? [active.closest(".class").dataset.name, active.dataset.act] : null;
    for (const part of parts) {
      const content = JSON.stringify(part), known = this.cards.get(part.name);
      kept.set(part.name, known?.content === content ? known : { content, item: this.classCard(part) });
      const { item } = kept.get(part.name);
      item.classList.toggle("selected", this.shown.name === part.name && TABS[this.shown.view] === "photos");
    }
    this.cards = kept;
    const items = [...kept.values()].map(({ item }) => item);
    if (items.some((item, k) => list.children[k] !== item) || list.children.length !== items.length) list.replaceChildren(...items);
    if (focused && !list.contains(document.activeElement)) [...list.querySelectorAll("[data-act]")].find((found) => found.closest(".class").dataset.name === focused[0] && found.dataset.act === focused[1])?.focus();
  }

  classDetail({ learned, held_out, accuracy }) {
    const num = learned + held_out;
    return num ? count(num, "photo") + (accuracy === null ? "" : ", " + Math.round(accuracy) + " % right") : "no photo yet";
  }

  classCard({ name, title, detail, pictures, empty }) {
    const item = element("li", { class: "class" });
    item.dataset.name = name ?? "";
    const act = (kind, made) => { made.dataset.act = kind; return made; };
    item.append(act("open", element("button", { class: "open", type: "button", onclick: () => this.show("photos", name) }, title, element("small", {}, detail))));
    if (name !== null) {
      const choices = { "Add photos": () => this.addFiles(name), "Take pictures": () => this.camera(name), Rename: () => this.rename(name), ...(empty ? {} : { Merge: () => this.mergeAsk(name), Split: () => this.show("groups", name) }) };
      const menu = element("details", {}, act("more", element("summary", { "aria-label": "More for " + name })), element("div", { class: "menu" }, ...Object.entries(choices).map(([text, work]) => act(text, button(text, work))), act("forget", button("Forget", () => this.forget(name), "danger"))));
      menu.addEventListener("toggle", () => { if (menu.open) menu.querySelector(".menu").scrollIntoView({ block: "nearest" }); });
      menu.addEventListener("click", (event) => { if (event.target.matches(".menu button")) menu.open = false; });
      item.append(menu, element("div", { class: "strip" }, ...pictures.map((digest) => image(digest))));
    }
    acceptDrops(item, (photos) => this.add(photos, name));
    return item;
  }

  moveTab(event) {
    const tabs = [...document.querySelectorAll("[role=tab]")], now = tabs.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && now >= 0) { const next = tabs[(now + step + tabs.length) % tabs.length]; next.focus(); next.click(); }
  }
}

new Studio().start();
