// The table of a run: filters, order, keys, and which episode is open. The page holds all data; nothing is fetched.
(() => {
  const find = (selector) => document.querySelector(selector);
  const { runs, rows, films } = JSON.parse(find("#rx-data").textContent);
  const body = find("#rx-rows");
  const search = find("#rx-search");
  const chunk = 200; // rows that are added to the table at once
  const filter = { state: "all", database: "", difficulty: "", kind: "", text: "" };
  let order = { key: "index", up: true };
  let shown = []; // rows that fit, in their order
  let drawn = 0; // of them in the table
  let open = -1; // index in `shown` of the open episode
  let place = 0; // where the list was scrolled to

  const words = { right: "right", wrong: "wrong", gave_up: "gave up", crashed: "crashed", abstained: "abstained" };
  const played = (row) => row.runs.filter(Boolean);
  const any = (test) => (row) => played(row).some(test);
  const isOver = (e) => e && e.state !== "crashed";
  const only = (i) => (row) => row.runs.every((e, j) => isOver(e) && (e.state === "right") === (i === j));
  const states = [
    ["all", "all", () => true],
    ["right", "right", any((e) => e.state === "right")],
    ["wrong", "wrong", any((e) => e.state === "wrong")],
    ["gave_up", "gave up", any((e) => e.state === "gave_up")],
    ["crashed", "crashed", any((e) => e.state === "crashed")],
    ["not_robust", "right, not robust", any((e) => e.state === "right" && e.robust === false)],
    ["not_grounded", "right, not grounded", any((e) => e.state === "right" && !e.grounded)],
  ];
  if (rows.some(any((e) => e.state === "abstained"))) {
    states.push(["abstained", "abstained", any((e) => e.state === "abstained")]);
  }
  if (runs.length === 2) {
    const short = (name) => (name.length > 26 ? `${name.slice(0, 24)}…` : name);
    runs.forEach((name, i) => states.push([`only${i}`, `only ${short(name)}`, only(i)]));
  }
  const isFlip = (row) => new Set(row.runs.map((e) => e && e.state === "right")).size > 1;
  if (runs.length > 1) states.push(["flipped", "flipped", (row) => row.runs.every(isOver) && isFlip(row)]);

  const sum = (row, name) => played(row).reduce((total, e) => total + (e[name] || 0), 0);
  const rank = { right: 0, abstained: 0.5, wrong: 1, gave_up: 2, crashed: 3 };
  const keys = {
    index: (row) => row.index,
    question: (row) => row.id,
    database: (row) => row.database,
    difficulty: (row) => ["easy", "medium", "hard"].indexOf(row.difficulty),
    steps: (row) => sum(row, "steps"),
    tokens: (row) => sum(row, "tokens"),
    cost: (row) => sum(row, "cost"),
    seconds: (row) => sum(row, "seconds"),
  };
  runs.forEach((_, i) => {
    keys[`run${i}`] = (row) => (row.runs[i] ? rank[row.runs[i].state] * 2 + (row.runs[i].robust === false ? 1 : 0) : 9);
  });

  function make(name, cls, text) {
    const made = document.createElement(name);
    if (cls) made.className = cls;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function fits(row, without) {
    const is = (name, test) => name === without || !filter[name] || test(filter[name]);
    return (
      (without === "state" || states.find((s) => s[0] === filter.state)[2](row)) &&
      is("database", (wanted) => row.database === wanted) &&
      is("difficulty", (wanted) => row.difficulty === wanted) &&
      is("kind", (wanted) => played(row).some((e) => e.kinds.includes(wanted))) &&
      filter.text.split(/\s+/).every((word) => row.text.includes(word))
    );
  }

  // One cell of the table for what a run made of a question
  function resultCell(e) {
    const cell = make("td");
    if (!e) {
      cell.append(make("span", "rx-small", "not played"));
      return cell;
    }
    cell.append(make("span", `rx-state rx-${e.state}`, words[e.state]));
    const tags = make("div", "rx-tags");
    const tag = (text, alarm) => tags.append(make("span", alarm ? "rx-alarm" : "", text));
    if (e.why) tag(e.why);
    if (e.asked) tag(e.asked > 1 ? `asked ${e.asked} times` : "asked");
    if (e.state === "right" && e.robust === false) tag("not robust", true);
    if (e.state === "right" && e.robust === null) tag("robust not judged");
    if (e.state === "right" && !e.grounded) tag("not grounded", true);
    if (e.bad) tag(`${e.bad} malformed`, true);
    if (runs.length > 1 && e.steps) tag(`${e.steps} steps`);
    const counts = {};
    for (const kind of e.kinds) counts[kind] = (counts[kind] || 0) + 1;
    for (const kind in counts) tag(kind.replaceAll("_", " ") + (counts[kind] > 1 ? ` ×${counts[kind]}` : ""));
    if (tags.childNodes.length) cell.append(tags);
    return cell;
  }

  const money = (x) => (x ? x.toFixed(x < 0.1 ? 4 : 2) : "");
  const whole = (x) => (x ? Math.round(x).toLocaleString("en") : "");

  function rowElement(row) {
    const line = make("tr");
    line.dataset.number = row.number;
    const number = (text, cls) => line.append(make("td", `rx-number ${cls}`, text));
    number(row.index, "rx-wide");
    const ask = make("td");
    const link = make("a", "", row.id);
    link.href = `#e${row.number}`;
    ask.append(make("span", "rx-ask", row.question || row.id));
    ask.append(link);
    line.append(ask);
    line.append(make("td", "rx-wide", row.database.replaceAll("_", " ")), make("td", "rx-wide", row.difficulty));
    for (const e of row.runs) line.append(resultCell(e));
    for (const column of document.querySelectorAll("#rx-head [data-sum]")) {
      const name = column.dataset.sum;
      const x = sum(row, name);
      number(name === "cost" ? money(x) : name === "seconds" ? x.toFixed(1) : whole(x), "rx-wide");
    }
    return line;
  }

  function draw() {
    const part = document.createDocumentFragment();
    for (const row of shown.slice(drawn, drawn + chunk)) part.append(rowElement(row));
    drawn = Math.min(shown.length, drawn + chunk);
    body.append(part);
  }

  function list() {
    shown = rows.filter((row) => fits(row));
    const key = keys[order.key];
    const compare = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0);
    shown.sort((a, b) => (order.up ? compare(a, b) : compare(b, a)) || a.number - b.number);
    body.replaceChildren();
    drawn = 0;
    draw();
    find("#rx-none").hidden = shown.length > 0;
    find("#rx-count").textContent = `${shown.length} of ${rows.length} episodes`;
    const others = rows.filter((row) => fits(row, "state"));
    for (const button of document.querySelectorAll("#rx-chips button")) {
      const [name, , test] = states.find((s) => s[0] === button.value);
      const count = others.filter(test).length;
      button.querySelector("small").textContent = count;
      button.disabled = !count && name !== filter.state;
      button.setAttribute("aria-pressed", String(name === filter.state));
    }
    for (const head of document.querySelectorAll("#rx-head th")) {
      head.removeAttribute("aria-sort");
      if (head.dataset.key === order.key) head.setAttribute("aria-sort", order.up ? "ascending" : "descending");
    }
    for (const button of document.querySelectorAll(".rx-groups button")) {
      button.setAttribute("aria-pressed", String(filter[button.name] === button.value));
    }
    for (const name of ["database", "difficulty", "kind"]) find(`#rx-${name}`).value = filter[name];
  }

  function choose(name, value) {
    filter[name] = value;
    list();
  }

  // Menus, chips, and rates of the parts of the set, all from the data
  function values(name) {
    const of = (row) => (name === "kind" ? played(row).flatMap((e) => e.kinds) : row[name]);
    const found = rows.flatMap(of);
    const unique = [...new Set(found)].filter(Boolean);
    const level = (value) => keys.difficulty({ difficulty: value });
    return name === "difficulty" ? unique.sort((a, b) => level(a) - level(b)) : unique.sort();
  }

  function fillMenus() {
    for (const name of ["database", "difficulty", "kind"]) {
      const menu = find(`#rx-${name}`);
      for (const value of values(name)) {
        const option = make("option", "", value.replaceAll("_", " "));
        option.value = value;
        menu.append(option);
      }
      menu.hidden = menu.options.length < 3;
      menu.addEventListener("change", () => choose(name, menu.value));
    }
    for (const [name, label] of states) {
      const button = make("button", "", label);
      button.value = name;
      button.append(make("small"));
      button.addEventListener("click", () => choose("state", name));
      find("#rx-chips").append(button);
    }
  }

  function fillGroups() {
    for (const name of ["difficulty", "database"]) {
      const group = make("div");
      group.append(make("h3", "", name));
      for (const value of values(name)) {
        const those = rows.filter((row) => row[name] === value);
        const button = make("button");
        button.name = name;
        button.value = value;
        const bars = make("i");
        const rates = runs.map((_, i) => {
          const done = those.map((row) => row.runs[i]).filter((e) => e && e.state !== "crashed");
          const rate = done.filter((e) => e.state === "right").length / (done.length || 1);
          const bar = make("b");
          const fill = make("u");
          fill.style.width = `${100 * rate}%`;
          bar.append(fill);
          bars.append(bar);
          return done.length ? `${Math.round(100 * rate)}` : "-";
        });
        button.append(make("span", "", value.replaceAll("_", " ")), bars);
        button.append(make("span", "", `${rates.join(" / ")} % of ${those.length}`));
        button.addEventListener("click", () => choose(name, filter[name] === value ? "" : value));
        group.append(button);
      }
      find(".rx-groups").append(group);
    }
  }

  // The player
  async function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }

  function remember(hash) {
    try {
      history.replaceState(null, "", hash || "#");
    } catch {
      // a frame without an address
    }
  }

  async function openEpisode(position) {
    if (position < 0 || position >= shown.length) return;
    if (open < 0) place = scrollY;
    open = position;
    const row = shown[position];
    const html = await unpack(films[row.number]);
    if (open < 0 || shown[open] !== row) return; // another one was chosen meanwhile
    find("#rx-stage").innerHTML = html; // text in it was escaped when it was written; scripts do not run
    find("#rx-overview").hidden = true;
    find("#rx-film").hidden = false;
    document.body.classList.toggle("sx-pair", played(row).length > 1);
    find("#rx-where").textContent = `${position + 1} of ${shown.length} · ${row.id}`;
    find("#rx-previous").disabled = position === 0;
    find("#rx-following").disabled = position === shown.length - 1;
    document.dispatchEvent(new Event("sx-episodes"));
    scrollTo(0, 0);
    remember(`#e${row.number}`);
  }

  function closeEpisode() {
    if (open < 0) return;
    const { number } = shown[open];
    while (drawn <= open) draw();
    open = -1;
    find("#rx-film").hidden = true;
    find("#rx-overview").hidden = false;
    find("#rx-stage").replaceChildren();
    document.dispatchEvent(new Event("sx-episodes"));
    remember("");
    scrollTo(0, place);
    body.querySelector(`tr[data-number="${number}"] a`)?.focus({ preventScroll: false });
  }

  function openNumber(number) {
    const position = shown.findIndex((row) => row.number === number);
    if (position >= 0) openEpisode(position);
  }

  function openAddress() {
    const found = /^#e(\d+)$/.exec(location.hash);
    if (found) openNumber(Number(found[1]));
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
      if (open >= 0) closeEpisode();
      else if (isTyping) event.target.blur();
      return;
    }
    if (isTyping) {
      if (event.key === "Enter" && event.target === search) moveFocus(1);
      return;
    }
    const by = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (open >= 0) {
      if (event.key === "j" || event.key === "k") openEpisode(open + by);
    } else if (by) {
      event.preventDefault();
      moveFocus(by);
    } else if (event.key === "/") {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (/^\d$/.test(event.key) && states[event.key - 1]) {
      choose("state", states[event.key - 1][0]);
    }
  }

  rows.forEach((row, number) => Object.assign(row, { number }));
  fillMenus();
  fillGroups();
  list();
  search.addEventListener("input", () => choose("text", search.value.toLowerCase().trim()));
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
    openNumber(Number(line.dataset.number));
  });
  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && drawn < shown.length) draw();
  }, { rootMargin: "800px" }).observe(find("#rx-more"));
  find("#rx-close").addEventListener("click", closeEpisode);
  find("#rx-previous").addEventListener("click", () => openEpisode(open - 1));
  find("#rx-following").addEventListener("click", () => openEpisode(open + 1));
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", openAddress);
  openAddress();
})();
