// Requests to the server. An answer that a newer request has overtaken is dropped.

const waiting = new Map();

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export const isOvertaken = (error) => error.name === "AbortError";

// slot: only the newest request of a slot is answered.
export async function ask(path, { query, body, slot } = {}) {
  waiting.get(slot)?.abort();
  const control = new AbortController();
  if (slot) waiting.set(slot, control);
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query || {})) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  const options = { signal: control.signal, headers: { Accept: "application/json" }, credentials: "same-origin" };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  if (body) options.headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(url, options);
  } catch (error) {
    if (isOvertaken(error)) throw error;
    throw new Refused("Airflow's api-server does not answer. Is it still running?", 0);
  }
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  if (answer.status === 401) throw new Refused("You are signed out of Airflow. Sign in there, then refresh.", 401);
  throw new Refused(said.error || said.detail || `the server answered ${answer.status}`, answer.status);
}

const part = encodeURIComponent;
export const ofApplication = (name, rest = "") => `api/applications/${part(name)}${rest}`;
export const ofTable = (name, table, rest) => ofApplication(name, `/tables/${part(table)}/${rest}`);
