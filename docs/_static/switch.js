// A list of versions below the title: the pages of all versions are in versions.js, next to the folders of the versions.
addEventListener("DOMContentLoaded", () => {
  const root = new URL(document.documentElement.dataset.content_root, location.href).href;
  const here = root.replace(/\/$/, "").split("/").pop();
  const page = location.href.slice(root.length).replace(/[?#].*/, "") || "index.html";
  const versions = window.VERSIONS ?? {};
  if (!(here in versions)) return;
  const list = document.createElement("select");
  list.className = "versions";
  list.setAttribute("aria-label", "Version");
  for (const name of Object.keys(versions)) list.add(new Option(name, name, false, name === here));
  list.addEventListener("change", () => {
    const pages = versions[list.value];
    location.href = new URL(`../${list.value}/${pages.includes(page) ? page : "index.html"}`, root).href;
  });
  document.querySelector(".sidebar-brand").after(list);
});
