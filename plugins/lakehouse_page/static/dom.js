// Elements made from data. Text always becomes a text node, so nothing in a lake is taken for markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export const show = (element, ...children) => element.replaceChildren(...children.flat().filter(Boolean));

// A colour of the style sheet for the canvas: the browser resolves variables that depend on the theme.
export function colour(name) {
  const probe = h("span", { class: "hidden" });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export const problem = (text) => h("p", { class: "problem", role: "alert" }, text);
export const hint = (...text) => h("p", { class: "hint" }, ...text);
export const busy = (text) => h("p", { class: "hint busy", role: "status" }, text);
