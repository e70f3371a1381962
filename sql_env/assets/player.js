// The player on a page, in a notebook and at the server: all steps stand in the page, and it hides and shows them.
(() => {
  if (window.sqlEnvPlayer) return; // another explorer has brought it already
  window.sqlEnvPlayer = true;
  const find = (selector, part = document) => part.querySelector(selector);
  const isPage = () => document.body.classList.contains("sx-page");
  const timers = new WeakMap(); // of the players that go on by themselves
  const now = (player) => Number(player.dataset.now);

  function show(player, wanted) {
    const step = Math.max(0, Math.min(Number(player.dataset.last), wanted));
    player.dataset.now = step;
    find("[type=range]", player).value = step;
    find("output", player).textContent = `step ${step} of ${player.dataset.last}`;
    for (const episode of player.querySelectorAll("article[data-last]")) {
      const at = Math.min(step, Number(episode.dataset.last)); // the shorter one waits at its end
      for (const panel of episode.querySelectorAll("[data-step]")) panel.hidden = Number(panel.dataset.step) !== at;
      for (const table of episode.querySelectorAll("[data-known]")) {
        table.classList.toggle("sx-on", table.dataset.known !== "" && Number(table.dataset.known) <= at);
        table.classList.toggle("sx-touch", table.dataset.touched.split(" ").includes(String(at)));
      }
      for (const row of episode.querySelectorAll("[data-row]")) {
        row.classList.toggle("sx-now", Number(row.dataset.row) === at);
        row.classList.toggle("sx-later", Number(row.dataset.row) > at);
        row.setAttribute("aria-current", Number(row.dataset.row) === at ? "step" : "false");
      }
    }
  }

  function pause(player) {
    clearInterval(timers.get(player));
    timers.delete(player);
    find("[data-go=play]", player).textContent = "Play";
  }

  function play(player) {
    if (now(player) === Number(player.dataset.last)) show(player, 0);
    const next = () => {
      show(player, now(player) + 1);
      if (!player.isConnected || now(player) === Number(player.dataset.last)) pause(player);
    };
    timers.set(player, setInterval(next, 1200)); // milliseconds that a step stays
    find("[data-go=play]", player).textContent = "Pause";
  }

  function go(player, where) {
    const stops = timers.has(player);
    if (stops) pause(player);
    if (where === "play") return void (stops || play(player));
    show(player, { back: now(player) - 1, next: now(player) + 1 }[where] ?? Number(where));
  }

  // The page of runs: rows are found by words, put in order, and opened
  const shown = () => [...document.querySelectorAll("#rx-rows tr:not([hidden])")];

  function search() {
    const words = find("#rx-find").value.toLowerCase().split(/\s+/);
    for (const row of find("#rx-rows").rows) row.hidden = !words.every((word) => row.dataset.find.includes(word));
    const press = (chip) => chip.setAttribute("aria-pressed", chip.dataset.words === find("#rx-find").value);
    document.querySelectorAll("[data-words]").forEach(press);
    find("#rx-count").textContent = `${shown().length} of ${find("#rx-rows").rows.length} episodes`;
  }

  function sort(head) {
    const isDown = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    const key = (row) => row.cells[head.cellIndex].dataset.sort;
    const order = (a, b) => (isDown ? -1 : 1) * key(a).localeCompare(key(b), "en", { numeric: true });
    find("#rx-rows").append(...[...find("#rx-rows").rows].sort(order));
  }

  async function open() {
    const row = document.getElementById(location.hash.slice(1));
    if (!find("#rx-rows") && isPage() && location.hash) show(find(".sx-player"), parseInt(location.hash.slice(1), 10) || 0);
    if (!find("#rx-rows")) return;
    find("#rx-overview").hidden = Boolean(row);
    if (!row) return;
    const packed = Uint8Array.from(atob(find(`[data-pack=${row.id}]`).textContent), (c) => c.charCodeAt(0));
    const text = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    find("#rx-stage").innerHTML = await new Response(text).text(); // its text was escaped when it was written
    const rows = shown();
    find("#rx-where").textContent = `${rows.indexOf(row) + 1} of ${rows.length} · ${row.dataset.id}`;
    const near = (by) => `#${(rows[rows.indexOf(row) + by] || row).id}`;
    [find("#rx-previous").href, find("#rx-following").href] = [near(-1), near(1)];
  }

  // A person who plays: Ctrl+Enter or Cmd+Enter sends a box, up and down bring back what was sent, Alt+Z takes a step back
  function setText(box, text) {
    box.value = text;
    ["input", "change"].forEach((name) => box.dispatchEvent(new Event(name, { bubbles: true })));
  }

  function inBoard(event, board) {
    const box = event.target;
    const verb = /sx-takes-(\w+)/.exec(box.closest(".sx-takes")?.className)?.[1];
    const say = (words) => setText(find(".sx-wire textarea", board), `${performance.now()} ${words}`); // no line twice
    if (event.altKey && event.code === "KeyZ") return say("undo ") || true;
    if (!verb) return false; // it is no box of an action
    const past = JSON.parse(find("[data-past]", board)?.dataset.past || "{}")[verb] || [];
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey || event.shiftKey)) {
      delete box.dataset.at;
      return say(`${verb} ${box.value}`) || true;
    }
    const isUp = event.key === "ArrowUp" && !box.value.slice(0, box.selectionStart).includes("\n");
    const isDown = event.key === "ArrowDown" && !box.value.slice(box.selectionEnd).includes("\n");
    const at = Number(box.dataset.at ?? past.length);
    const wanted = at + (isDown ? 1 : -1);
    if (event.shiftKey || event.altKey || !(isUp || isDown) || wanted < 0 || wanted > past.length) return false;
    if (at === past.length) box.dataset.draft = box.value;
    setText(box, past[wanted] ?? box.dataset.draft);
    box.dataset.at = wanted;
    return true;
  }

  function onKey(event) {
    const { key, target } = event;
    const [board, list, around] = [".sx-board", ".sx-steps", ".sx-player"].map((part) => target.closest?.(part));
    const player = around || (isPage() && find(".sx-player"));
    const places = { ArrowLeft: "back", ArrowRight: "next", Home: "0", End: "9999" };
    const where = (list && { ArrowUp: "back", ArrowDown: "next" }[key]) || places[key];
    let taken = board && inBoard(event, board);
    const isSend = key === "Enter" && (event.ctrlKey || event.metaKey); // Cmd on a Mac
    if (isSend && target.closest?.("#se-query")) taken = find("#se-query-send").click() || true;
    if (!taken && player && !target.closest("textarea, select, [type=search], .sx-scroll")) {
      taken = (list || isPage()) && (where || (key === " " && target.tagName !== "BUTTON"));
      if (taken) go(player, where || "play");
      if (taken && list) (find(".sx-now [data-go]", player) || find(".sx-steps [data-go]", player)).focus();
    }
    if (!taken && key === "Escape" && find("#rx-rows")) location.hash = taken = "#all";
    if (taken) [event.preventDefault(), event.stopPropagation()];
  }

  addEventListener("keydown", onKey, true); // before the notebook's own keys, which would run the cell
  addEventListener("hashchange", open);
  document.addEventListener("input", ({ target, isTrusted }) => {
    if (isTrusted) delete target.dataset.at;
    if (target.id === "rx-find") search();
    if (target.type === "range" && target.closest(".sx-player")) go(target.closest(".sx-player"), target.value);
  });
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-go], [data-words], th[data-sorts]");
    if (button?.dataset.go) go(button.closest(".sx-player"), button.dataset.go);
    if (button?.dataset.words !== undefined) search((find("#rx-find").value = button.dataset.words));
    if (button?.dataset.sorts) sort(button);
    if (!button && target.closest("#rx-rows tr")) location.hash = target.closest("#rx-rows tr").id;
  });
  open();
  document.body.dataset.keys = "heard"; // a key that is pressed while the page still loads is lost
})();
