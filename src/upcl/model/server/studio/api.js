// Requests to the service, with the token if there is one, and pictures of photos.
const BUSY = [408, 429, 503]; // the service asks to try again
const listeners = new Set();
const waiting = new Set(); // pictures that appear when the connection is back
let online = true;

export class ConnectionLost extends Error { constructor() { super("the connection is lost"); } }
export class Busy extends Error {}

export const onConnection = (listener) => listeners.add(listener);

function setOnline(value) {
  if (online === value) return;
  online = value;
  for (const listener of listeners) listener(value);
  if (!online) return;
  const pictures = [...waiting];
  waiting.clear();
  for (const load of pictures) load();
}

function enterToken() {
  const entered = (prompt("Access token of this service:") || "").trim();
  if (entered && !/^[\x21-\x7e]+$/.test(entered)) return enterToken();
  if (entered) sessionStorage.setItem("token", entered);
  return entered;
}

// Send a request; a quiet one does not ask for the token.
async function send(path, options = {}, quiet = false) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token ? { Authorization: "Bearer " + token } : {}) };
  let response;
  try { response = await fetch("api/studio" + path, { ...options, headers }); } catch (error) { setOnline(false); throw new ConnectionLost(); }
  setOnline(true);
  if (response.status === 401 && !quiet && enterToken()) return send(path, options);
  if (!response.ok) {
    const { detail } = await response.json().catch(() => ({}));
    const message = Array.isArray(detail) ? detail.map((part) => part.msg).join("; ") : detail || response.statusText;
    throw BUSY.includes(response.status) ? new Busy(message) : new Error(message);
  }
  return response;
}

export const ask = async (path, quiet = false) => (await send(path, {}, quiet)).json();

export const change = async (path, body) => (await send("/" + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

export async function upload(files, name) {
  const form = new FormData();
  for (const { file, name: fileName } of files) form.append("images", file, fileName);
  return (await send("/photos" + (name === null ? "" : "?class=" + encodeURIComponent(name)), { method: "POST", body: form })).json();
}

export async function download(kind, model) {
  const names = { model, onnx: model.replace(/\.upcl$/, "") + ".onnx", answers: "answers.csv", card: "card.md" };
  const url = URL.createObjectURL(await (await send("/download/" + kind)).blob());
  const link = document.createElement("a");
  link.href = url; link.download = names[kind]; link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// Show the picture of a photo in an image, later if the connection is lost; `missing` is called if there is none.
export function showPicture(image, digest, missing) {
  const path = "/picture/" + digest;
  const failed = (error) => { if (error instanceof ConnectionLost) waiting.add(load); else missing(); };
  async function load() {
    if (!sessionStorage.getItem("token")) { image.src = "api/studio" + path; return; }
    try {
      const url = URL.createObjectURL(await (await send(path, {}, true)).blob());
      image.addEventListener("load", () => URL.revokeObjectURL(url), { once: true });
      image.src = url;
    } catch (error) { failed(error); }
  }
  image.addEventListener("error", () => send(path, {}, true).then(missing, failed));
  load();
}
