// The page of `ecc explore`: requests go to the server that sent it.
import { mount } from "./explore.js";

const transport = {
  cancels: true,
  restart: "Start `ecc explore` again: its new address, followed by the part of this address from # on, restores this view.",
  ask: async (request, signal) => {
    const answer = await fetch("ask", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request), signal });
    return answer.json();
  },
  loadPlotly: () => Promise.resolve(), // a script of the page
  first: () => {
    try {
      const { views, panels } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      return views ? { views, panels } : {};
    } catch {
      return {};
    }
  },
};

const explorer = await mount(document.getElementById("explorer"), transport);
explorer.onChange(state => history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(state))}`));
