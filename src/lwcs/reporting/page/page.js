"use strict";
// The script of the page: draws figures, sorts the table, and shows one cluster alone.
(function () {
  const byId = (id) => document.getElementById(id);
  const settings = JSON.parse(byId("settings").textContent);
  const root = document.documentElement;
  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  const figures = {};
  let chosen = null;
  let alone = null;

  // ---------------------------------------------------------------- light and dark
  const theme = () => chosen || (preferred.matches ? "dark" : "light");

  function paint(plot, colours) {
    for (const axis of [...plot.left, ...plot.below, ...plot.above]) {
      axis.setv({
        axis_label_text_color: colours.text,
        major_label_text_color: colours.text,
        major_tick_line_color: colours.line,
        ...(plot.name === "profiles" ? {} : { axis_line_color: colours.line }),
      });
    }
    for (const grid of plot.center) grid.setv({ grid_line_color: colours.grid });
    for (const renderer of plot.renderers) {
      const glyph = renderer.glyph;
      if (renderer.name === "shown") glyph.fill_color.transform.palette = colours.clusters;
      if (renderer.name === "others") glyph.fill_color = { value: colours.faint };
      if (renderer.name === "bars") glyph.fill_color = { value: colours.bar };
      if (renderer.name === "cells") {
        glyph.fill_color.transform.palette = colours.heat;
        glyph.line_color = { value: colours.grid };
      }
    }
  }

  function repaint(name) {
    const colours = settings.themes[name];
    for (const view of Object.values(figures)) paint(view.model, colours);
  }

  function applyTheme() {
    if (chosen) root.dataset.theme = chosen;
    byId("theme").textContent = theme() === "dark" ? "Light colours" : "Dark colours";
    repaint(theme());
  }

  byId("theme").hidden = false;
  byId("theme").addEventListener("click", () => {
    chosen = theme() === "dark" ? "light" : "dark";
    applyTheme();
  });
  preferred.addEventListener("change", applyTheme);

  // ---------------------------------------------------------------- the table
  const table = byId("table");
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];

  function sortBy(column) {
    const heading = headings[column];
    const rising = heading.getAttribute("aria-sort") === "descending" ||
      (heading.getAttribute("aria-sort") === null && column === 0);
    const sign = rising ? 1 : -1;
    const rows = [...body.rows].map((row) => ({
      row,
      value: Number(row.cells[column].dataset.value),
      number: Number(row.dataset.cluster),
    }));
    rows.sort((a, b) => sign * (a.value - b.value) || a.number - b.number);
    rows.forEach((each, place) => each.row.classList.toggle("later", place >= settings.shown_rows));
    body.append(...rows.map((each) => each.row));
    for (const other of headings) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
  }
  for (const heading of headings) {
    const button = heading.querySelector("button");
    if (button) button.addEventListener("click", () => sortBy(Number(button.dataset.column)));
  }

  const more = byId("more");
  function showEvery(every) {
    table.classList.toggle("every", every);
    if (more) more.hidden = every;
  }
  if (more) more.addEventListener("click", () => showEvery(true));

  const find = byId("find");
  if (find) {
    byId("finding").hidden = false;
    find.addEventListener("input", () => {
      const wanted = find.value.trim().toLowerCase();
      let found = 0;
      for (const row of body.rows) {
        const names = [...row.querySelectorAll(".telling bdi")].map((each) => each.textContent);
        const fits = wanted === "" || row.dataset.cluster === wanted ||
          names.some((name) => name.toLowerCase().includes(wanted));
        row.classList.toggle("missed", !fits);
        found += fits;
      }
      if (wanted !== "") showEvery(true);
      byId("found").textContent = wanted === "" ? "" : `${found} found`;
    });
  }

  // ---------------------------------------------------------------- one cluster alone
  const select = byId("alone");

  function placesOf(cluster) {
    const clusters = figures.map.model.document.get_model_by_name("points").data.cluster;
    const places = [];
    for (let i = 0; i < clusters.length; i++) if (clusters[i] === cluster) places.push(i);
    return places;
  }

  function show(cluster) {
    alone = cluster;
    select.value = cluster === null ? "" : String(cluster);
    byId("all").disabled = byId("fit").disabled = cluster === null;
    for (const row of body.rows) {
      row.classList.toggle("alone", cluster !== null && Number(row.dataset.cluster) === cluster);
    }
    for (const button of document.querySelectorAll("button.cluster")) {
      const own = Number(button.dataset.cluster ?? button.closest("tr").dataset.cluster);
      button.setAttribute("aria-pressed", String(own === cluster));
    }
    if (!figures.map) return;
    const model = roughAtFirst();
    const others = model.renderers.find((each) => each.name === "others");
    const places = cluster === null ? null : placesOf(cluster);
    model.document.get_model_by_name("alone").indices = places;
    others.visible = cluster !== null;
    byId("status").textContent = cluster === null ? "" :
      `${settings.what} ${cluster} alone: ${places.length.toLocaleString("en")} points`;
  }
  const toggle = (cluster) => show(cluster === alone ? null : cluster);

  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row && !window.getSelection().toString()) toggle(Number(row.dataset.cluster));
  });
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => toggle(Number(button.dataset.cluster)));
  }
  select.addEventListener("change", () => show(select.value === "" ? null : Number(select.value)));
  byId("all").addEventListener("click", () => {
    show(null);
    select.focus();
  });

  // ---------------------------------------------------------------- the view of the map
  // Without a graphics processor, Bokeh draws some of the points at once, as while the map is
  // dragged, and all of them shortly after.
  function roughAtFirst() {
    const { model } = figures.map;
    model.document.interactive_start(model);
    return model;
  }

  function look(x, y) {
    const { x_range, y_range } = roughAtFirst();
    x_range.setv({ start: x[0], end: x[1] });
    y_range.setv({ start: y[0], end: y[1] });
  }

  function change(times, right, up) {
    const ends = (range, by) => {
      const half = (times * (range.end - range.start)) / 2;
      const middle = (range.start + range.end) / 2 + by * (range.end - range.start);
      return [middle - half, middle + half];
    };
    const { x_range, y_range } = figures.map.model;
    look(ends(x_range, right), ends(y_range, up));
  }

  function fit() {
    const { x, y } = figures.map.model.document.get_model_by_name("points").data;
    const ends = (values, places) => {
      let low = Infinity, high = -Infinity;
      for (const i of places) {
        low = Math.min(low, values[i]);
        high = Math.max(high, values[i]);
      }
      const room = 0.08 * (high - low) || 0.5 * Math.max(Math.abs(low), 1);
      return [low - room, high + room];
    };
    const places = alone === null ? [] : placesOf(alone);
    if (places.length) look(ends(x, places), ends(y, places));
  }

  const keys = {
    ArrowLeft: [1, -0.1, 0], ArrowRight: [1, 0.1, 0], ArrowUp: [1, 0, 0.1], ArrowDown: [1, 0, -0.1],
    "+": [0.7, 0, 0], "=": [0.7, 0, 0], "-": [1 / 0.7, 0, 0],
  };
  function listen() {
    // Bokeh would draw those few points in grey.
    for (const [, own] of figures.map.renderer_views) {
      if (own.decimated_glyph) own.decimated_glyph = own.glyph;
    }
    byId("in").addEventListener("click", () => change(0.7, 0, 0));
    byId("out").addEventListener("click", () => change(1 / 0.7, 0, 0));
    byId("reset").addEventListener("click", () => look(...settings.view));
    byId("fit").addEventListener("click", fit);
    byId("figure-map").addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "0") look(...settings.view);
      else if (event.key === "Escape" && alone !== null) show(null);
      else if (keys[event.key]) change(...keys[event.key]);
      else return;
      event.preventDefault();
    });
    const source = figures.map.model.document.get_model_by_name("points");
    source.selected.properties.indices.change.connect(() => {
      const [place] = source.selected.indices;
      if (place === undefined) return;
      source.selected.indices = [];
      toggle(source.data.cluster[place]);
    });
  }

  // ---------------------------------------------------------------- printing
  function toPaper() {
    repaint("light");
    for (const [name, view] of Object.entries(figures)) {
      // Printing does not wait for all points, nor for the change of colours.
      view.model.document.interactive_stop();
      for (const [, own] of view.renderer_views ?? []) own.set_visuals?.();
      const paper = byId(`figure-${name}`).querySelector(".paper") || document.createElement("canvas");
      const { canvas } = view.export("auto", true);
      paper.className = "paper";
      paper.setAttribute("aria-hidden", "true");
      paper.width = canvas.width;
      paper.height = canvas.height;
      paper.style.width = `${view.bbox.width}px`;
      paper.getContext("2d").drawImage(canvas, 0, 0);
      byId(`figure-${name}`).append(paper);
    }
  }
  window.addEventListener("beforeprint", toPaper);
  window.addEventListener("afterprint", () => repaint(theme()));

  // ---------------------------------------------------------------- figures
  // Tooltips are in the shadow DOM of figures, which only variables of the style sheet reach.
  const tooltips = `
    :host { background: var(--page); color: var(--text); border: 1px solid var(--strong);
      border-radius: 6px; padding: 0.5rem 0.625rem; opacity: 1; max-width: 24rem;
      font: 0.8125rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif;
      font-variant-numeric: tabular-nums; }
    .bk-arrow { display: none; }
    .bk-tooltip-row-label { color: var(--muted); text-align: left; padding-right: 0.75rem;
      overflow-wrap: anywhere; unicode-bidi: plaintext; }`;

  function styleTooltips(view) {
    for (const [, tool] of view.tool_views ?? []) {
      for (const [, tooltip] of tool.ttmodels ?? []) tooltip.stylesheets = [tooltips];
    }
  }

  // Without a graphics processor, a browser emulates one, which is slower than drawing on a canvas.
  function hasGraphics() {
    const asked = { failIfMajorPerformanceCaveat: true };
    const gl = document.createElement("canvas").getContext("webgl", asked);
    const known = gl?.getExtension("WEBGL_debug_renderer_info");
    const name = gl?.getParameter(known ? known.UNMASKED_RENDERER_WEBGL : gl.RENDERER) ?? "";
    gl?.getExtension("WEBGL_lose_context")?.loseContext();
    return gl !== null && !/swiftshader|llvmpipe|software|basic render/i.test(name);
  }

  async function draw(name) {
    const item = JSON.parse(byId(`data-${name}`).textContent);
    const { attributes } = item.doc.roots[0];
    if (attributes.output_backend === "webgl" && !hasGraphics()) {
      attributes.output_backend = "canvas";
    }
    const views = await Bokeh.embed.embed_item(item, `figure-${name}`);
    figures[name] = [...views.roots][0];
    paint(figures[name].model, settings.themes[theme()]);
    styleTooltips(figures[name]);
    if (name === "map") listen();
  }
  applyTheme();
  Promise.all(["map", "profiles", "sizes", "distances"].map(draw)).then(() => {
    root.dataset.ready = "true";
  });
})();
