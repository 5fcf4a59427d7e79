// The slider of a saved page: shows the panels that were computed for each value.
const data = JSON.parse(document.getElementById("data").textContent);
const panels = document.querySelector(".panels");
const slider = document.getElementById("slider");

const label = document.createElement("label");
label.htmlFor = "value";
const range = Object.assign(document.createElement("input"), { type: "range", id: "value", min: 0, max: data.values.length - 1, step: 1, value: data.first });
slider.className = "slider";
slider.append(label, range, write("p", data.explanation, "help"));

panels.classList.toggle("compared", data.compared);
const cards = data.cards.map(({ name, title, help }) => {
  const section = document.createElement("section");
  section.className = `panel ${name}`;
  section.innerHTML = '<h2></h2><p class="help"></p><div class="content"></div><ul class="notes"></ul>';
  section.querySelector("h2").textContent = title;
  section.querySelector(".help").textContent = help;
  panels.append(section);
  return section;
});

function write(tag, text, className = "") {
  return Object.assign(document.createElement(tag), { textContent: text, className });
}

function show() {
  const place = Number(range.value);
  label.textContent = `${data.name} = ${data.values[place]} ${data.unit}`.trim();
  range.setAttribute("aria-valuetext", label.textContent);
  for (const [k, answer] of data.frames[place].entries()) {
    const content = cards[k].querySelector(".content");
    cards[k].querySelector(".notes").replaceChildren(...(answer.notes ?? []).map(note => write("li", note)));
    if (answer.figure) {
      let plot = content.querySelector(".plot");
      if (!plot) {
        plot = Object.assign(document.createElement("div"), { className: "plot" });
        plot.setAttribute("role", "img");
        plot.setAttribute("aria-label", data.cards[k].title);
        content.replaceChildren(plot);
      }
      const { layout } = answer.figure;
      const entries = new Set(answer.figure.data.filter(trace => trace.showlegend !== false).map(trace => trace.name)).size;
      const height = 340 + ("yaxis2" in layout ? 100 : 0) + (content.clientWidth < 450 ? 20 * Math.max(0, entries - 2) : 0); // rows of the legend
      plot.style.height = `${height}px`; // Plotly gives a figure the height of its element if the window is resized
      Object.assign(layout, { height, width: undefined, autosize: true, margin: { l: 56, r: 12, t: layout.margin?.t ?? 16, b: 48 } });
      Plotly.react(plot, answer.figure.data, layout, { displayModeBar: false, responsive: true });
    } else if (answer.svg) {
      content.innerHTML = answer.svg;
    } else if (answer.error) {
      content.replaceChildren(write("p", answer.error, "error"));
    } else {
      const list = document.createElement("dl");
      for (const [term, value] of answer.rows) list.append(write("dt", term), write("dd", value));
      content.replaceChildren(write("p", answer.words, `words ${answer.stable ?? ""}`), list);
    }
  }
}

range.addEventListener("input", show);
show();
