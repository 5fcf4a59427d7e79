// The controls and panels of `ecc explore`, for the page (page.js) and for notebooks (anywidget).
// A transport has `ask(request, signal)`, which returns a promise of the answer, `loadPlotly()`, and `restart`, the advice
// if no answer arrives.

const MAX_SEARCHES = 2; // requests of searches at a time: browsers allow six connections
const PATIENCE = 500; // ms after which a request is replaced by that of a newer view
const STEPS = 1000; // positions of a logarithmic slider
const FIRST_PANELS = ["verdict", "limit", "nyquist", "rates", "queue"];
const CONFIG = { displayModeBar: false };

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && name !== "list" && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const breakable = name => name.split(/(?<=[._])/).flatMap(part => [part, element("wbr")]); // between the words of a name
const text = value => (value < 1e7 ? String(Number(value.toPrecision(4))) : value.toExponential().replace(/(\.\d{3})\d+/, "$1"));
const position = (value, low, high) => Math.round((STEPS * Math.log(value / low)) / Math.log(high / low));
const valueAt = (place, low, high) => Number((low * (high / low) ** (place / STEPS)).toPrecision(4));

export async function mount(root, transport) {
  const state = { sides: [], panels: new Set(FIRST_PANELS), axes: [], moved: "", preset: "", held: false, changed: () => {} };
  const page = Math.random().toString(36).slice(2);
  const slots = new Map();
  const waiting = [];
  let number = 0, searches = 0, choices = null, serial = 0;

  root.classList.add("ecc-explore");
  const controls = element("form", { class: "controls", "aria-label": "Controls", onsubmit: event => event.preventDefault() });
  const status = element("p", { class: "status", role: "status" });
  const main = element("div", { class: "panels", role: "region", "aria-label": "Panels" });
  const code = element("dialog", { class: "code", "aria-label": "Python code of this view" });
  const bar = element("div", { class: "bar" });
  root.replaceChildren(bar, element("div", { class: "body" }, controls, element("div", { class: "results" }, status, main)), code);
  main.append(element("p", {}, "Loading …"));

  const say = message => { status.textContent = message; };
  async function ask(request, signal) {
    try {
      const answer = await transport.ask(request, signal);
      if (status.dataset.ended) { delete status.dataset.ended; say(""); }
      return answer;
    } catch (error) {
      if (error.name === "AbortError") return { cancelled: true };
      status.dataset.ended = "true";
      say(`No answer from Python. ${transport.restart}`);
      return { error: "no answer from Python" };
    }
  }

  // ---- requests: one at a time for each panel; a newer view replaces work that takes long ----
  // Searches, which may take seconds, are requested last: Python computes them after all other panels.

  const isSearch = name => choices.work[name] === "search";

  function refresh(fresh = true) {
    const order = new Set(["nyquist", ...Object.keys(choices.panelTitles)]); // it is drawn while others are computed
    const names = [...order].filter(name => state.panels.has(name));
    for (const name of [...names.filter(each => !isSearch(each)), ...names.filter(isSearch)])
      for (const side of state.sides.keys()) request(name, side);
    if (fresh) state.changed({ views: state.sides.map(part => part.view), panels: [...state.panels] });
  }

  function request(name, side) {
    const key = `${name} ${side}`;
    const slot = slots.get(key) ?? { running: null, pending: false, figure: null };
    slots.set(key, slot);
    if (slot.running && !(transport.cancels && performance.now() - slot.since > PATIENCE)) {
      slot.pending = true;
      return;
    }
    if (slot.running) { slot.running.abort(); release(name, slot); }
    if (isSearch(name) && searches >= MAX_SEARCHES) {
      if (!waiting.includes(key)) waiting.push(key);
      return;
    }
    run(name, side, slot);
  }

  function release(name, slot) {
    slot.running = null;
    if (isSearch(name)) searches -= 1;
  }

  async function run(name, side, slot, coarse = name === "map") {
    const control = new AbortController();
    Object.assign(slot, { running: control, since: performance.now(), pending: false });
    if (isSearch(name)) searches += 1;
    const sent = { ask: "panel", panel: name, view: state.sides[side].view, page, side, number: ++number };
    if (name === "map") Object.assign(sent, { coarse }, state.axes.length === 2 ? { axes: state.axes } : {});
    card(name, side)?.setAttribute("aria-busy", "true");
    const answer = await ask(sent, control.signal);
    if (slot.running !== control) return; // a newer request has replaced this one
    if (side < state.sides.length && !answer.cancelled) await draw(name, side, answer, slot);
    if (slot.running !== control) return;
    if (!answer.cancelled) card(name, side)?.removeAttribute("aria-busy"); // drawn
    release(name, slot);
    const isShown = side < state.sides.length && state.panels.has(name);
    if (slot.pending && isShown) request(name, side);
    else if (answer.coarse && isShown) run(name, side, slot, false);
    const keys = waiting.splice(0);
    for (const key of keys) {
      const [next, at] = key.split(" ");
      if (state.panels.has(next) && Number(at) < state.sides.length) request(next, Number(at));
    }
  }

  // ---- panels ----

  const card = (name, side) => main.querySelector(`[data-panel="${name}"][data-side="${side}"]`);

  function buildPanels() {
    const cards = [];
    for (const [name, title] of Object.entries(choices.panelTitles))
      if (state.panels.has(name))
        for (const [side, part] of state.sides.entries()) {
          const present = card(name, side);
          const heading = state.sides.length > 1 ? `${title}: ${label(part.view)}` : title;
          if (present) { present.querySelector("h2").textContent = heading; cards.push(present); continue; }
          const box = element("section", { class: `panel ${name}`, "data-panel": name, "data-side": String(side) },
            element("h2", {}, heading), element("p", { class: "help" }, choices.panelHelp[name]), element("div", { class: "content" }), element("ul", { class: "notes" }));
          if (name === "map") box.insertBefore(element("p", { class: "axes" }), box.querySelector(".content"));
          slots.delete(`${name} ${side}`);
          cards.push(box);
        }
    main.replaceChildren(...cards);
    main.classList.toggle("compared", state.sides.length > 1);
  }

  const label = view => [view.protocol, view.second].filter(Boolean).join(" and ") + (view.discipline ? ` over ${view.discipline}` : "");

  async function draw(name, side, answer, slot) {
    const box = card(name, side);
    if (!box) return;
    const content = box.querySelector(".content");
    box.classList.toggle("refused", Boolean(answer.error));
    box.querySelector(".notes").replaceChildren(...(answer.notes ?? []).map(note => element("li", {}, note)));
    if (answer.error) { clear(content); content.replaceChildren(element("p", { class: "error" }, answer.error)); slot.figure = null; }
    else if (answer.words) drawWords(content, answer);
    else if (answer.svg) drawDiagram(content, answer.svg);
    else {
      slot.figure = answer.figure;
      await drawFigure(content, answer.figure, box.querySelector("h2").textContent);
      if (name === "map") drawAxes(box, side, answer.axes);
    }
    root.dispatchEvent(new CustomEvent("ecc-drawn", { detail: { name, side, at: performance.now() } }));
  }

  function clear(content) {
    if (content.querySelector(".plot")) Plotly.purge(content.querySelector(".plot"));
    content.replaceChildren();
  }

  function drawWords(content, answer) {
    const rows = (answer.rows ?? []).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
    content.replaceChildren(
      element("p", { class: `words ${answer.stable ?? ""}`, "aria-live": "polite" }, answer.words), element("dl", {}, ...rows));
  }

  function drawDiagram(content, svg) {
    const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    content.replaceChildren(document.importNode(parsed, true));
  }

  async function drawFigure(content, json, title) {
    await transport.loadPlotly();
    let plot = content.querySelector(".plot");
    if (!plot) {
      plot = element("div", { class: "plot", role: "img" });
      content.replaceChildren(plot);
      let width = plot.clientWidth; // changes with the window, and if the number of panels changes
      new ResizeObserver(() => {
        if (!plot._fullLayout || !plot.clientWidth || plot.clientWidth === width) return;
        width = plot.clientWidth;
        Plotly.Plots.resize(plot);
      }).observe(plot);
    }
    const figure = JSON.parse(json);
    const entries = new Set(figure.data.filter(trace => trace.showlegend !== false).map(trace => trace.name)).size;
    const rows = content.clientWidth < 450 ? Math.max(0, entries - 2) : 0; // of the legend, in addition to the first one
    Object.assign(figure.layout, { height: 340 + ("yaxis2" in figure.layout ? 100 : 0) + 20 * rows, width: undefined, autosize: true });
    figure.layout.margin = { l: 56, r: 12, t: 16, b: 48, ...(figure.layout.margin?.t ? { t: figure.layout.margin.t } : {}) };
    plot.style.height = `${figure.layout.height}px`; // Plotly gives a figure the height of its element if it is resized
    if (state.held && plot._fullLayout)
      for (const key of Object.keys(plot._fullLayout))
        if (/^[xy]axis\d*$/.test(key))
          figure.layout[key] = { ...figure.layout[key], range: [...plot._fullLayout[key].range], autorange: false };
    plot.setAttribute("aria-label", `${title}: ${[...new Set(figure.data.map(trace => trace.name))].filter(Boolean).join(", ")}`);
    await Plotly.react(plot, figure.data, figure.layout, CONFIG);
  }

  function drawAxes(box, side, axes) {
    const place = box.querySelector(".axes");
    if (place.contains(document.activeElement)) return;
    const names = state.sides[side].sliders.map(slider => slider.name);
    place.replaceChildren(...[0, 1].map(k => choose(["Horizontal axis", "Vertical axis"][k], names, axes[k], value => {
      const other = [...axes];
      other[k] = value;
      if (other[0] === other[1]) other[1 - k] = axes[k];
      state.axes = other;
      request("map", side);
    })));
  }

  // ---- controls ----

  function choose(title, options, value, act) {
    const id = `ecc-${page}-${++serial}`;
    const select = element("select", { id, onchange: () => act(select.value) },
      ...options.map(option => element("option", { value: Array.isArray(option) ? option[0] : option }, Array.isArray(option) ? option[1] : option)));
    select.value = value;
    return element("span", { class: "field" }, element("label", { for: id }, title), select);
  }

  function slide(title, value, low, high, act, unit = "", step = null, explanation = "") {
    const id = `ecc-${page}-${++serial}`;
    const range = element("input", { type: "range", id, min: "0", max: String(STEPS), step: "1" });
    const box = element("input", { type: "number", step: "any", "aria-label": `${title}${unit && ` in ${unit}`}, exact value` });
    const show = () => { range.value = position(Math.min(Math.max(value, low), high), low, high); box.value = text(value); range.setAttribute("aria-valuetext", `${text(value)} ${unit}`); };
    const set = next => { value = step ? Math.round(next / step) * step : next; act(value); };
    range.addEventListener("input", () => {
      state.held = true;
      set(valueAt(Number(range.value), low, high));
      box.value = text(value);
      range.setAttribute("aria-valuetext", `${text(value)} ${unit}`);
    });
    range.addEventListener("change", () => { state.held = false; settle(); });
    box.addEventListener("change", () => { if (Number(box.value) > 0) { set(Number(box.value)); show(); } else box.value = text(value); });
    show();
    const parts = [element("label", { for: id }, ...breakable(title)), range, element("span", { class: "number" }, box, element("span", { class: "unit" }, unit))];
    if (explanation) {
      range.setAttribute("aria-describedby", `${id}-help`);
      parts.push(element("p", { class: "help", id: `${id}-help`, title: explanation }, explanation));
    }
    return element("div", { class: "slider" }, ...parts);
  }

  function settle() { // figures get their own axes again once a slider is released
    for (const [key, slot] of slots)
      if (slot.figure && !slot.running) {
        const [name, side] = key.split(" ");
        const content = card(name, side)?.querySelector(".content");
        if (content) drawFigure(content, slot.figure, card(name, side).querySelector("h2").textContent);
      }
    refresh();
  }

  function change(side, values, everywhere = false) {
    for (const [k, part] of state.sides.entries())
      if (everywhere || k === side) part.view = { ...part.view, ...values };
    refresh();
  }

  function setParameter(side, name, value) {
    state.moved = name;
    for (const [k, part] of state.sides.entries()) {
      const slider = part.sliders.find(one => one.name === name);
      if (!slider || (k !== side && !state.linked)) continue;
      slider.value = value;
      part.view = { ...part.view, parameters: { ...part.view.parameters, [name]: value } };
    }
    refresh();
  }

  function group(title, open, ...children) {
    return element("details", { open, class: "group" }, element("summary", {}, title), ...children);
  }

  function buildControls() {
    const [first] = state.sides;
    const view = first.view;
    const focused = document.activeElement?.id && controls.contains(document.activeElement);
    const parts = [];
    const wide = root.clientWidth >= 640; // on a phone panels would be far below open groups
    if (!choices.fixed) {
      for (const [side, part] of state.sides.entries()) {
        const suffix = state.sides.length > 1 ? ` ${"AB"[side]}` : "";
        parts.push(group(`Protocols${suffix}`, wide,
          choose("Protocol", choices.protocols, part.view.protocol, protocol => reset(side, { protocol })),
          choose("Every second flow", [["", "the same protocol"], ...choices.protocols], part.view.second, second => reset(side, { protocol: part.view.protocol, second })),
          choose("Queue discipline", [["", "that of the protocol, or drop-tail"], ...choices.disciplines], part.view.discipline, discipline => reset(side, { protocol: part.view.protocol, second: part.view.second, discipline })),
          choose("Linear model", part.times.map(time => [time, `${time} time`]), part.view.time || part.times[0], time => change(side, { time })),
          ...(part.canMark ? [check("ECN: mark instead of drop", part.view.marks, marks => change(side, { marks }))] : [])));
      }
      parts.push(group("Network", wide, ...networkControls(view)));
    }
    for (const [side, part] of state.sides.entries()) {
      const suffix = state.sides.length > 1 ? ` ${"AB"[side]}: ${label(part.view)}` : "";
      const row = slider => slide(slider.name, slider.value, slider.min, slider.max, value => setParameter(side, slider.name, value), slider.unit, null, slider.explanation);
      const mains = part.sliders.filter(slider => slider.main);
      if (mains.length) parts.push(group(`Parameters${suffix}`, true, ...mains.map(row)));
      const others = part.sliders.filter(slider => !slider.main);
      if (others.length) parts.push(group(`Starts and loss recovery${suffix}`, false, ...others.map(row)));
    }
    if (state.sides.length > 1)
      parts.push(check("Linked: sliders of one name move together", state.linked, linked => { state.linked = linked; }));
    parts.push(group("Panels", wide, ...Object.entries(choices.panelTitles).map(([name, title]) => check(title, state.panels.has(name), shown => {
      if (shown) state.panels.add(name); else state.panels.delete(name);
      buildPanels();
      if (shown) for (const side of state.sides.keys()) request(name, side);
      state.changed({ views: state.sides.map(part => part.view), panels: [...state.panels] });
    }))));
    controls.replaceChildren(...parts);
    if (focused) controls.querySelector("select")?.focus();
  }

  function networkControls(view) {
    const rows = [
      slide("Link rate", view.capacity / 1e6, 0.1, 1e5, value => change(0, { capacity: value * 1e6 }, true), "Mb/s"),
      ...view.rtts.map((rtt, k) => slide(view.rtts.length > 1 ? `RTT ${k + 1}` : "RTT", rtt * 1e3, 0.01, 1e3, value => {
        const rtts = [...state.sides[0].view.rtts];
        rtts[k] = value / 1e3;
        change(0, { rtts }, true);
      }, "ms")),
      element("p", { class: "buttons" },
        element("button", { type: "button", disabled: view.rtts.length >= choices.maxRtts, onclick: () => setRtts([...state.sides[0].view.rtts, state.sides[0].view.rtts.at(-1)]) }, "Add an RTT"),
        element("button", { type: "button", disabled: view.rtts.length < 2, onclick: () => setRtts(state.sides[0].view.rtts.slice(0, -1)) }, "Remove the last RTT")),
      slide("Flows", view.flows, 1, choices.maxFlows, flows => change(0, { flows }, true), "", 1),
      slide("Duration", view.duration, 1, 2000, duration => change(0, { duration }, true), "RTTs"),
      check("Buffer without a limit", view.buffer === null, unlimited => {
        const current = state.sides[0].view;
        const product = Math.max(2 * current.packet_size, Math.round((current.capacity * Math.max(...current.rtts)) / 8));
        change(0, { buffer: unlimited ? null : product }, true);
        buildControls();
      }),
    ];
    if (view.buffer !== null)
      rows.push(slide("Buffer", view.buffer / 1e3, 0.1, 1e6, value => change(0, { buffer: Math.round(value * 1e3) }, true), "kB"));
    rows.push(slide("Packet size", view.packet_size, 40, 9000, packet_size => change(0, { packet_size }, true), "bytes", 1));
    return rows;
  }

  function setRtts(rtts) {
    change(0, { rtts }, true);
    buildControls();
  }

  function check(title, checked, act) {
    const box = element("input", { type: "checkbox", checked });
    box.addEventListener("change", () => act(box.checked));
    return element("label", { class: "check" }, box, title);
  }

  function buildBar() {
    bar.replaceChildren(
      element("h1", {}, "ecc explore"),
      ...(choices.fixed ? [] : [
        choose("Preset", [["", "choose …"], ...choices.presets], state.preset, name => name && load({ preset: name })),
        element("button", { type: "button", "aria-pressed": String(state.sides.length > 1), onclick: compare }, "Compare")]),
      element("button", { type: "button", onclick: showCode }, "Copy as code"),
      element("button", { type: "button", onclick: save }, "Save as page"));
  }

  function rebuild() {
    state.axes = [];
    for (const slot of slots.values()) if (slot.running) slot.running.abort();
    buildBar();
    buildControls();
    buildPanels();
    refresh();
  }

  async function load(request) {
    const { panels: shown, ...asked } = request;
    const answer = await ask({ ask: "choices", ...asked });
    if (answer.error && !choices && asked.views) return load({}); // an address with a state that is refused
    if (answer.error) { say(answer.error); return; }
    say("");
    choices = answer;
    state.sides = answer.views;
    state.preset = request.preset ?? "";
    const panels = answer.panels ?? shown?.filter?.(name => name in choices.panelTitles);
    if (panels) state.panels = new Set(panels);
    state.linked ??= true;
    rebuild();
  }

  async function reset(side, request) { // another protocol: on its reference network, or on that of the other side
    const answer = await ask({ ask: "choices", ...request });
    if (answer.error) { say(answer.error); return; }
    say("");
    let [part] = answer.views;
    if (state.sides.length > 1 || request.discipline !== undefined || request.second !== undefined) part = await onNetwork(part, state.sides[side].view);
    if (!part) return;
    state.sides[side] = part;
    state.preset = "";
    rebuild();
  }

  async function onNetwork(part, view) {
    const { capacity, rtts, flows, buffer, packet_size, duration } = view;
    const answer = await ask({ ask: "choices", views: [{ ...part.view, capacity, rtts, flows, buffer, packet_size, duration }] });
    if (answer.error) say(answer.error);
    return answer.views?.[0];
  }

  function compare() {
    if (state.sides.length > 1) state.sides.length = 1;
    else state.sides.push(structuredClone(state.sides[0]));
    rebuild();
    bar.querySelector('[aria-pressed]').focus();
  }

  async function showCode() {
    const answers = await Promise.all(state.sides.map(part => ask({ ask: "code", view: part.view })));
    const lines = answers.map((answer, k) => (answers.length > 1 ? `# ${"AB"[k]}: ${label(state.sides[k].view)}\n` : "") + (answer.code ?? `# ${answer.error}`)).join("\n\n");
    let copied = true;
    try { await navigator.clipboard.writeText(lines); } catch { copied = false; }
    code.replaceChildren(element("h2", {}, copied ? "Copied to the clipboard" : "Python code of this view"), element("pre", { tabindex: "0" }, lines),
      element("button", { type: "button", onclick: () => code.close() }, "Close"));
    code.showModal();
  }

  async function save() {
    const [part] = state.sides;
    const isMoved = state.sides.some(each => each.sliders.some(slider => slider.name === state.moved));
    const parameter = isMoved ? state.moved : part.parameter;
    say(`Computing a page with a slider of ${parameter || "no parameter"} …`);
    const answer = await ask({ ask: "page", views: state.sides.map(each => each.view), panels: [...state.panels], parameter });
    if (!answer.page) { say(answer.error); return; }
    const link = element("a", { href: URL.createObjectURL(new Blob([answer.page], { type: "text/html" })), download: `${state.sides.map(each => each.view.protocol).join("_")}.html` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    say(`Saved ${link.download}, with a slider of ${parameter}.`);
  }

  await load(transport.first?.() ?? {});
  return {
    show: async views => {
      const answer = await ask({ ask: "choices", views });
      if (answer.error) { say(answer.error); return; }
      state.sides = answer.views;
      state.preset = "";
      rebuild();
    },
    onChange: act => { state.changed = act; },
    state,
  };
}

// ---- notebooks ----

async function render({ model, el }) {
  const asked = new Map();
  let serial = 0;
  model.on("msg:custom", message => {
    asked.get(message.id)?.(message.answer);
    asked.delete(message.id);
  });
  const send = request => new Promise(resolve => {
    asked.set(++serial, resolve);
    model.send({ id: serial, request });
  });
  let plotly = null;
  const transport = {
    cancels: false,
    restart: "Start the kernel again, and run the cell of this widget.",
    ask: send,
    first: () => ({ views: model.get("state") }),
    loadPlotly: () => plotly ??= globalThis.Plotly ? Promise.resolve() : send({ ask: "plotly" }).then(({ script }) => {
      const node = document.createElement("script");
      node.textContent = `(function (define, module, exports) { ${script}\n}).call(globalThis);`;
      document.head.append(node);
    }),
  };
  const root = document.createElement("div");
  el.append(root);
  const view = await mount(root, transport);
  let mine = "";
  view.onChange(({ views }) => {
    mine = JSON.stringify(views);
    model.set("state", views);
    model.save_changes();
  });
  model.on("change:state", () => { if (JSON.stringify(model.get("state")) !== mine) view.show(model.get("state")); });
}

export default { render };
