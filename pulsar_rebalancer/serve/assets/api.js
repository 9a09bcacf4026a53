// Requests to the server, and the stream that announces changes.
import { setClock } from "./format.js";

export class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}
let csrf = "";
export const setCsrf = (value) => { csrf = value; };

export async function get(name, parameters = {}) {
  return answer(await fetch(`/api/v1/${name}?${new URLSearchParams(parameters)}`, { credentials: "same-origin", cache: "no-cache" }));
}
export async function send(method, name, body) {
  const headers = { "X-CSRF-Token": csrf };
  if (body) headers["Content-Type"] = "application/json";
  return answer(await fetch(`/api/v1/${name}`, { method, headers, credentials: "same-origin", body: body ? JSON.stringify(body) : undefined }));
}
async function answer(response) {
  if (response.status === 204) return {};
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, found.error || `The server answered ${response.status}.`);
  return found;
}

// Calls `news` with each message and `lost` when the stream breaks; the browser opens it again.
export function follow(news, lost) {
  const source = new EventSource("/api/v1/events");
  source.onmessage = (event) => {
    const found = JSON.parse(event.data);
    setClock(found.now_ms);
    news(found);
  };
  source.onerror = () => lost(source.readyState === EventSource.CLOSED);
  return source;
}
