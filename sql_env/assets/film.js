// Prints the parts of an episode as `part_html` of sql_env.view.page does. What is shown was decided, and made harmless,
// in Python; all text goes in as text. The drawing of a schema alone is markup, whose text was escaped when it was written.
const drawFilm = (() => {
  function make(name, given, ...inside) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(given || {})) {
      if (value === undefined || value === null || value === "" || value === false) continue;
      if (key === "cls") made.className = value;
      else made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...inside.flat().filter((part) => part !== "" && part !== null && part !== undefined));
    return made;
  }

  // Parts

  const numberText = /^(?:-?\d[\d.]*(?:e[-+]?\d+)?|-?Infinity|NULL)$/;
  const elements = { question: "h2", title: "h3", hint: "p", reply: "blockquote" };
  const roles = { error: "alert", right: "status", wrong: "status", remark: "" };

  const scrollBox = (inside, label, cls = "sx-scroll") =>
    make("div", { cls, tabindex: "0", role: "region", "aria-label": label }, inside);

  function drawTable(columns, rows, note, marked, label) {
    const isNumber = columns.map((_, i) => rows.length > 0 && rows.every((row) => numberText.test(row[i])));
    const body = rows.map((row, number) => {
      const cells = row.map((value, i) => {
        const classes = [isNumber[i] && "sx-num", value === "NULL" && "sx-null", value.length > 36 && "sx-long"];
        return make("td", { cls: classes.filter(Boolean).join(" ") }, value);
      });
      return make("tr", { cls: marked.includes(number) ? "sx-marked" : "" }, cells);
    });
    const heads = columns.map((name, i) => make("th", { scope: "col", cls: isNumber[i] ? "sx-num" : "" }, name));
    const head = columns.some(Boolean) ? make("thead", {}, make("tr", {}, heads)) : "";
    const table = make("table", {}, head, make("tbody", {}, body));
    return make("div", {}, scrollBox(table, label), note ? make("p", { cls: "sx-note" }, note) : "");
  }

  function drawPart([kind, text, title, columns, rows, marked]) {
    const heading = title ? make("h3", {}, title) : "";
    if (kind === "act") {
      return make("div", { cls: "sx-act" }, make("b", { cls: "sx-verb" }, title), make("div", { cls: "sx-sql" }, text));
    }
    if (kind === "closed") return make("details", {}, make("summary", {}, title), make("div", { cls: "sx-words" }, text));
    if (kind in elements) {
      const inside = make(elements[kind], { cls: kind === "hint" ? "sx-hint" : "" }, text || title);
      return make("div", {}, text ? heading : "", inside);
    }
    if (kind in roles) return make("div", { cls: `sx-${kind}`, role: roles[kind] }, title ? make("b", {}, title) : "", ` ${text}`);
    let came = make("div", { cls: `sx-${kind}` }, text);
    if (kind === "text") came = scrollBox(text, "result", "sx-scroll sx-text");
    else if (columns.length) came = drawTable(columns, rows, text, marked, title || "result");
    else if (kind === "rows") came = make("p", { cls: "sx-note" }, text);
    return make("div", { cls: "sx-part" }, heading, came);
  }

  // Rows that are compared stand side by side
  function drawParts(parts) {
    const shown = [];
    let pair = null;
    for (const part of parts) {
      if (part[0] !== "rows") pair = null;
      else if (!pair) shown.push((pair = make("div", { cls: "sx-two" })));
      (pair || { append: (made) => shown.push(made) }).append(drawPart(part));
    }
    return shown;
  }

  // Steps

  const signed = (x, digits) => (x >= 0 ? "+" : "−") + Math.abs(x).toFixed(digits);
  const money = (x, digits = 2) =>
    make("span", { cls: x > 0.004 ? "sx-up" : x < -0.004 ? "sx-down" : "" }, x ? signed(x, digits) : "0");

  function drawStep(film, [verb, argument, parts, left, reward, total], i) {
    const marks = Array.from({ length: Math.min(film.budget, 60) }, (_, n) => make("i", { cls: n < i ? "sx-used" : "" }));
    const status = make(
      "div",
      { cls: "sx-status" },
      make("span", { cls: "sx-pips", "aria-hidden": "true" }, marks),
      make("span", {}, left),
      make("span", { cls: "sx-return" }, "return ", money(total)),
    );
    const paid = Object.entries(reward || {}).map(([name, x]) => make("li", {}, `${name} `, money(x, 3)));
    const pay = make("ul", { cls: "sx-pay", "aria-label": "reward of this step" }, paid.length ? paid : make("li", {}, "reward 0"));
    const given = { cls: "sx-step", "data-step": i, hidden: i > 0, "aria-label": `step ${i}` };
    return make("section", given, status, i ? drawPart(["act", argument, verb]) : "", drawParts(parts), reward ? pay : "");
  }

  function drawSteps([, ...steps]) {
    if (!steps.length) return make("p", { cls: "sx-hint" }, "none yet");
    const lines = steps.map(([verb, argument, , , reward, , failed], i) => {
      const code = make("span", {}, make("code", {}, argument.split(/\s+/).join(" ").trim().slice(0, 120)));
      const sum = Object.values(reward || {}).reduce((all, x) => all + x, 0);
      const inside = [make("small", {}, i + 1), make("b", {}, verb), code, money(sum)];
      return make("li", { cls: failed ? "sx-fail" : "", "data-row": i + 1 }, make("button", { type: "button", "data-go": i + 1 }, inside));
    });
    return make("ol", { cls: "sx-steps" }, lines);
  }

  // What a model said

  function drawSaid([role, step, took, parts]) {
    if (role === "error") return make("li", {}, drawParts(parts));
    const isModel = role === "assistant";
    let head = make("span", {}, isModel ? "no step" : "sent to the model");
    if (step) head = make("button", { type: "button", "data-go": step }, `step ${step}`);
    const line = make("div", { cls: "sx-said-head" }, head, make("small", {}, took));
    return make("li", { cls: isModel ? "sx-said" : "sx-said sx-sent", "data-row": step || null }, line, drawParts(parts));
  }

  function drawWords({ prompt, said, notes }) {
    const parts = [];
    const title = make("summary", {}, `prompt, ${prompt.length} messages`);
    if (prompt.length) parts.push(make("details", { cls: "sx-prompt" }, title, drawParts(prompt)));
    if (prompt.length || said.length) parts.push(make("ol", { cls: "sx-talk" }, said.map(drawSaid)));
    if (notes.length) {
      const lines = notes.map((note) => make("li", {}, note));
      parts.push(make("ul", { cls: "sx-notes", "aria-label": "what was wrong" }, lines));
    }
    return parts.length ? make("section", { cls: "sx-model" }, make("h3", {}, "what the model said"), parts) : "";
  }

  // The drawing of the schema, with the steps at which each table was discovered and looked into
  function drawSchema({ tables }, svg) {
    const section = make("section", { cls: "sx-schema" }, make("h3", {}, "schema"));
    section.insertAdjacentHTML("beforeend", svg);
    for (const part of section.querySelectorAll("[data-table]")) {
      const [known, touched] = tables[part.dataset.table] || [];
      if (known) part.dataset.at = known;
      if (touched && part.tagName === "g") part.dataset.touch = touched;
    }
    return section;
  }

  return (film, svg) => {
    const about = [make("span", {}, film.about), make("span", {}, film.policy ? `played by ${film.policy}` : "")];
    const failed = film.fail ? make("p", { cls: "sx-kind" }, make("span", {}, film.fail)) : "";
    const note = film.note ? make("p", { cls: "sx-remark" }, film.note) : "";
    const ask = make("header", { cls: "sx-ask" }, make("div", { cls: "sx-about" }, about), make("h2", {}, film.question), failed, note);
    const now = make("div", { "aria-live": "polite" }, film.steps.map((step, i) => drawStep(film, step, i)));
    const side = make("div", {}, make("h3", {}, "steps"), drawSteps(film.steps));
    const given = { cls: "sx", "data-last": film.steps.length - 1 };
    return make("article", given, ask, make("div", { cls: "sx-body" }, now, side), drawWords(film), svg ? drawSchema(film, svg) : "");
  };
})();
