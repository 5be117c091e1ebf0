// The state of the page, kept in the address, so that it can be sent to somebody, and reloaded.

const NAMES = ["app", "table", "node", "tab", "at", "from", "key", "dag", "run"];
const listeners = [];

export function state() {
  const said = new URLSearchParams(location.search);
  return Object.fromEntries(NAMES.map((name) => [name, said.get(name)]));
}

export function change(patch) {
  const said = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null || value === undefined || value === "") said.delete(name);
    else said.set(name, value);
  }
  const search = said.toString();
  history.replaceState(null, "", search ? `?${search}` : location.pathname);
  for (const listener of listeners) listener(patch);
}

export const onChange = (listener) => listeners.push(listener);
