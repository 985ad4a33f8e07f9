// Photos on their way to the service: files, folders, the camera. A lost connection pauses them; nothing is sent twice.
import { Busy, ConnectionLost, upload } from "./api.js";
import { attempt, button, byId, count, element, openDialog, toast } from "./dom.js";

const MAX_FILES = 8, MAX_BYTES = 15 * 2 ** 20, RETRY = 2000;
const IMAGE = /\.(jpe?g|png|webp|bmp|gif|tiff?)$/i;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const SOON = 400; // milliseconds until a bar says that something is being learned
let total = 0, done = 0, learning = 0;

function showProgress() {
  const sending = done < total;
  byId("progress").classList.toggle("idle", !sending && !learning);
  if (!sending) { total = done = 0; byId("bar").removeAttribute("value"); byId("progress-text").textContent = "Learning …"; return; }
  byId("bar").max = total; byId("bar").value = done;
  byId("progress-text").textContent = "Processing photos: " + done + " of " + total;
}

// Show that the model learns while some work lasts, unless it is done at once.
export async function whileLearning(work) {
  let shown = 0;
  const soon = setTimeout(() => { shown = 1; learning++; showProgress(); }, SOON);
  try { return await work(); } finally { clearTimeout(soon); learning -= shown; showProgress(); }
}

window.addEventListener("beforeunload", (event) => { if (total) event.preventDefault(); });

// Divide photos into requests.
function batchesOf(photos) {
  const batches = [[]];
  let bytes = 0;
  for (const photo of photos) {
    if (batches.at(-1).length && (batches.at(-1).length >= MAX_FILES || bytes + photo.file.size > MAX_BYTES)) { batches.push([]); bytes = 0; }
    batches.at(-1).push(photo); bytes += photo.file.size;
  }
  return batches;
}

// Do something until it neither fails for lack of a connection nor because the service is busy.
export async function patiently(work) {
  for (;;) {
    try { return await work(); } catch (error) { if (!(error instanceof ConnectionLost || error instanceof Busy)) throw error; }
    await pause(RETRY);
  }
}

// Send photos [{file, name}] of a class, or of none (null); returns the digests of those that can be read.
export async function sendPhotos(photos, name) {
  total += photos.length; showProgress();
  const digests = [], errors = [];
  for (const batch of batchesOf(photos)) {
    try {
      for (const found of await patiently(() => upload(batch, name))) found.digest ? digests.push(found.digest) : errors.push(found.file + ": " + found.error);
    } catch (error) { for (const photo of batch) errors.push(photo.name + ": " + error.message); }
    done += batch.length; showProgress();
  }
  if (errors.length) toast(count(errors.length, "file") + " could not be read. " + errors.slice(0, 2).join("; "), { bad: true });
  return digests;
}

// What was dropped, as [{file, name}] where the name keeps the folders.
export async function droppedPhotos(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return photosOf(transfer.files);
  const found = [];
  async function walk(entry, path) {
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      if (IMAGE.test(file.name) || file.type.startsWith("image/")) found.push({ file, name: path + file.name });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!part.length) return;
      for (const child of part) await walk(child, path + entry.name + "/");
    }
  }
  for (const entry of entries) await walk(entry, "");
  return found;
}

export const photosOf = (files) => [...files].filter((file) => IMAGE.test(file.name) || file.type.startsWith("image/")).map((file) => ({ file, name: file.webkitRelativePath || file.name }));

// Photos by the folder that they are in directly, and those that lie loose beside these folders. A folder of photos alone
// is a class; photos next to sub-folders belong to none.
export function byFolder(photos) {
  const folders = new Map(), loose = [];
  const parents = new Set(photos.map((photo) => photo.name.split("/").slice(0, -2).join("/")));
  for (const photo of photos) {
    const folder = photo.name.split("/").slice(0, -1);
    if (!folder.length || parents.has(folder.join("/"))) { loose.push(photo); continue; }
    folders.set(folder.at(-1), [...(folders.get(folder.at(-1)) || []), photo]);
  }
  return { folders, loose };
}

export function chooseFiles(folder = false) {
  const input = byId(folder ? "folder" : "files");
  return new Promise((resolve) => {
    input.value = "";
    input.onchange = () => {
      const photos = photosOf(input.files), others = input.files.length - photos.length;
      if (!photos.length || others && !folder) toast(count(others, "file") + " skipped: not an image", { bad: true });
      resolve(photos);
    };
    input.click();
  });
}

// Take pictures with the camera until it is closed. Where a page may not use it, which is so without HTTPS on other
// machines, the camera of the device takes one picture at a time.
export async function takePictures(onPhoto) {
  if (!navigator.mediaDevices) { const input = byId("shot"); input.value = ""; input.onchange = () => { for (const photo of photosOf(input.files)) onPhoto(photo); }; input.click(); return; }
  const stream = await attempt(() => navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: 1280 } }));
  if (!stream) return;
  let taken = 0;
  const video = element("video", { autoplay: true, muted: true, playsInline: true, srcObject: stream, onloadeddata: () => { shoot.disabled = false; } });
  const shoot = button("Take a picture", async () => {
    const canvas = element("canvas", { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.9));
    if (!blob) return;
    shoot.textContent = "Take a picture (" + ++taken + ")";
    onPhoto({ file: blob, name: "camera " + new Date().toISOString().slice(0, 19) + ".jpg" });
  }, "main", { disabled: true });
  const dialog = openDialog("Camera", video, element("div", { class: "line" }, shoot));
  dialog.addEventListener("close", () => stream.getTracks().forEach((track) => track.stop()));
}

// Accept dropped photos on an element.
export function acceptDrops(target, onPhotos) {
  target.addEventListener("dragover", (event) => { event.preventDefault(); event.stopPropagation(); target.classList.add("over"); });
  target.addEventListener("dragleave", (event) => { if (!target.contains(event.relatedTarget)) target.classList.remove("over"); });
  target.addEventListener("drop", async (event) => {
    event.preventDefault(); event.stopPropagation();
    const photos = await attempt(() => droppedPhotos(event.dataTransfer));
    if (photos?.length) onPhotos(photos); else toast("No photo was found in what was dropped.", { bad: true });
  });
}

// After a drop nothing is marked any more, wherever it happened.
for (const kind of ["drop", "dragend"]) window.addEventListener(kind, () => { for (const marked of document.querySelectorAll(".over")) marked.classList.remove("over"); }, true);
