// One table: its present state, its versions over time, and questions about its past.

import { ask, isOvertaken, ofTable } from "./api.js";
import { changes } from "./changes.js";
import { busy, h, hint, problem, show } from "./dom.js";
import { drills } from "./drills.js";
import { ago, number, plural, time } from "./format.js";
import { history } from "./history.js";
import { moment } from "./moment.js";
import { plot } from "./plot.js";
import { rows } from "./rows.js";
import { change, state } from "./state.js";

const TABS = [["rows", "Rows at a moment"], ["changes", "What changed"], ["history", "A row's history"], ["drills", "Drills"]];

export function tableFacts(facts, quarantined) {
  const behind = facts.behind_ticks ? [plural(facts.behind_records, "record"), plural(facts.behind_ticks, "tick")] : ["up to date", "with bronze"];
  const all = [
    ["Rows", number(facts.rows), `version ${number(facts.version)}`],
    ["Tick", number(facts.tick), "the last one taken in"],
    ["Behind bronze", behind[0], behind[1], facts.behind_ticks ? "warn" : ""],
    ["Last commit", ago(facts.last_commit_ms), time(facts.last_commit_ms)],
    ["Late records", number(facts.late), "kept aside", facts.late ? "warn" : ""],
    ["Without a key", number(facts.null_keys), facts.null_keys && facts.rows === 0 ? "a table needs one: rekey gives one" : "left out", facts.null_keys ? "warn" : ""],
    ["Quarantined", number(quarantined), "in its streams", quarantined ? "warn" : ""],
    ...facts.unmet.map(({ expectation, records }) => [`Expected ${expectation}`, number(records), "did not meet it", "warn"]),
  ];
  return h("dl", { class: "facts" }, all.map(([name, of, more, warn]) => h("div", { class: warn || null }, h("dt", null, name), h("dd", null, of), h("dd", { class: "soft" }, more))));
}

export class TableView {
  // run: null, or { id, start, end } of the DAG run on view, in milliseconds.
  constructor(container, app, name, facts, run) {
    Object.assign(this, { container, app, name, facts, run, versions: [], tab: null, panel: null });
    this.plotAt = h("div", { class: "plot", role: "figure", "aria-label": "Rows after each version" });
    this.moments = h("div", { class: "moments" });
    this.body = h("div", { id: "panel", role: "tabpanel" });
    this.tabs = h("div", { role: "tablist", class: "tabs", onkeydown: (event) => this.keys(event) },
      TABS.map(([id, label]) => h("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "panel", onclick: () => this.open(id) }, label)));
    this.by = h("select", { id: "by", onchange: () => this.draw() }, h("option", { value: "time" }, "by time"), h("option", { value: "version" }, "by version"));
    this.factsAt = h("div");
  }

  async start(quarantined) {
    show(this.container, h("div", { class: "card" },
      h("div", { class: "title" }, h("span", { class: "kind table" }, "table"), h("h2", null, this.name), h("span", { class: "soft" }, "key ", this.facts.key.join(", "))),
      this.factsAt,
      h("div", { class: "title small" }, h("h3", null, "Versions over time"), h("span", { class: "grow" }), h("label", { for: "by", class: "hidden" }, "Axis"), this.by),
      this.plotAt, this.moments, this.tabs, this.body));
    this.update(this.facts, quarantined);
    show(this.plotAt, busy("Reading its log …"));
    await this.read();
  }

  update(facts, quarantined) {
    const grown = facts.version !== this.facts.version;
    this.facts = facts;
    show(this.factsAt, tableFacts(facts, quarantined));
    if (grown) this.read();
  }

  async read() {
    let said;
    try {
      said = await ask(ofTable(this.app, this.name, "versions"), { slot: "versions" });
    } catch (error) {
      if (!isOvertaken(error)) show(this.plotAt, problem(error.message));
      return;
    }
    const follows = this.at === undefined || this.at === this.versions.at(-1)?.version;
    this.all = said.versions;
    // Versions in which no row changed would be slider stops with nothing to see.
    const readable = said.versions.filter((one) => one.version >= said.first_readable);
    this.versions = readable.filter((one, nth) => nth === 0 || !one.quiet);
    this.choose(follows);
    this.draw();
    this.sliders();
    const lost = said.versions.length - readable.length;
    if (said.left_out) this.moments.append(hint(`${plural(said.left_out, "version")} between these ${said.left_out === 1 ? "is" : "are"} not shown; lakehouse past log lists all.`));
    if (said.more) this.moments.append(hint("Older versions are not shown: the log is too long to read in one answer. lakehouse past log lists all."));
    if (lost) this.moments.append(hint(`Versions before ${number(said.first_readable)} can't be read any more: VACUUM took their files.`));
    if (this.panel === null) this.open(state().tab || "rows");
    else if (follows) this.moved();
  }

  // The moments to begin with: those of the address, those around the run, or the newest and the one before it.
  choose(follows) {
    const newest = this.versions.at(-1).version;
    const known = (number) => this.versions.some((one) => one.version === number);
    const [at, from] = ["at", "from"].map((name) => (state()[name] === null ? NaN : Number(state()[name])));
    if (this.at === undefined && (known(at) || known(from))) {
      this.at = known(at) ? at : newest;
      this.from = known(from) ? from : this.before(this.at);
    } else if (this.at === undefined && this.run) {
      const within = this.versions.filter((one) => one.time_ms >= this.run.start && one.time_ms <= this.run.end);
      this.at = within.at(-1)?.version ?? newest;
      this.from = this.before(within[0]?.version ?? this.at);
    } else if (follows) {
      this.at = newest;
      this.from = this.from ?? this.before(newest);
    }
  }

  before(number) {
    return this.versions.filter((one) => one.version < number).at(-1)?.version ?? number;
  }

  draw() {
    this.plot = plot(this.plotAt, this.all, this.by.value, () => ({ at: this.at, from: this.comparing() ? this.from : null }), (one) => this.set({ at: one.version }));
  }

  comparing() {
    return this.tab === "changes";
  }

  sliders() {
    const { versions } = this;
    this.atSlider = moment({ id: "at", label: "Moment", versions, chosen: this.at, onChange: (one) => this.set({ at: one.version }) });
    this.fromSlider = moment({ id: "from", label: "Compared with", versions, chosen: this.from, onChange: (one) => this.set({ from: one.version }) });
    show(this.moments, this.atSlider.element, this.fromSlider.element);
    this.fromSlider.element.hidden = !this.comparing();
  }

  set({ at = this.at, from = this.from }) {
    if (!this.versions.some((one) => one.version === at)) return;
    Object.assign(this, { at, from });
    this.atSlider.set(at);
    this.fromSlider.set(from);
    this.plot.redraw();
    change({ at, from: this.comparing() ? from : null });
    this.moved();
  }

  moved() {
    if (this.comparing()) this.panel.moved(String(this.from), String(this.at));
    else this.panel.moved(this.at);
  }

  open(tab) {
    this.tab = TABS.some(([id]) => id === tab) ? tab : "rows";
    for (const button of this.tabs.children) {
      const chosen = button.id === `tab-${this.tab}`;
      button.setAttribute("aria-selected", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
      if (chosen) this.body.setAttribute("aria-labelledby", button.id);
    }
    this.moments.hidden = this.tab === "drills";
    this.fromSlider.element.hidden = !this.comparing();
    change({ tab: this.tab, from: this.comparing() ? this.from : null });
    this.plot.redraw();
    const view = { app: this.app, table: this.name, at: String(this.at), from: String(this.from), key: state().key, columns: this.facts.key.filter((name) => !/^window_(start|end)$/.test(name)) };
    if (this.tab === "rows") {
      const onMoment = (version) => {
        if (version === this.at || !this.versions.some((one) => one.version === version)) return;
        this.at = version;
        this.atSlider.set(version);
        this.plot.redraw();
        change({ at: version });
      };
      this.panel = rows(this.body, { ...view, onMoment, onKey: (key) => { change({ key }); this.open("history"); } });
    } else if (this.tab === "changes") this.panel = changes(this.body, view);
    else if (this.tab === "history") this.panel = history(this.body, { ...view, onKey: (key) => change({ key }) });
    else this.panel = drills(this.body, view);
  }

  keys(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = TABS.findIndex(([id]) => id === this.tab);
    const [id] = TABS[(at + step + TABS.length) % TABS.length];
    this.open(id);
    document.getElementById(`tab-${id}`).focus();
  }
}
