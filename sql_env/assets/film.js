// Draws an episode from its data as sql_env.view.page draws it from Python. All text goes in as text; the drawing of a
// schema alone is markup, and its text was escaped when it was written.
const drawFilm = (() => {
  const cellText = /(?:^| \| )('(?:[^']|'')*'[^|]*?|[^'|][^|]*?)(?= \| |$)/g;
  const noteText = /^\.\.\. (\d+ (?:or more )?rows, \d+ shown|cut after .*)$/;
  const numberText = /^(?:-?\d[\d.]*(?:e[-+]?\d+)?|-?Infinity|NULL)$/;

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

  // Tables

  const cellsOf = (line) => [...line.matchAll(cellText)].map((found) => found[1]);
  const countRows = (n) => (n === 1 ? "1 row" : `${n} rows`);

  // Columns, rows and note of a result as it was written; null if the text is no table
  function parseTable(text) {
    const lines = text.split("\n");
    const notes = [];
    while (lines.length > 1 && noteText.test(lines.at(-1))) notes.unshift(noteText.exec(lines.pop())[1]);
    const columns = cellsOf(lines[0]);
    if (lines.length === 2 && lines[1] === "(no rows)") return { columns, rows: [], note: "no rows" };
    const rows = lines.slice(1).map(cellsOf);
    const isWhole = (cells, line) => cells.length === columns.length && cells.join(" | ") === line;
    if (!isWhole(columns, lines[0]) || !rows.every((row, i) => isWhole(row, lines[i + 1]))) return null;
    return { columns, rows, note: notes.join(", ") || countRows(rows.length) };
  }

  const scrollBox = (inside, label, cls = "sx-scroll") =>
    make("div", { cls, tabindex: "0", role: "region", "aria-label": label }, inside);

  function drawTable(columns, rows, note, marked = new Set(), label = "result") {
    const isNumber = columns.map((_, i) => rows.length > 0 && rows.every((row) => numberText.test(row[i] ?? "")));
    const body = rows.map((row, number) => {
      const cells = row.map((value, i) => {
        const classes = [isNumber[i] && "sx-num", value === "NULL" && "sx-null", value.length > 36 && "sx-long"];
        return make("td", { cls: classes.filter(Boolean).join(" ") }, value);
      });
      return make("tr", { cls: marked.has(number) ? "sx-marked" : "" }, cells);
    });
    const heads = columns.map((name, i) => make("th", { scope: "col", cls: isNumber[i] ? "sx-num" : "" }, name));
    const head = columns.some(Boolean) ? make("thead", {}, make("tr", {}, heads)) : "";
    const table = make("table", {}, head, make("tbody", {}, body));
    return make("div", {}, scrollBox(table, label), note ? make("p", { cls: "sx-note" }, note) : "");
  }

  function drawResult(text) {
    const found = parseTable(text);
    if (!found) return scrollBox(text, "result", "sx-scroll sx-text");
    return drawTable(found.columns, found.rows, found.note);
  }

  function drawDescription(text, columns) {
    const [head, ...lines] = text.split("\n");
    if (!lines.length || !lines.every((line) => columns && columns[line])) return drawResult(text);
    const note = head.slice(head.lastIndexOf(": ") + 2);
    return drawTable(["column", "type", "key"], lines.map((line) => columns[line]), note, new Set(), "columns");
  }

  // The steps

  const sum = (reward) => Object.values(reward || {}).reduce((total, x) => total + x, 0);
  const signed = (x, digits) => (x >= 0 ? "+" : "−") + Math.abs(x).toFixed(digits);
  const money = (x, digits = 2) =>
    make("span", { cls: x > 0.004 ? "sx-up" : x < -0.004 ? "sx-down" : "" }, x ? signed(x, digits) : "0");

  function drawStatus(film, step) {
    const marks = Array.from({ length: Math.min(film.budget, 60) }, (_, i) => make("i", { cls: i < step ? "sx-used" : "" }));
    const isOver = film.end && step >= film.turns.length;
    const left = isOver
      ? `ended after ${step} of ${film.budget} steps`
      : `${film.budget - step} of ${film.budget} steps left`;
    const total = film.turns.slice(0, step).reduce((all, turn) => all + sum(turn[4]), 0);
    return make(
      "div",
      { cls: "sx-status" },
      make("span", { cls: "sx-pips", "aria-hidden": "true" }, marks),
      make("span", {}, left),
      make("span", { cls: "sx-return" }, "return ", money(total)),
    );
  }

  function drawError(error) {
    const at = error.indexOf(": ");
    const [kind, message] = at < 0 ? [error, ""] : [error.slice(0, at), error.slice(at + 2)];
    return make("div", { cls: "sx-error", role: "alert" }, make("b", {}, kind.replaceAll("_", " ")), ` ${message}`);
  }

  const tableName = (argument) => argument.trim().replace(/^["'`[]|["'`\]]$/g, "").toLowerCase();

  function drawTurn(turn, schema) {
    const [verb, argument, result, error] = turn;
    let came = "";
    if (error) came = drawError(error);
    else if (verb === "DESCRIBE") came = drawDescription(result, schema?.columns[tableName(argument)]);
    else if (verb === "SEARCH") came = scrollBox(result, "found", "sx-scroll sx-text");
    else if (verb === "CLARIFY") came = make("blockquote", {}, result);
    else if (!["ANSWER", "ABSTAIN"].includes(verb)) came = drawResult(result);
    const act = [make("b", { cls: "sx-verb" }, verb), make("div", { cls: "sx-sql" }, argument)];
    return make("div", {}, make("div", { cls: "sx-act" }, act), came);
  }

  function drawReward(reward) {
    const parts = Object.entries(reward || {}).map(([name, x]) => make("li", {}, `${name} `, money(x, 3)));
    return make("ul", { cls: "sx-pay", "aria-label": "reward of this step" }, parts.length ? parts : make("li", {}, "reward 0"));
  }

  // The end: the verdict, a wrong answer beside gold, the gold query

  function isSame(a, b) {
    const plain = (text) => text.replace(/^'(.*)'$/s, "$1").trim();
    const [x, y] = [plain(a), plain(b)];
    if (x === y) return true;
    const [m, n] = [Number(x), Number(y)];
    return x !== "" && y !== "" && Math.abs(m - n) <= 1e-6 * Math.max(Math.abs(m), Math.abs(n));
  }

  function unmatched(rows, others) {
    const fits = (row) => others.some((other) => other.length === row.length && row.every((cell, i) => isSame(cell, other[i])));
    return new Set(rows.flatMap((row, i) => (fits(row) ? [] : [i])));
  }

  function drawRows(title, rows, count, marked) {
    const heading = make("h3", {}, title);
    if (!rows) return make("div", {}, heading, make("p", { cls: "sx-note" }, "it is not whole in the log"));
    if (!rows.length) return make("div", {}, heading, make("p", { cls: "sx-note" }, "no rows"));
    const width = Math.max(...rows.map((row) => row.length));
    const cells = rows.map((row) => [...row, ...Array(width - row.length).fill("")]);
    const note = countRows(count) + (count > rows.length ? `, ${rows.length} shown` : "");
    return make("div", {}, heading, drawTable(Array(width).fill(""), cells, note, marked, title));
  }

  function drawEnd(end) {
    const title = make("b", {}, end.right ? "Right." : "Wrong.");
    const verdict = make("div", { cls: end.right ? "sx-right" : "sx-wrong", role: "status" }, title, ` ${end.why}`);
    if (!end.sql) return verdict;
    const isCompared = "answer" in end;
    const differs = isCompared && ["values", "rows"].includes(end.reason) && end.answer;
    const tables = [];
    if (end.gold && isCompared) {
      let marked = differs ? unmatched(end.answer, end.gold) : new Set();
      if (!marked.size && end.row !== null) marked = new Set([end.row]);
      tables.push(drawRows("answer", end.answer, end.n_answer, marked));
    }
    if (end.gold) tables.push(drawRows("gold", end.gold, end.n_gold, differs ? unmatched(end.gold, end.answer) : new Set()));
    const query = (title, sql) => make("div", { cls: "sx-gold" }, make("h3", {}, title), make("div", { cls: "sx-sql" }, sql));
    const own = end.query ? query("its last query", end.query) : "";
    const compared = tables.length ? make("div", { cls: "sx-two" }, tables) : "";
    const proof = end.proof ? query(...end.proof) : "";
    return make("div", {}, verdict, compared, own, query("gold query", end.sql), proof);
  }

  function drawStep(film, step, schema) {
    const turn = film.turns[step - 1];
    const nothing = film.level === "names" ? "Nothing is known yet but the names of the tables." : "Nothing has been done yet.";
    const parts = [turn ? drawTurn(turn, schema) : make("p", { cls: "sx-hint" }, nothing)];
    if (step === film.turns.length && film.end) parts.push(drawEnd(film.end));
    if (turn) parts.push(drawReward(turn[4]));
    const given = { cls: "sx-step", "data-step": step, hidden: step > 0, "aria-label": `step ${step}` };
    return make("section", given, drawStatus(film, step), parts);
  }

  function drawSteps(film) {
    if (!film.turns.length) return make("p", { cls: "sx-hint" }, "none");
    const lines = film.turns.map((turn, i) => {
      const [verb, argument, , error, reward] = turn;
      const code = make("span", {}, make("code", {}, argument.split(/\s+/).join(" ").trim().slice(0, 120)));
      const row = make("button", { type: "button", "data-go": i + 1 }, make("small", {}, i + 1), make("b", {}, verb), code, money(sum(reward)));
      return make("li", { cls: error ? "sx-fail" : "", "data-row": i + 1 }, row);
    });
    return make("ol", { cls: "sx-steps" }, lines);
  }

  // What a model said

  const words = (text) => (text && text.trim() ? make("div", { cls: "sx-words" }, text.trim()) : "");

  function drawSaid(said) {
    if (said.role === "error") return make("li", {}, make("div", { cls: "sx-error" }, said.words));
    const isModel = said.role === "assistant";
    let head = make("span", {}, isModel ? "no step" : "sent to the model");
    if (said.step) head = make("button", { type: "button", "data-go": said.step }, `step ${said.step}`);
    const parts = [make("div", { cls: "sx-said-head" }, head, make("small", {}, said.took))];
    if (said.reasoning) parts.push(make("details", {}, make("summary", {}, "reasoning"), words(said.reasoning)));
    parts.push(words(said.words));
    for (const [name, argument, problem] of said.calls) {
      const act = [make("b", { cls: "sx-verb" }, name), make("div", { cls: "sx-sql" }, argument)];
      parts.push(make("div", { cls: "sx-act" }, act));
      if (problem) parts.push(make("div", { cls: "sx-error" }, problem));
    }
    return make("li", { cls: isModel ? "sx-said" : "sx-said sx-sent", "data-row": said.step || null }, parts);
  }

  function drawWords(film) {
    const parts = [];
    if (film.said) {
      const prompt = film.prompt.map(([role, text]) => make("div", {}, make("h3", {}, role), words(text)));
      const title = make("summary", {}, `prompt, ${prompt.length} messages`);
      if (prompt.length) parts.push(make("details", { cls: "sx-prompt" }, title, prompt));
      parts.push(make("ol", { cls: "sx-talk" }, film.said.map(drawSaid)));
    }
    if (film.notes) {
      const notes = film.notes.map((note) => make("li", {}, note));
      parts.push(make("ul", { cls: "sx-notes", "aria-label": "what was wrong" }, notes));
    }
    return parts.length ? make("section", { cls: "sx-model" }, make("h3", {}, "what the model said"), parts) : "";
  }

  // The schema: which tables are known and looked into at which step

  function fromTables(sql, names) {
    const text = sql.replace(/'(?:[^']|'')*'/g, "''").toLowerCase();
    const found = new Set();
    for (const [, list] of text.matchAll(/\b(?:from|join)\s+([^()]*?)(?=\bon\b|\bwhere\b|\bgroup\b|\border\b|\blimit\b|\bunion\b|\bexcept\b|\bintersect\b|[()]|$)/gs)) {
      for (const part of list.split(/,|\bjoin\b/)) {
        const name = tableName(part.trim().split(/\s+/)[0] || "");
        if (names.includes(name)) found.add(name);
      }
    }
    return found;
  }

  function drawSchema(film, schema) {
    const names = Object.keys(schema.columns);
    const known = {};
    const touched = {};
    if (["columns", "full"].includes(film.level)) names.forEach((name) => (known[name] = 0));
    film.turns.forEach(([verb, argument, , error], i) => {
      if (error || !["DESCRIBE", "SAMPLE", "QUERY"].includes(verb)) return;
      const looked = verb === "QUERY" ? fromTables(argument, names) : [tableName(argument)];
      for (const name of looked) {
        (touched[name] ??= []).push(i + 1);
        if (verb !== "QUERY") known[name] ??= i + 1;
      }
    });
    const section = make("section", { cls: "sx-schema" }, make("h3", {}, "schema"));
    section.insertAdjacentHTML("beforeend", schema.svg);
    for (const part of section.querySelectorAll("[data-table]")) {
      const name = part.dataset.table;
      if (name in known) part.dataset.at = known[name];
      if (part.tagName === "g" && touched[name]) part.dataset.touch = touched[name].join(" ");
    }
    return section;
  }

  return (film, schema) => {
    const steps = Array.from({ length: film.turns.length + 1 }, (_, step) => drawStep(film, step, schema));
    const about = [make("span", {}, film.about), make("span", {}, film.policy ? `played by ${film.policy}` : "")];
    const note = film.note ? make("p", { cls: "sx-remark" }, film.note) : "";
    const failed = film.fail ? make("p", { cls: "sx-failed" }, make("span", {}, film.fail)) : "";
    const ask = make("header", { cls: "sx-ask" }, make("div", { cls: "sx-about" }, about), make("h2", {}, film.question), failed, note);
    const side = make("div", {}, make("h3", {}, "steps"), drawSteps(film));
    const body = make("div", { cls: "sx-body" }, make("div", { "aria-live": "polite" }, steps), side);
    const given = { cls: "sx", "data-last": film.turns.length };
    return make("article", given, ask, body, drawWords(film), schema ? drawSchema(film, schema) : "");
  };
})();
