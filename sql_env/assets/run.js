// The table of runs: filters, order, keys, and which episode is open. A page that was written holds all data, packed;
// a page that `--follow` serves asks its server for them, and for what is new.
(async () => {
  const find = (selector) => document.querySelector(selector);
  const page = JSON.parse(find("#rx-data").textContent);
  const { runs, failures } = page;
  const body = find("#rx-rows");
  const search = find("#rx-search");
  const chunk = 200; // rows that are added to the table at once
  const filter = { state: "all", fail: "", database: "", difficulty: "", kind: "", text: "" };
  const menus = ["database", "difficulty", "kind"];
  let rows = [];
  let texts = null; // what a search looks into, read when one is begun
  let order = { key: "index", up: true };
  let shown = []; // rows that fit, in their order
  let drawn = 0; // of them in the table
  let judged = false; // whether any answer was judged on variants
  let open = null; // the row of the open episode
  let place = 0; // where the list was scrolled to

  // Where the data come from

  async function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  const packs = (name) => [...document.querySelectorAll(`[data-pack="${name}"]`)].map((e) => e.textContent);

  function fileSource() {
    const films = packs("films");
    let last = [-1, null]; // the chunk that was unpacked last
    return {
      rows: async () => (await Promise.all(packs("rows").map(unpack))).flat(),
      texts: async () => (await Promise.all(packs("texts").map(unpack))).flat(),
      schemas: () => unpack(packs("schemas")[0]),
      async films(number) {
        const at = Math.floor(number / page.chunk);
        if (last[0] !== at) last = [at, await unpack(films[at])];
        return last[1][number % page.chunk];
      },
    };
  }

  async function ask(address) {
    const response = await fetch(address, { cache: "no-store" });
    if (!response.ok) throw new Error(`${address}: ${response.status}`);
    return response.json();
  }

  const liveSource = () => ({
    rows: async () => [],
    texts: () => ask("texts"),
    schemas: () => ask("schemas"),
    films: (number) => ask(`films/${number}`),
  });

  const source = page.live ? liveSource() : fileSource();
  let schemas = null;

  // How an episode ended, and which fit a filter

  const words = { right: "right", wrong: "wrong", gave_up: "no answer", crashed: "crashed", abstained: "abstained" };
  const played = (row) => row.runs.filter(Boolean);
  const any = (test) => (row) => row.runs.some((e) => e && test(e));
  const isOver = (e) => e && e.state !== "crashed";
  const only = (i) => (row) => row.runs.every((e, j) => isOver(e) && (e.state === "right") === (i === j));
  const isFlip = (row) => new Set(row.runs.map((e) => e && e.state === "right")).size > 1;
  const short = (name) => (name.length > 26 ? `${name.slice(0, 24)}…` : name);
  const states = [
    ["all", "all", () => true],
    ["right", "right", any((e) => e.state === "right")],
    ["wrong", "wrong", any((e) => e.state === "wrong")],
    ["gave_up", "no answer", any((e) => e.state === "gave_up")],
    ["crashed", "crashed", any((e) => e.state === "crashed")],
    ["not_robust", "right, not robust", any((e) => e.state === "right" && e.robust === false)],
    ["not_grounded", "right, not grounded", any((e) => e.state === "right" && !e.grounded)],
    ["abstained", "abstained", any((e) => e.state === "abstained")],
  ];
  if (runs.length === 2) runs.forEach((name, i) => states.push([`only${i}`, `only ${short(name)}`, only(i)]));
  if (runs.length > 1) states.push(["flipped", "flipped", (row) => row.runs.every(isOver) && isFlip(row)]);

  const sum = (row, name) => played(row).reduce((total, e) => total + (e[name] || 0), 0);
  const rank = { right: 0, abstained: 0.5, wrong: 1, gave_up: 2, crashed: 3 };
  const level = (row) => ["easy", "medium", "hard"].indexOf(row.difficulty);
  const keys = { index: (row) => row.index, question: (row) => row.id, database: (row) => row.database, difficulty: level };
  for (const name of ["steps", "tokens", "cost", "seconds"]) keys[name] = (row) => sum(row, name);
  runs.forEach((_, i) => {
    keys[`run${i}`] = (row) => (row.runs[i] ? rank[row.runs[i].state] * 2 + (row.runs[i].robust === false ? 1 : 0) : 9);
  });

  function make(name, cls, text) {
    const made = document.createElement(name);
    if (cls) made.className = cls;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const hasText = (row) => !texts || filter.text.split(/\s+/).every((word) => (texts[row.number] || "").includes(word));

  function fits(row, without) {
    const is = (name, test) => name === without || !filter[name] || test(filter[name]);
    return (
      (without === "state" || states.find((s) => s[0] === filter.state)[2](row)) &&
      is("fail", (wanted) => row.runs.some((e) => e && e.fail === wanted)) &&
      is("database", (wanted) => row.database === wanted) &&
      is("difficulty", (wanted) => row.difficulty === wanted) &&
      is("kind", (wanted) => row.runs.some((e) => e && e.kinds.includes(wanted))) &&
      (!filter.text || hasText(row))
    );
  }

  // The table

  function resultCell(e) {
    const cell = make("td");
    if (!e) {
      cell.append(make("span", "rx-small", "not played"));
      return cell;
    }
    cell.append(make("span", `rx-state rx-${e.state}`, words[e.state]));
    const tags = make("div", "rx-tags");
    const tag = (text, cls = "") => tags.append(make("span", cls, text));
    if (e.fail) tag(failures[e.fail] || e.fail, "rx-fail");
    if (e.why) tag(e.why);
    if (e.state === "right" && e.robust === false) tag("not robust", "rx-alarm");
    if (e.state === "right" && e.robust === null && judged) tag("robust not judged");
    if (e.state === "right" && !e.grounded) tag("not grounded", "rx-alarm");
    if (e.bad) tag(e.bad === 1 ? "1 unusable message" : `${e.bad} unusable messages`, "rx-alarm");
    if (runs.length > 1 && e.steps) tag(e.steps === 1 ? "1 step" : `${e.steps} steps`);
    const counts = {};
    for (const kind of e.kinds) counts[kind] = (counts[kind] || 0) + 1;
    for (const kind in counts) tag(kind.replaceAll("_", " ") + (counts[kind] > 1 ? ` ×${counts[kind]}` : ""));
    if (tags.childNodes.length) cell.append(tags);
    return cell;
  }

  const money = (x) => (x ? x.toFixed(x < 0.1 ? 4 : 2) : "");
  const whole = (x) => (x ? Math.round(x).toLocaleString("en") : "");
  const written = { cost: money, seconds: (x) => x.toFixed(1) };
  const sumHeads = () => [...document.querySelectorAll("#rx-head [data-sum]")].filter((head) => !head.hidden);

  function rowElement(row, sums) {
    const line = make("tr", row.isNew ? "rx-new" : "");
    line.dataset.number = row.number;
    const number = (text, cls) => line.append(make("td", `rx-number ${cls}`, text));
    number(row.index, "rx-wide");
    const question = make("td");
    const link = make("a", "", row.id);
    link.href = `#e${row.number}`;
    question.append(make("span", "rx-ask", row.question || row.id), link);
    line.append(question);
    line.append(make("td", "rx-wide", row.database.replaceAll("_", " ")), make("td", "rx-wide", row.difficulty));
    row.runs.forEach((e, i) => {
      const cell = resultCell(e);
      if (runs.length > 1) cell.dataset.run = runs[i];
      line.append(cell);
    });
    for (const head of sums) number((written[head.dataset.sum] || whole)(sum(row, head.dataset.sum)), "rx-wide");
    return line;
  }

  function draw(wanted = chunk) {
    const part = document.createDocumentFragment();
    const sums = sumHeads();
    for (const row of shown.slice(drawn, drawn + wanted)) part.append(rowElement(row, sums));
    drawn = Math.min(shown.length, drawn + wanted);
    body.append(part);
  }

  function count(buttons, others, test) {
    for (const button of buttons) {
      const n = others.filter(test(button.value)).length;
      button.querySelector("small").textContent = n.toLocaleString("en");
      const isChosen = button.value === filter[button.name];
      button.disabled = !n && !isChosen;
      button.hidden = !n && !isChosen && button.dataset.always === undefined;
      button.setAttribute("aria-pressed", String(isChosen));
    }
  }

  function list(wanted = chunk) {
    shown = rows.filter((row) => row && fits(row));
    const key = keys[order.key];
    const compare = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0);
    shown.sort((a, b) => (order.up ? compare(a, b) : compare(b, a)) || a.number - b.number);
    for (const head of document.querySelectorAll("#rx-head [data-sum]")) {
      head.hidden = !rows.some((row) => row && sum(row, head.dataset.sum));
    }
    judged = rows.some((row) => row && row.runs.some((e) => e && e.state === "right" && e.robust !== null));
    body.replaceChildren();
    drawn = 0;
    draw(wanted);
    find("#rx-none").hidden = shown.length > 0;
    find("#rx-none").textContent = rows.length ? "No episode fits. Choose fewer filters." : "No episode yet.";
    const n = (x) => x.toLocaleString("en");
    find("#rx-count").textContent = `${n(shown.length)} of ${n(rows.length)} episodes`;
    const buttons = (name) => document.querySelectorAll(`#rx-${name} button`);
    const state = (name) => states.find((s) => s[0] === name)[2];
    count(buttons("chips"), rows.filter((row) => row && fits(row, "state")), state);
    count(buttons("fails"), rows.filter((row) => row && fits(row, "fail")), (kind) => any((e) => e.fail === kind));
    find("#rx-fails").hidden = ![...buttons("fails")].some((button) => !button.hidden);
    for (const head of document.querySelectorAll("#rx-head th")) {
      head.removeAttribute("aria-sort");
      if (head.dataset.key === order.key) head.setAttribute("aria-sort", order.up ? "ascending" : "descending");
    }
    for (const button of document.querySelectorAll(".rx-groups button")) {
      button.setAttribute("aria-pressed", String(filter[button.name] === button.value));
    }
    for (const name of menus) find(`#rx-${name}`).value = filter[name];
  }

  function choose(name, value) {
    filter[name] = value;
    list();
  }

  async function look() {
    filter.text = search.value.toLowerCase().trim();
    if (filter.text && !texts) texts = await source.texts();
    list();
  }

  // Menus, chips, and rates of the parts of the set, all from the data

  function values(name) {
    const of = (row) => (name === "kind" ? played(row).flatMap((e) => e.kinds) : row[name]);
    const unique = [...new Set(rows.flatMap((row) => (row ? of(row) : [])))].filter(Boolean);
    return name === "difficulty" ? unique.sort((a, b) => level({ difficulty: a }) - level({ difficulty: b })) : unique.sort();
  }

  function fillMenus() {
    for (const name of menus) {
      const menu = find(`#rx-${name}`);
      const options = values(name).map((value) => {
        const option = make("option", "", value.replaceAll("_", " "));
        option.value = value;
        return option;
      });
      menu.replaceChildren(menu.options[0], ...options);
      menu.hidden = options.length < 2;
    }
  }

  function chip(name, value, label, choice) {
    const button = make("button", "", label);
    button.type = "button";
    button.name = name;
    button.value = value;
    button.append(make("small"));
    button.addEventListener("click", () => choose(name, choice(value)));
    return button;
  }

  function makeHeads() {
    const wide = (key, label = key) => [key, label, "rx-wide"];
    const columns = [wide("index", "#"), ["question", "question", ""], wide("database"), wide("difficulty", "level")];
    runs.forEach((name, i) => columns.push([`run${i}`, runs.length > 1 ? name : "result", ""]));
    const sums = runs.length > 1 ? ["tokens", "cost", "seconds"] : ["steps", "tokens", "cost", "seconds"];
    for (const [key, label, cls] of [...columns, ...sums.map((name) => wide(name))]) {
      const head = make("th", cls);
      head.scope = "col";
      head.dataset.key = key;
      if (sums.includes(key)) head.dataset.sum = key;
      const button = make("button", "", label);
      button.type = "button";
      button.title = label;
      head.append(button);
      find("#rx-head").append(head);
    }
  }

  function makeChips() {
    for (const [name, label] of states) {
      const button = chip("state", name, label, (value) => value);
      if (["all", "right", "wrong"].includes(name)) button.dataset.always = "";
      find("#rx-chips").append(button);
    }
    for (const [kind, label] of Object.entries(failures)) {
      find("#rx-fails").append(chip("fail", kind, label, (value) => (filter.fail === value ? "" : value)));
    }
  }

  function groupLine(name, value, label, shares, said, title) {
    const button = make("button");
    button.title = title;
    button.type = "button";
    button.name = name;
    button.value = value;
    const bars = make("i");
    for (const share of shares) {
      const bar = make("b");
      const fill = make("u");
      fill.style.width = `${100 * share}%`;
      bar.append(fill);
      bars.append(bar);
    }
    button.append(make("span", "", label), bars, make("span", "", said));
    button.addEventListener("click", () => choose(name, filter[name] === value ? "" : value));
    return button;
  }

  function rateLine(name, value) {
    const those = rows.filter((row) => row && row[name] === value);
    const rates = runs.map((_, i) => {
      const done = those.map((row) => row.runs[i]).filter(isOver);
      return done.length ? done.filter((e) => e.state === "right").length / done.length : NaN;
    });
    const text = rates.map((rate) => (rate >= 0 ? Math.round(100 * rate) : "-")).join(" / ");
    const shares = rates.map((rate) => rate || 0);
    return groupLine(name, value, value.replaceAll("_", " "), shares, `${text} %`, `${those.length} episodes`);
  }

  function failureLines() {
    const counts = {};
    const failed = runs.map(() => 0);
    for (const row of rows) {
      row?.runs.forEach((e, i) => {
        if (!e || !e.fail) return;
        (counts[e.fail] ??= runs.map(() => 0))[i] += 1;
        failed[i] += 1;
      });
    }
    const total = (kind) => counts[kind].reduce((all, n) => all + n, 0);
    return Object.keys(counts)
      .sort((a, b) => total(b) - total(a))
      .map((kind) => {
        const shares = counts[kind].map((n, i) => n / (failed[i] || 1));
        const title = `share of the failures of ${runs.length > 1 ? "each run" : "the run"}`;
        return groupLine("fail", kind, failures[kind] || kind, shares, counts[kind].join(" / "), title);
      });
  }

  function fillGroups() {
    const parts = [
      ["level", values("difficulty").map((value) => rateLine("difficulty", value))],
      ["database", values("database").map((value) => rateLine("database", value))],
      ["what went wrong", failureLines()],
    ];
    const groups = parts
      .filter(([, lines]) => lines.length)
      .map(([title, lines]) => {
        const group = make("div");
        const inside = make("div", "rx-lines");
        inside.append(...lines);
        group.append(make("h3", "", title), inside);
        return group;
      });
    find(".rx-groups").replaceChildren(...groups);
    find(".rx-parts").hidden = !groups.length;
  }

  // The player

  function remember(hash) {
    try {
      history.replaceState(null, "", hash || "#");
    } catch {
      // a frame without an address
    }
  }

  function showPlace(position) {
    find("#rx-where").textContent = `${position + 1} of ${shown.length} · ${open.id}`;
    find("#rx-previous").disabled = position <= 0;
    find("#rx-following").disabled = position === shown.length - 1;
  }

  async function openEpisode(row) {
    if (!row) return;
    if (!open) place = scrollY;
    open = row;
    schemas ??= await source.schemas();
    const films = await source.films(row.number);
    if (open !== row) return; // another one was chosen meanwhile
    find("#rx-stage").replaceChildren(...films.map((film) => drawFilm(film, schemas[film.database])));
    find("#rx-overview").hidden = true;
    find("#rx-film").hidden = false;
    document.body.classList.toggle("sx-pair", films.length > 1);
    showPlace(shown.indexOf(row));
    document.dispatchEvent(new Event("sx-episodes"));
    scrollTo(0, 0);
    remember(`#e${row.number}`);
  }

  function moveOpen(by) {
    openEpisode(shown[shown.indexOf(open) + by]);
  }

  function closeEpisode() {
    if (!open) return;
    const { number } = open;
    const position = shown.indexOf(open);
    if (drawn <= position) draw(position + 1 - drawn);
    open = null;
    find("#rx-film").hidden = true;
    find("#rx-overview").hidden = false;
    find("#rx-stage").replaceChildren();
    document.dispatchEvent(new Event("sx-episodes"));
    remember("");
    scrollTo(0, place);
    body.querySelector(`tr[data-number="${number}"] a`)?.focus({ preventScroll: false });
  }

  function openAddress() {
    const found = /^#e(\d+)$/.exec(location.hash);
    if (found) openEpisode(rows[Number(found[1])]);
    else closeEpisode();
  }

  function moveFocus(by) {
    const links = [...body.querySelectorAll("a")];
    const now = links.indexOf(document.activeElement);
    if (now + by >= drawn) draw();
    const next = body.querySelectorAll("a")[Math.max(0, Math.min(shown.length - 1, now + by))];
    next?.focus();
    next?.closest("tr").scrollIntoView({ block: "nearest" });
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target.closest("input[type=search], select");
    if (event.key === "Escape") {
      if (open) closeEpisode();
      else if (isTyping) event.target.blur();
      return;
    }
    if (isTyping) {
      if (event.key === "Enter" && event.target === search) moveFocus(1);
      return;
    }
    const by = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (open) {
      if (event.key === "j" || event.key === "k") moveOpen(by);
    } else if (by) {
      event.preventDefault();
      moveFocus(by);
    } else if (event.key === "/") {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (/^\d$/.test(event.key)) {
      const button = [...document.querySelectorAll("#rx-chips button")].filter((b) => !b.hidden)[event.key - 1];
      if (button && !button.disabled) button.click();
    }
  }

  // What is new, on a page that follows runs

  let version = 0;

  function say(text, isAlarm = false) {
    const output = find("#rx-live");
    output.textContent = text;
    output.classList.toggle("rx-alarm", isAlarm);
  }

  function takeIn(news) {
    for (const row of news.rows) {
      row.isNew = version > 0 && !rows[row.number];
      if (open && open.number === row.number) open = row;
      rows[row.number] = row;
    }
    texts = null;
    if (!find("#rx-figures details[open]")) find("#rx-figures").innerHTML = news.figures; // escaped by the server
    find("#rx-skipped").replaceChildren(...news.skipped.map((sentence) => make("li", "", sentence)));
    find("#rx-skipped").hidden = !news.skipped.length;
    version = news.version;
    fillMenus();
    fillGroups();
    const focused = document.activeElement?.closest?.("tr[data-number]")?.dataset.number;
    if (filter.text) look();
    else list(Math.max(chunk, drawn));
    if (focused) body.querySelector(`tr[data-number="${focused}"] a`)?.focus({ preventScroll: true });
    if (open) showPlace(shown.indexOf(open));
    rows.forEach((row) => delete row.isNew);
  }

  async function follow() {
    const started = Date.now();
    try {
      const news = await ask(`news?since=${version}`);
      if (JSON.stringify(news.runs) !== JSON.stringify(runs)) {
        location.reload(); // another run: other columns
        return;
      }
      if (news.version !== version) takeIn(news);
      say(`following, ${new Date().toLocaleTimeString()}`);
    } catch {
      say("the server has ended: what is shown stays", true);
    }
    setTimeout(follow, Math.max(1000, 4 * (Date.now() - started)));
  }

  document.body.style.setProperty("--rx-runs", runs.length);
  document.body.classList.toggle("rx-many", runs.length > 1);
  makeHeads();
  makeChips();
  rows = await source.rows();
  rows.forEach((row, number) => Object.assign(row, { number }));
  fillMenus();
  fillGroups();
  list();
  search.addEventListener("input", look);
  for (const name of menus) find(`#rx-${name}`).addEventListener("change", (event) => choose(name, event.target.value));
  find("#rx-head").addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (!head) return;
    const { key } = head.dataset;
    order = { key, up: order.key === key ? !order.up : !head.dataset.sum };
    list();
  });
  body.addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    if (!line || String(getSelection())) return;
    event.preventDefault();
    openEpisode(rows[Number(line.dataset.number)]);
  });
  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && drawn < shown.length) draw();
  }, { rootMargin: "800px" }).observe(find("#rx-more"));
  find("#rx-close").addEventListener("click", closeEpisode);
  find("#rx-previous").addEventListener("click", () => moveOpen(-1));
  find("#rx-following").addEventListener("click", () => moveOpen(1));
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", openAddress);
  if (page.live) await follow();
  if (location.hash) openAddress();
  document.body.dataset.ready = "";
})();
