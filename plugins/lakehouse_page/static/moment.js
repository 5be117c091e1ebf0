// A slider through the versions of a table that can still be read.

import { h } from "./dom.js";
import { ago, decided, time, version } from "./format.js";

// versions: the oldest first. onChange: called with a version, when the slider rests.
export function moment({ id, label, versions, chosen, onChange }) {
  const last = versions.length - 1;
  const input = h("input", { type: "range", id, min: "0", max: String(last), step: "1" });
  const said = h("output", { for: id, class: "said" });
  const older = h("button", { type: "button", class: "step", "aria-label": `${label}: one version earlier`, onclick: () => move(-1) }, "‹");
  const newer = h("button", { type: "button", class: "step", "aria-label": `${label}: one version later`, onclick: () => move(1) }, "›");
  let resting = null;

  function tell() {
    const one = versions[Number(input.value)];
    const by = decided(one);
    const text = [version(one), time(one.time_ms), by].filter(Boolean).join(" · ");
    said.replaceChildren(h("b", null, version(one)), ` ${time(one.time_ms)}`, h("span", { class: "soft" }, ` ${ago(one.time_ms)}`), by ? h("span", { class: "decided" }, ` ${by}`) : "");
    input.setAttribute("aria-valuetext", text);
    older.disabled = Number(input.value) === 0;
    newer.disabled = Number(input.value) === last;
  }
  function rest() {
    clearTimeout(resting);
    resting = setTimeout(() => onChange(versions[Number(input.value)]), 120);
  }
  function move(by) {
    input.value = String(Math.min(last, Math.max(0, Number(input.value) + by)));
    tell();
    rest();
  }
  function set(number) {
    const at = versions.findIndex((one) => one.version === number);
    input.value = String(at < 0 ? last : at);
    tell();
  }
  input.addEventListener("input", () => {
    tell();
    rest();
  });
  set(chosen);
  return { element: h("div", { class: `moment ${id}` }, h("label", { for: id }, label), older, input, newer, said), set };
}
