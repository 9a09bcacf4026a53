"use strict";
// Draws the page from the data in #data. Fetches nothing; inserts every name as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 600px)");
  const FEW = 200;  // rows in the table of moves until the reader requests all
  // The colours of Okabe and Ito, which colour-blind readers can distinguish, lightened or darkened to suit the background.
  const LIGHT = ["#0072b2", "#d55e00", "#00795c", "#a8508a", "#8a6d00", "#2b7bba", "#000000", "#7a4b2a"];
  const DARK = ["#56b4e9", "#e69f00", "#2bc79b", "#e29ac4", "#f0e442", "#7fc4ff", "#ffffff", "#d7a27a"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const MARKS = ["circle", "square", "diamond", "cross", "triangle-up", "x", "star", "hexagon"];
  const LEVELS = { good: "✓ Good", fair: "◐ Fair", bad: "✗ Not good", open: "ℹ Commands on a recording",
    compared: "ℹ Compared", advice: "ℹ Advice", unsure: "◐ Too little data" };
  const CHARTS = { usage: "Usage of the busiest broker over time, and the limit", hours: "Mean load of each hour of the day" };
  const compared = data.runs.length > 1;
  let shown = 0, printing = false, chosen = -1;

  const theme = () => (printing || !dark.matches
    ? { paper: "#ffffff", ink: "#1b1f24", grid: "#d8dee4", lines: LIGHT }
    : { paper: "#0f1419", ink: "#e6edf3", grid: "#2c353f", lines: DARK });
  const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const wrapped = (text, width) => {
    const lines = [""];
    for (const word of String(text).split(" ")) {
      if ((lines[lines.length - 1] + word).length > width) lines.push("");
      lines[lines.length - 1] += `${word} `;
    }
    return lines.map((line) => safe(line.trim())).filter(Boolean).join("<br>");
  };
  // Date throws for times beyond this.
  const clock = (ms) => Math.abs(ms) > 8.64e15 ? `${ms} ms` : new Date(ms).toISOString().slice(0, -8).replace("T", " ");
  const short = (broker) => broker.replace(/:\d+$/, "");
  const element = (tag, text, kind) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  function fillTable(table, heads, rows, kinds) {
    const head = element("tr");
    heads.forEach((text, column) => {
      const cell = element("th", text, kinds[column]);
      cell.scope = "col";
      head.append(cell);
    });
    const body = element("tbody");
    for (const row of rows) {
      const line = element("tr");
      row.forEach((text, column) => line.append(element("td", text, kinds[column])));
      body.append(line);
    }
    const top = element("thead");
    top.append(head);
    table.replaceChildren(top, body);
  }

  function layout(more) {
    const look = theme();
    const axis = { gridcolor: look.grid, linecolor: look.grid, zerolinecolor: look.grid, automargin: true };
    return {
      paper_bgcolor: look.paper, plot_bgcolor: look.paper, font: { color: look.ink, size: narrow.matches ? 11 : 13 },
      margin: { l: 56, r: 16, t: 12, b: 44 }, hovermode: "closest", showlegend: true,
      legend: { orientation: "h", y: -0.18, x: 0 }, hoverlabel: { align: "left", namelength: -1 },
      dragmode: narrow.matches ? false : "zoom",
      ...more,
      xaxis: { ...axis, type: "date", ...(more.xaxis || {}) },
      yaxis: { ...axis, ...(more.yaxis || {}) },
      ...(more.yaxis2 ? { yaxis2: { ...axis, ...more.yaxis2 } } : {}),
    };
  }

  function draw(id, traces, more) {
    const config = { responsive: true, displaylogo: false, displayModeBar: narrow.matches || printing ? false : "hover",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toImage"] };
    return Plotly.react(byId(id), traces, layout(more), config);
  }

  function moveText(move) {
    const [ts, bundle, source, destination, code, reason, outcome, traffic, , round] = move;
    return `<b>${safe(bundle)}</b><br>${safe(short(source) || "?")} → ${safe(short(destination) || "a broker that Pulsar chooses")}`
      + `<br>${wrapped(reason || "no reason given", 60)}<br>${safe(code)} · ${safe(outcome)} · ${safe(traffic)} · round ${round} · ${clock(ts)}`;
  }

  // Bundles that leave one broker in one round share a mark: of separate marks, only the top one could be selected.
  function groups(run) {
    const byPlace = new Map();
    run.moves.forEach((move, index) => {
      const place = `${move[0]} ${move[2]}`;
      if (!byPlace.has(place)) byPlace.set(place, []);
      byPlace.get(place).push(index);
    });
    return [...byPlace.values()];
  }

  function groupText(run, group) {
    const rest = group.length - 1;
    const heading = rest ? `<b>${group.length} bundles leave ${safe(short(run.moves[group[0]][2]))}</b>; the first:<br>` : "";
    return heading + moveText(run.moves[group[0]]) + (rest ? "<br>The others are in the list below." : "");
  }

  function moveTrace(run, onRows) {
    const look = theme();
    const marks = groups(run).filter(([first]) => (onRows ? run.brokers.includes(run.moves[first][2]) : run.moves[first][8] !== null));
    const firsts = marks.map(([first]) => run.moves[first]);
    return {
      type: "scatter", mode: "markers", name: "moves", x: firsts.map((m) => m[0]), y: firsts.map((m) => (onRows ? short(m[2]) : m[8])),
      text: marks.map((group) => groupText(run, group)), customdata: marks, hovertemplate: "%{text}<extra></extra>", meta: "moves",
      marker: { symbol: "triangle-down", size: marks.map((group) => 10 + Math.min(8, 2 * Math.log2(group.length))), color: look.ink,
        line: { color: look.paper, width: 1.5 } },
    };
  }

  function memberShapes(run) {
    const look = theme();
    const named = run.members.length <= 12;
    return {
      shapes: run.members.slice(0, 200).map((one) => ({ type: "line", xref: "x", yref: "paper", x0: one[0], x1: one[0], y0: 0, y1: 1,
        line: { color: look.ink, width: 1, dash: "dot" } })),
      annotations: (named ? run.members : []).map((one, index) => ({ x: one[0], yref: "paper", y: 1 - 0.06 * (index % 4), xanchor: "left", showarrow: false,
        text: `${safe(short(one[1]))} ${safe(one[2])}`, font: { size: 11, color: look.ink } })),
    };
  }

  function usageLines(run) {
    const look = theme();
    const traces = run.usage.lines.map((line, index) => ({
      type: "scatter", mode: line.t.length <= 40 ? "lines+markers" : "lines", name: short(run.brokers[index]), x: line.t, y: line.y, connectgaps: false,
      line: { color: look.lines[index % 8], dash: DASHES[Math.floor(index / 8) % 4], width: 2 }, marker: { symbol: MARKS[index % 8], size: 6 },
      hovertemplate: `${safe(short(run.brokers[index]))} %{y:.1f} %<br>%{x|%Y-%m-%d %H:%M}<extra></extra>`,
    }));
    draw("usage", [...traces, moveTrace(run, false)], { yaxis: { title: { text: "usage, % of the limit" }, rangemode: "tozero" }, ...memberShapes(run) });
    byId("usage-hint").textContent = `One line per broker; 100 % is its limit. ▼ marks a bundle that leaves${touchHint()}`;
  }

  function usageHeat(run) {
    const heat = run.usage;
    const z = heat.z.map((row) => row.map((value) => (value < 0 ? null : value / 10)));
    const trace = {
      type: "heatmap", x: heat.t, y: run.brokers.map(short), z, colorscale: "Cividis", zmin: 0, zmax: Math.max(100, ...z.map((row) => Math.max(...row))),
      colorbar: { title: { text: "usage %" }, thickness: 12, len: 0.9 }, hovertemplate: "%{y} at most %{z:.1f} %<br>from %{x|%Y-%m-%d %H:%M}<extra></extra>",
    };
    const member = memberShapes({ ...run, members: run.members.length <= 40 ? run.members : [] });
    draw("usage", [trace, moveTrace(run, true)], { yaxis: { type: "category", autorange: "reversed", tickfont: { size: 9 } }, ...member, annotations: [] });
    byId("usage-hint").textContent = `One row per broker, yellow is full; each cell shows the highest usage of its time. ▼ marks a bundle that leaves${touchHint()}`;
  }

  const touchHint = () => (narrow.matches ? ": touch one to read why." : ": point at one, or press the arrow keys, to read why.");

  function drawUsage(run) {
    if (run.usage.form === "heat") usageHeat(run); else usageLines(run);
    const chart = byId("usage");
    chart.removeAllListeners("plotly_click");
    chart.on("plotly_click", (event) => {
      const point = event.points.find((one) => one.data.meta === "moves");
      if (point) showMove(run, point.customdata[0]);
    });
  }

  function drawSpread(run) {
    const look = theme();
    const bands = run.usage.form === "heat" ? Object.entries(run.usage.bands) : [];
    const spread = { type: "scatter", mode: "lines", name: "spread", x: run.spread.t, y: run.spread.y, line: { color: look.lines[0], width: 2 },
      hovertemplate: "spread %{y:.1f} points<br>%{x|%Y-%m-%d %H:%M}<extra></extra>" };
    const lines = bands.map(([name, line], index) => ({ type: "scatter", mode: "lines", name, x: line.t, y: line.y, visible: "legendonly",
      line: { color: look.lines[index + 2], width: 1.5, dash: DASHES[index + 1] }, hovertemplate: `${name} %{y:.1f} %<extra></extra>` }));
    const bars = (name, y, color, pattern) => ({ type: "bar", name, x: run.churn.t, y, yaxis: "y2", width: Math.max(run.churn.width, 1), offset: 0,
      marker: { color, pattern: { shape: pattern } }, hovertemplate: `${name}: %{y}<br>from %{x|%Y-%m-%d %H:%M}<extra></extra>` });
    const refused = run.churn.refused.some((count) => count > 0) ? [bars("commanded, not applied", run.churn.refused, look.grid, "/")] : [];
    const bound = run.bound.t.length ? [{ type: "scatter", mode: "lines", name: "proven lower bound", x: run.bound.t, y: run.bound.y, line: { color: look.lines[2], width: 1.5, dash: "dot" },
      hovertemplate: "no assignment of whole bundles is below %{y:.1f} points<br>%{x|%Y-%m-%d %H:%M}<extra></extra>" }] : [];
    draw("spread", [spread, ...bound, ...lines, bars("bundles moved", run.churn.moved, look.lines[1], ""), ...refused], {
      barmode: "stack", yaxis: { domain: [0.42, 1], title: { text: "points" }, rangemode: "tozero" },
      yaxis2: { domain: [0, 0.32], title: { text: "moves" }, rangemode: "tozero" }, xaxis: { anchor: "y2" },
    });
  }

  function drawOverlay() {
    const look = theme();
    const scene = data.runs[shown].scene;
    const traces = data.runs.filter((run) => run.scene === scene).map((run, index) => ({ type: "scatter", mode: "lines", name: run.title, x: run.spread.t, y: run.spread.y,
      line: { color: look.lines[index % 8], dash: DASHES[Math.floor(index / 2) % 4], width: 2 },
      hovertemplate: `${safe(run.title)}: %{y:.1f} points<br>%{x|%Y-%m-%d %H:%M}<extra></extra>` }));
    draw("overlay", traces, { yaxis: { title: { text: "spread, points" }, rangemode: "tozero" } });
  }

  function showMove(run, index) {
    const move = run.moves[index];
    if (!move) return;
    chosen = index;
    byId("move-text").textContent = `Move ${index + 1} of ${run.moves.length}, ${clock(move[0])}: ${move[1]}, ${move[2] || "?"} → ${move[3] || "a broker that Pulsar chooses"}. `
      + `${move[5] || "No reason given."} (${move[4]}, ${move[6]})`;
    const chart = byId("usage");
    const curve = chart.data.findIndex((trace) => trace.meta === "moves");
    const point = chart.data[curve].customdata.findIndex((group) => group.includes(index));
    if (point >= 0) Plotly.Fx.hover(chart, [{ curveNumber: curve, pointNumber: point }]);
  }

  function showMoves(run, all) {
    const rows = (all ? run.moves : run.moves.slice(0, FEW)).map((m) => [clock(m[0]), m[1], short(m[2]), short(m[3]) || "–", m[7], m[5] || "no reason given", m[6]]);
    fillTable(byId("moves"), ["time", "bundle", "from", "to", "traffic", "reason", "outcome"], rows, ["time", "bundle", "name", "name", "right", "text", ""]);
    const part = run.moves.length < run.moves_total ? ` Of ${run.moves_total} moves the ${run.moves.length} with the most traffic in their period are listed.` : "";
    byId("moves-hint").textContent = (run.moves_total ? `${run.moves_total} in total.` : "No bundle was moved.") + part;
    byId("moves").parentElement.hidden = !rows.length;
    byId("more").hidden = all || run.moves.length <= FEW;
    byId("more").textContent = `Show all ${run.moves.length}`;
  }

  function showProofs(run, all) {
    byId("proven").hidden = !run.proofs_total;
    const rows = (all ? run.proofs : run.proofs.slice(0, FEW)).map(([ts, round, text]) => [clock(ts), round, text]);
    fillTable(byId("proofs"), ["time", "round", "what it proves"], rows, ["time", "right", "text"]);
    const part = run.proofs.length < run.proofs_total ? ` Of ${run.proofs_total} such rounds, the newest ${run.proofs.length} with moves or advice are listed.` : "";
    byId("proofs-hint").textContent = `The bounds hold for every algorithm. A back-test computes none for quiet rounds that it passes over together.${part}`;
    byId("more-proofs").hidden = all || run.proofs.length <= FEW;
    byId("more-proofs").textContent = `Show all ${run.proofs.length}`;
  }

  function drawUsageAndLimit(id, chart) {
    const look = theme();
    const ends = [chart.t[0], chart.t[chart.t.length - 1]];
    const traces = [
      { type: "scatter", mode: "lines", name: "busiest broker", x: chart.t, y: chart.y, connectgaps: false, line: { color: look.lines[0], width: 2 },
        hovertemplate: "busiest broker %{y:.1f} %<br>%{x|%Y-%m-%d %H:%M}<extra></extra>" },
      { type: "scatter", mode: "lines", name: "limit", x: ends, y: [chart.limit, chart.limit], line: { color: look.lines[1], width: 2, dash: "dash" },
        hovertemplate: "limit %{y:.0f} %<extra></extra>" },
    ];
    return draw(id, traces, { yaxis: { title: { text: "busy, %" }, rangemode: "tozero" } });
  }

  function drawHours(id, chart) {
    const look = theme();
    const hours = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, "0"));
    const cheap = (hour) => chart.best !== null && (Number(hour) - chart.best + 24) % 24 < chart.in_a_row;
    const bars = { type: "bar", x: hours, y: hours.map((hour) => (hour in chart.loads ? 100 * chart.loads[hour] : null)), hovertemplate: "%{x}:00 to %{x}:59 UTC: %{y:.0f} %<extra></extra>",
      marker: { color: hours.map((hour) => look.lines[cheap(hour) ? 2 : 0]),
        pattern: { shape: hours.map((hour) => (cheap(hour) ? "/" : "")) } } };
    return draw(id, [bars], { showlegend: false, xaxis: { type: "category", title: { text: "hour of the day, UTC" } },
      yaxis: { title: { text: "load, % of the mean" }, rangemode: "tozero" } });
  }

  function drawSections() {
    data.sections.forEach(({ chart }, index) => {
      if (chart) (chart.form === "usage" ? drawUsageAndLimit : drawHours)(`chart-${index}`, chart);
    });
  }

  function drawRun() {
    drawSections();
    const run = data.runs[shown];
    if (!run) return;
    drawUsage(run);
    drawSpread(run);
    if (compared) drawOverlay();
  }

  function showRun(index) {
    shown = index;
    chosen = -1;
    byId("move-text").textContent = "";
    const run = data.runs[index];
    byId("kind").textContent = `${run.scene ? `${run.scene}, ` : ""}${run.title}: ${run.kind}.`;
    byId("tiles").replaceChildren(...run.tiles.map(([label, value, meaning]) => {
      const tile = element("div");
      tile.append(element("dt", label), element("dd", value, "figure"), element("dd", meaning, "meaning"));
      return tile;
    }));
    byId("notes").replaceChildren(...run.notes.map((note) => element("li", note)));
    byId("goal").textContent = run.goal ? `The goal of the strategy: ${run.goal}.` : "";
    fillTable(byId("brokers"), ["broker", "usage first", "usage last", "traffic first", "traffic last", "bundles given", "taken"], run.before_after,
      ["name", "right", "right", "right", "right", "right", "right"]);
    fillTable(byId("settings"), ["setting", "value"], run.settings, ["name", "name"]);
    showMoves(run, false);
    showProofs(run, false);
    drawRun();
  }

  function showVerdict() {
    const verdict = data.verdict;
    byId("verdict").dataset.level = verdict.level;
    byId("badge").textContent = LEVELS[verdict.level];
    byId("detail").textContent = verdict.detail;
    byId("next").replaceChildren(...verdict.next.map((step) => {
      const item = element("li", step.text);
      if (step.command) item.append(element("code", step.command));
      return item;
    }));
    document.querySelector("h2.next").hidden = !verdict.next.length;
    byId("made-by").textContent = data.made_by;
  }

  function marked({ rows, best }) {
    return rows.map((row, line) => row.map((text, column) => (best[column].includes(line) ? `● ${text}` : text)));
  }

  function showTables(tables, place) {
    for (const one of tables) {
      const frame = element("div", undefined, "wide");
      Object.assign(frame, { tabIndex: 0, role: "region", ariaLabel: one.title });
      const table = element("table");
      fillTable(table, one.heads, marked(one), one.heads.map((_, column) => (column < one.names ? "name" : "right")));
      frame.append(table);
      byId(place).append(element("h3", one.title), frame, element("p", one.hint, "hint"));
    }
  }

  function tableOf({ columns, rows }, label) {
    const frame = element("div", undefined, "wide");
    Object.assign(frame, { tabIndex: 0, role: "region", ariaLabel: label });
    const table = element("table");
    fillTable(table, columns.map(([head]) => head), rows, columns.map(([, side]) => (side === "right" ? "right" : "name")));
    frame.append(table);
    return frame;
  }

  function commandsOf(lines, label) {
    const frame = element("pre", undefined, "wide commands");
    Object.assign(frame, { tabIndex: 0, role: "region", ariaLabel: label });
    frame.append(element("code", lines.join("\n")));
    return frame;
  }

  // A page without runs has sections in their place.
  function showSections() {
    if (!data.sections.length) return;
    for (const section of document.querySelectorAll("main > section")) section.hidden = true;
    byId("skip").href = "#sections";
    byId("sections").replaceChildren(...data.sections.map((one, index) => {
      const section = element("section");
      section.append(element("h2", one.title), element("p", one.text));
      if (one.chart) {
        const chart = element("div", undefined, "chart");
        Object.assign(chart, { id: `chart-${index}`, role: "img", ariaLabel: CHARTS[one.chart.form] });
        section.append(chart);
      }
      section.append(...one.sheets.map((table) => tableOf(table, one.title)));
      if (one.commands.length) section.append(element("h3", `${one.title}: commands to copy`), commandsOf(one.commands, `${one.title}: commands`));
      return section;
    }));
    drawSections();
  }

  function showChoice() {
    const scene = byId("scene").value;
    byId("choice").replaceChildren(element("legend", "Show one run in detail"));
    data.runs.forEach((run, index) => {
      if (run.scene !== scene) return;
      const label = element("label");
      const button = Object.assign(element("input"), { type: "radio", name: "run", value: index, checked: index === shown });
      button.addEventListener("change", () => showRun(index));
      label.append(button, ` ${run.title}`);
      byId("choice").append(label);
    });
  }

  function showComparison() {
    if (!compared) return;
    byId("compared").hidden = false;
    showTables(data.tables, "tables");
    byId("comparison-frame").hidden = byId("comparison-hint").hidden = !data.comparison;
    if (data.comparison) {
      const { heads } = data.comparison;
      fillTable(byId("comparison"), heads, marked(data.comparison), heads.map((_, column) => (column ? "right" : "name")));
    }
    const scenes = [...new Set(data.runs.map((run) => run.scene))];
    byId("scene").replaceChildren(...scenes.map((scene) => Object.assign(element("option", scene), { value: scene })));
    byId("scenes").hidden = scenes.length < 2;
    byId("scene").addEventListener("change", () => {
      showRun(data.runs.findIndex((run) => run.scene === byId("scene").value));
      showChoice();
    });
    showChoice();
  }

  showVerdict();
  showSections();
  showComparison();
  showTables(data.costs, "costs");
  if (data.runs.length) showRun(0);
  byId("more").addEventListener("click", () => showMoves(data.runs[shown], true));
  byId("more-proofs").addEventListener("click", () => showProofs(data.runs[shown], true));
  byId("usage").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const run = data.runs[shown];
    if (!step || !run || !run.moves.length) return;
    event.preventDefault();
    showMove(run, Math.min(run.moves.length - 1, Math.max(0, chosen + step)));
  });
  dark.addEventListener("change", drawRun);
  narrow.addEventListener("change", drawRun);
  window.addEventListener("beforeprint", () => { printing = true; drawRun(); });
  window.addEventListener("afterprint", () => { printing = false; drawRun(); });
  performance.mark("drawn");
  document.documentElement.dataset.drawn = "yes";
})();
