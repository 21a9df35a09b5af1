"use strict";
// Draws the pictures of a report with Plotly. Each kind of picture is a function that turns its data,
// the choices of the reader and the theme into traces and a layout.
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const DASHES = ["solid", "dash", "dashdot", "dot"];
  const CLASSES = ["#332288", "#88CCEE", "#44AA99", "#117733", "#999933",
    "#DDCC77", "#CC6677", "#882255", "#AA4499", "#BBBBBB"];  // Paul Tol's muted scheme
  const SYMBOLS = ["circle", "diamond", "square", "triangle-up", "cross", "x"];
  const AXES = { round: "Rounds", bytes: "Bytes sent", seconds: "Seconds" };
  const PAPER = { width: 620, height: 320 };  // of a picture in print: A4 and Letter have room for two
  const MANY = 60;  // more bars than this cannot be told apart
  const coarse = matchMedia("(pointer: coarse)").matches;

  // ---- theme

  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (systemDark.matches ? "dark" : "light")) === "dark";
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  // On a dark ground the light colours of the same palette come first, and white is its black.
  const AT_NIGHT = [5, 4, 2, 3, 1, 0, 6, 7];
  const colour = (i) => {
    const slot = i % page.colours.length, chosen = page.colours[isDark() ? AT_NIGHT[slot] : slot];
    return isDark() && chosen === "#000000" ? "#FFFFFF" : chosen;
  };
  const faint = (hex) => `${hex}26`;

  // ---- kinds of pictures

  // Plotly reads a little HTML in names; a name is text.
  const safe = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const short = (value) => (value === null ? "?" : String(Number(value.toPrecision(4))));
  const strokes = (i) => ({ color: colour(i), dash: DASHES[i % DASHES.length], width: 2.25 });

  function curves(data, choice) {
    const metric = data.metrics.find((m) => m.name === choice.metric);
    const traces = [];
    data.series.forEach((series, i) => {
      const x = series.x[choice.axis], y = series.y[metric.name];
      const edge = { x, mode: "lines", line: { width: 0 }, legendgroup: i, showlegend: false, hoverinfo: "skip" };
      if (y.low) {
        traces.push({ ...edge, y: y.low });
        traces.push({ ...edge, y: y.high, fill: "tonexty", fillcolor: faint(colour(i)) });
      }
      const custom = y.mean.map((_, k) => (y.low ? `  (${short(y.low[k])} – ${short(y.high[k])})` : ""));
      traces.push({
        x, y: y.mean, name: safe(series.name), mode: x.length > 1 ? "lines" : "markers", line: strokes(i),
        marker: { color: colour(i) }, legendgroup: i, customdata: custom,
        hovertemplate: "%{y:.4g}%{customdata}",
      });
    });
    return [traces, {
      hovermode: "x unified",
      xaxis: { title: AXES[choice.axis], exponentformat: "SI", ...(choice.axis === "bytes" && { ticksuffix: "B" }) },
      yaxis: {
        title: safe(metric.label), exponentformat: "power", type: choice.scale === "log" ? "log" : "linear",
        ...(choice.scale === "close" && { range: late(data.series.map((s) => s.y[metric.name])) }),
      },
    }];
  }
  // The range of the values after the first tenth of the evaluations, where methods part.
  function late(series) {
    const values = series.flatMap((y) => [y.low ?? y.mean, y.high ?? y.mean].flatMap((v) => v.slice(Math.ceil(v.length / 10))))
      .filter((v) => v !== null);
    const low = Math.min(...values), high = Math.max(...values), space = 0.05 * (high - low) || 1e-9;
    return [low - space, high + space];
  }
  curves.choices = (data) => [
    { name: "metric", label: "Metric", options: data.metrics.map((m) => [m.name, m.label]), many: true },
    { name: "axis", label: "Horizontal axis", options: Object.entries(AXES) },
    { name: "scale", label: "Vertical scale", options: [["linear", "Linear"], ["close", "Close-up"], ["log", "Log"]], start: data.metrics[0].log ? "log" : "linear" },
  ];

  // How far up each mark of a row stands, so that those with nearly the same value are all seen.
  function apart(values, near) {
    const up = values.map(() => 0);
    const sorted = values.map((v, i) => [v, i]).filter(([v]) => v !== null).sort(([a], [b]) => a - b);
    for (let from = 0, to = 1; from < sorted.length; from = to++) {
      while (to < sorted.length && sorted[to][0] - sorted[to - 1][0] <= near) to++;
      const step = Math.min(0.26, 0.75 / (to - from));
      const group = sorted.slice(from, to).map(([, i]) => i).sort((a, b) => b - a);
      group.forEach((i, k) => { up[i] = step * (k - (group.length - 1) / 2); });
    }
    return up;
  }

  // A row for each client, the methods as marks on it.
  function eachClient(data, metric) {
    const values = data.series.map((series) => series.y[metric.name]);
    const mean = (k) => values.reduce((sum, y) => sum + (y[k] ?? 0), 0);
    const order = data.clients.map((_, k) => k).sort((a, b) => mean(a) - mean(b));
    const spans = order.map((k) => values.map((y) => y[k]).filter((v) => v !== null));
    const lines = {
      x: spans.flatMap((span) => span.length ? [Math.min(...span), Math.max(...span), null] : [null, null, null]),
      y: order.flatMap((_, row) => [row, row, null]),
      mode: "lines", line: { color: css("--line"), width: 3 }, hoverinfo: "skip", showlegend: false,
    };
    const all = values.flat().filter((v) => v !== null), near = 0.012 * (Math.max(...all) - Math.min(...all));
    const heights = order.map((k) => apart(values.map((y) => y[k]), near));
    const marks = data.series.map((series, i) => ({
      x: order.map((k) => values[i][k]), y: order.map((_, row) => row + heights[row][i]), name: safe(series.name),
      mode: "markers", marker: { color: colour(i), symbol: SYMBOLS[i % SYMBOLS.length], size: 11, opacity: 0.9 },
      text: order.map((k) => safe(data.clients[k])), hovertemplate: "%{text}<br>%{x:.4g}<extra>%{fullData.name}</extra>",
    }));
    const name = (text) => safe(text.length > 20 ? `${text.slice(0, 19)}…` : text);
    return [[lines, ...marks], {
      height: 110 + 28 * order.length, hovermode: "closest", xaxis: { title: safe(metric.label) },
      yaxis: { tickvals: order.map((_, row) => row), ticktext: order.map((k) => name(data.clients[k])), zeroline: false, showgrid: false },
    }];
  }

  function clients(data, choice) {
    const metric = data.metrics.find((m) => m.name === choice.metric);
    if (choice.view === "each") return eachClient(data, metric);
    const crowd = data.clients.length > 300;
    const traces = data.series.map((series, i) => ({
      type: crowd ? "violin" : "box", name: safe(series.name), x: series.y[metric.name],
      y0: safe(series.name), orientation: "h", text: data.clients.map(safe), showlegend: false,
      line: { color: colour(i), width: 1.25 }, whiskerwidth: 0, fillcolor: faint(colour(i)),
      marker: { color: colour(i), size: data.clients.length > 80 ? 4 : 7, opacity: 0.75 },
      ...(crowd ? { points: false, spanmode: "hard", meanline: { visible: true } }
        : { boxpoints: "all", jitter: 0.6, pointpos: 0, hoveron: "points" }),
      hovertemplate: "%{text}<br>%{x:.4g}<extra>%{y}</extra>",
    }));
    return [traces, {
      height: 130 + 62 * data.series.length, hovermode: "closest",
      xaxis: { title: safe(metric.label) },
      yaxis: { autorange: "reversed", showgrid: false, type: "category" },
    }];
  }
  clients.choices = (data) => [
    { name: "metric", label: "Metric", options: data.metrics.map((m) => [m.name, m.label]), many: true },
    {
      name: "view", label: "View", start: data.clients.length <= 20 ? "each" : "spread",
      options: [...(data.clients.length <= MANY ? [["each", "Each client"]] : []), ["spread", "Distribution"]],
    },
  ];

  function holdings(data) {
    const one = data.layers.length === 1, title = data.unit === "rows" ? "Training rows" : "Features";
    const x = data.clients.map(safe);
    const axis = { type: "category", showgrid: false, ticks: "", showticklabels: x.length <= MANY / 2, title: x.length <= MANY / 2 ? "" : `${x.length} clients` };
    if (x.length <= MANY && data.layers.length <= CLASSES.length) {
      const traces = data.layers.map((layer, i) => ({
        type: "bar", name: safe(layer.name), x, y: layer.counts,
        marker: { color: one ? colour(0) : CLASSES[i], line: { color: css("--soft"), width: isDark() ? 0.75 : 0 } },
        hovertemplate: `%{x}<br>${one ? "" : "class %{fullData.name}: "}%{y} ${data.unit}<extra></extra>`,
      }));
      return [traces, {
        barmode: "stack", bargap: 0.18, showlegend: !one, hovermode: "closest", xaxis: axis,
        yaxis: { title }, legend: { title: { text: "Class ", font: { size: 13 } }, traceorder: "normal" },
      }];
    }
    if (one) {
      const rows = [...data.layers[0].counts].sort((a, b) => b - a);
      return [[{ y: rows, fill: "tozeroy", fillcolor: faint(colour(0)), line: strokes(0), mode: "lines", hovertemplate: `%{y} ${data.unit}<extra></extra>` }],
        { showlegend: false, xaxis: { title: `${x.length} clients, the largest first` }, yaxis: { title } }];
    }
    return [[{
      type: "heatmap", x, y: data.layers.map((l) => safe(l.name)), z: data.layers.map((l) => l.counts),
      colorscale: "Cividis", colorbar: { title: { text: "rows", font: { size: 13 } }, thickness: 10, outlinewidth: 0 },
      hovertemplate: "%{x}<br>class %{y}: %{z} rows<extra></extra>",
    }], { xaxis: axis, yaxis: { type: "category", title: "Class" }, hovermode: "closest" }];
  }

  function weights(data, choice) {
    const panel = data.panels[Number(choice.method)];
    const traces = panel.lines.map((line, i) => ({
      x: panel.round, y: line.y, name: safe(line.name), mode: "lines",
      line: i < 6 ? strokes(i) : { color: css("--line"), width: 1 }, showlegend: i < 6,
      hovertemplate: `%{y:.4f}<extra>%{fullData.name}</extra>`,
    })).reverse();  // the coloured ones on top
    const even = 1 / data.clients, ends = [panel.round[0], panel.round.at(-1)];
    traces.unshift({ x: ends, y: [even, even], mode: "lines", name: "all alike", line: { color: css("--soft"), width: 1, dash: "dot" }, hoverinfo: "skip" });
    return [traces, {
      hovermode: "closest", legend: { traceorder: "reversed" },
      xaxis: { title: "Rounds" }, yaxis: { title: "Weight λ", rangemode: "tozero" },
    }];
  }
  weights.choices = (data) => [
    { name: "method", label: "Method", options: data.panels.map((p, i) => [String(i), p.name]), many: true },
  ];

  function support(data) {
    const names = data.methods.map((m) => `${safe(m.name)}<br><sub>${short(m.kept)} of ${m.size} kept</sub>`);
    return [[{
      type: "heatmap", y: names, z: data.methods.map((m) => m.share), zmin: 0, zmax: 1, ygap: 6,
      colorscale: [[0, css("--mark")], [1, colour(0)]], showscale: false,
      hovertemplate: "coefficient %{x}: kept in %{z:.0%}<extra></extra>",
    }], {
      height: 110 + 56 * data.methods.length, hovermode: "closest",
      xaxis: { title: data.methods[0].size > 600 ? "Coefficients, in bins" : "Coefficient", showgrid: false },
      yaxis: { type: "category", autorange: "reversed", showgrid: false },
    }];
  }

  function coefficients(data, choice) {
    const panel = data.panels[Number(choice.method)], rows = panel.features.map((_, row) => row);
    const name = (text) => safe(text.length > 32 ? `${text.slice(0, 31)}…` : text);
    const texts = panel.features.map((text, i) => safe(text) + (panel.ratio ? `<br>${panel.ratio} ${short(panel.ratios[i])}` : ""));
    const mark = (own) => ({ mode: "markers", y: rows, text: texts, hovertemplate: "%{text}<br>%{x:.4g}<extra>%{fullData.name}</extra>", ...own });
    const sites = panel.sites.map((site, i) => mark({
      x: site.y, name: safe(site.name), marker: { color: colour(i + 1), symbol: SYMBOLS[(i + 1) % SYMBOLS.length], size: 7, opacity: 0.7 },
    }));
    const hub = mark({ x: panel.y, name: panel.sites.length ? "hub" : safe(panel.name), marker: { color: colour(0), size: 11 } });
    return [[...sites, hub], {
      height: 130 + 24 * rows.length, hovermode: "closest", showlegend: panel.sites.length > 0,
      xaxis: { title: panel.of > rows.length ? `Coefficient; the ${rows.length} largest of ${panel.of}` : "Coefficient", zeroline: true, zerolinecolor: css("--soft"), zerolinewidth: 1.5 },
      yaxis: { tickvals: rows, ticktext: panel.features.map(name), zeroline: false },
    }];
  }
  coefficients.choices = (data) => [
    { name: "method", label: "Method", options: data.panels.map((p, i) => [String(i), p.name]), many: true },
  ];

  function sizes(data) {
    const traces = data.series.map((series, i) => ({
      type: "bar", name: safe(series.name), x: data.clients.map(safe), y: series.y, marker: { color: colour(i) },
      hovertemplate: "%{x}: %{y:.4s}B<extra>%{fullData.name}</extra>",
    }));
    return [traces, {
      barmode: "group", hovermode: "closest", yaxis: { title: "Size of the model", exponentformat: "SI", ticksuffix: "B" },
      xaxis: { type: "category", showgrid: false, showticklabels: data.clients.length <= MANY / 2 },
    }];
  }

  function trials(data, choice) {
    const tried = (method) => method.trials.filter((t) => choice.field in t.at);
    const values = data.methods.flatMap((m) => tried(m).map((t) => t.at[choice.field]));
    const numbers = values.every((v) => typeof v === "number"), low = Math.min(...values);
    const type = !numbers ? "category" : low > 0 && Math.max(...values) > 10 * low ? "log" : "linear";
    const traces = data.methods.map((method, i) => ({
      x: tried(method).map((t) => t.at[choice.field]), y: tried(method).map((t) => t.y), name: safe(method.name),
      mode: "markers", marker: { color: colour(i), symbol: SYMBOLS[i % SYMBOLS.length], size: 10, opacity: 0.85 },
      text: tried(method).map((t) => safe(Object.entries(t.at).map(([k, v]) => `${k} = ${v}`).join(", "))),
      hovertemplate: "%{text}<br>%{y:.4g}<extra>%{fullData.name}</extra>",
    }));
    const known = [...new Set(values)];
    const ticks = type === "log" && known.length <= 8 && { tickvals: known, ticktext: known.map(short) };
    return [traces, { hovermode: "closest", xaxis: { title: safe(choice.field), type, ...ticks }, yaxis: { title: safe(data.metric) } }];
  }
  trials.choices = (data) => [
    { name: "field", label: "Parameter", options: data.fields.map((f) => [f, f]), many: true },
  ];

  const KINDS = { trials, curves, clients, holdings, weights, support, coefficients, sizes };

  // ---- one picture on the page

  let printing = false;

  function layoutOf(own) {
    const ink = css("--ink"), soft = css("--soft"), line = css("--line");
    const axis = (given = {}) => ({
      gridcolor: line, zerolinecolor: line, linecolor: line, tickfont: { color: soft },
      fixedrange: coarse, automargin: true, ...given,
      title: { text: given.title ?? "", font: { size: 13, color: soft }, standoff: 10 },
    });
    return {
      height: matchMedia("(max-width: 40rem)").matches ? 340 : 430, showlegend: true,
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: ink },
      paper_bgcolor: css("--card"), plot_bgcolor: css("--card"),
      margin: { l: 56, r: 16, t: 16, b: 48 }, dragmode: coarse ? false : "zoom",
      hoverlabel: { bgcolor: css("--paper"), bordercolor: line, font: { color: ink } },
      ...own,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", ...own.legend },
      xaxis: axis(own.xaxis), yaxis: axis(own.yaxis),
    };
  }

  function control(choice, value, changed) {
    if (choice.many) {
      const select = document.createElement("select");
      select.setAttribute("aria-label", choice.label);
      select.dataset.choice = choice.name;
      for (const [key, text] of choice.options) select.add(new Option(text, key, false, key === value));
      select.addEventListener("change", () => changed(select.value));
      return select;
    }
    const group = document.createElement("fieldset");
    group.setAttribute("aria-label", choice.label);
    const name = `choice-${control.count = (control.count ?? 0) + 1}`;
    for (const [key, text] of choice.options) {
      const label = document.createElement("label"), input = document.createElement("input");
      Object.assign(input, { type: "radio", name, value: key, checked: key === value });
      input.addEventListener("change", () => changed(key));
      label.append(input, text);
      group.append(label);
    }
    return group;
  }

  const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

  function blobOf(url) {  // by hand: the page may fetch nothing, its own data included
    const comma = url.indexOf(","), head = url.slice(0, comma), body = url.slice(comma + 1);
    const content = head.endsWith(";base64") ? bytesOf(body) : decodeURIComponent(body);
    return new Blob([content], { type: head.slice("data:".length).split(";")[0] });
  }

  function picture(figure, data) {
    const kind = KINDS[figure.dataset.kind];
    const plot = figure.querySelector(".plot"), controls = figure.querySelector(".controls");
    const choices = kind.choices?.(data) ?? [];
    const choice = Object.fromEntries(choices.map((c) => [c.name, c.start ?? c.options[0][0]]));
    let drawn;  // how wide it is
    const draw = () => {
      const [traces, layout] = kind(data, choice);
      layout.width = drawn = printing ? PAPER.width : plot.clientWidth;
      if (printing) layout.height ??= PAPER.height;
      return Plotly.react(plot, traces, layoutOf(layout), { displayModeBar: false });
    };
    for (const c of choices.filter((c) => c.options.length > 1)) {
      controls.append(control(c, choice[c.name], (value) => { choice[c.name] = value; draw(); }));
    }
    figure.querySelector(".export").hidden = false;
    for (const button of figure.querySelectorAll("[data-format]")) {
      button.addEventListener("click", async () => {
        const format = button.dataset.format;
        const size = { width: 960, height: Math.max(360, plot.offsetHeight), scale: 2 };
        const image = blobOf(await Plotly.toImage(plot, { format, ...size }));
        const link = document.createElement("a");
        const words = [figure.dataset.name, choice.metric].filter(Boolean).join(" ");
        link.download = `${words.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.${format}`;
        link.href = URL.createObjectURL(image);
        figure.append(link);  // some browsers follow no link that is not on the page
        link.click();
        link.remove();
      });
    }
    addEventListener("resize", () => { if (!printing && drawn !== plot.clientWidth) draw(); });
    return draw;
  }

  // ---- the page

  async function loadPlotly() {
    const packed = document.getElementById("plotly").textContent;
    const stream = new Blob([bytesOf(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
    const source = new Blob([await new Response(stream).arrayBuffer()], { type: "text/javascript" });
    const script = document.createElement("script");
    script.src = URL.createObjectURL(source);
    await new Promise((done, failed) => {
      script.addEventListener("load", done);
      script.addEventListener("error", failed);
      document.head.append(script);
    });
  }

  function dress(drawAll) {
    const button = document.getElementById("theme");
    const say = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      say();
      drawAll();
    });
    systemDark.addEventListener("change", () => { say(); drawAll(); });
    say();
  }

  function prints(drawAll) {  // paper is light, and narrower than most screens
    let theme;
    addEventListener("beforeprint", () => {
      theme = root.dataset.theme;
      root.dataset.theme = "light";
      printing = true;
      drawAll();
    });
    addEventListener("afterprint", () => {
      if (theme) root.dataset.theme = theme;
      else delete root.dataset.theme;
      printing = false;
      drawAll();
    });
  }

  for (const button of document.querySelectorAll(".copies")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = "Copied";
    });
  }

  loadPlotly().then(() => {
    const figures = [...document.querySelectorAll(".picture")];
    const draws = figures.map((figure, i) => picture(figure, page.pictures[i]));
    const drawAll = () => Promise.all(draws.map((draw) => draw()));
    dress(drawAll);
    prints(drawAll);
    return drawAll();
  }).then(() => { root.dataset.ready = "yes"; }, (error) => {
    for (const plot of document.querySelectorAll(".plot")) {
      plot.textContent = "The pictures need a browser of 2023 or later. The tables are complete.";
    }
    throw error;
  });
})();
