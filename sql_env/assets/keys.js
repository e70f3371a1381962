// Keys and step buttons of the explorer in a notebook. What was pressed goes to Python as a line in a hidden field;
// what comes of it is drawn by Python.
(() => {
  if (window.sqlEnvKeys) return; // another explorer has brought them already
  window.sqlEnvKeys = true;

  function setText(box, text) {
    box.value = text;
    for (const name of ["input", "change"]) box.dispatchEvent(new Event(name, { bubbles: true }));
  }

  // The number in front makes a line that is said twice another one
  function say(part, words) {
    const field = [...part.querySelectorAll(".sx-wire textarea")].find((f) => f.closest(".sx-live") === part);
    if (field) setText(field, `${performance.now()} ${words}`);
  }

  // What was written before, of the kind of a box, oldest first
  function earlier(board, verb) {
    return JSON.parse(board.querySelector("[data-past]")?.dataset.past || "{}")[verb] || [];
  }

  // Up and down at the edge of a box go through what was written before; a draft is kept at the end
  function walk(board, box, verb, by) {
    const past = earlier(board, verb);
    const at = box.dataset.at === undefined ? past.length : Number(box.dataset.at);
    const wanted = at + by;
    if (wanted < 0 || wanted > past.length) return;
    if (at === past.length) box.dataset.draft = box.value;
    setText(box, wanted === past.length ? box.dataset.draft : past[wanted]);
    box.dataset.at = wanted;
  }

  function inBox(event, board, box) {
    const verb = /sx-takes-(\w+)/.exec(box.closest(".sx-takes")?.className)?.[1];
    if (!verb) return false;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey || event.shiftKey)) {
      delete box.dataset.at;
      say(board, `${verb} ${box.value}`);
      return true;
    }
    const plain = !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey;
    const isUp = event.key === "ArrowUp" && !box.value.slice(0, box.selectionStart).includes("\n");
    const isDown = event.key === "ArrowDown" && !box.value.slice(box.selectionEnd).includes("\n");
    if (!plain || !(isUp || isDown)) return false;
    walk(board, box, verb, isUp ? -1 : 1);
    return true;
  }

  // After a step is drawn its button has the focus, so that the keyboard alone goes on
  function go(player, wanted) {
    const old = player.querySelector(".sx-steps");
    const drawn = new MutationObserver(() => {
      if (player.querySelector(".sx-steps") === old) return;
      drawn.disconnect();
      (player.querySelector(".sx-now [data-go]") || player.querySelector("[data-go]"))?.focus();
    });
    drawn.observe(player, { subtree: true, childList: true });
    setTimeout(() => drawn.disconnect(), 5000);
    say(player, `go ${wanted}`);
  }

  function inSteps(event, player) {
    const list = event.target.closest(".sx-steps");
    if (!list) return false;
    const now = Number(list.querySelector(".sx-now")?.dataset.row || 0);
    const targets = { ArrowUp: now - 1, ArrowLeft: now - 1, ArrowDown: now + 1, ArrowRight: now + 1, Home: 0, End: 9999 };
    if (!(event.key in targets)) return false;
    go(player, Math.max(0, targets[event.key]));
    return true;
  }

  // Before the notebook's own keys, which would run the cell
  function onKey(event) {
    const part = event.target.closest?.(".sx-live");
    if (!part) return;
    const board = event.target.closest(".sx-board");
    let taken = false;
    if (board && event.altKey && event.code === "KeyZ") {
      say(board, "undo ");
      taken = true;
    } else if (board && event.target.tagName === "TEXTAREA") {
      taken = inBox(event, board, event.target);
    } else {
      taken = inSteps(event, part);
    }
    if (!taken) return;
    event.preventDefault();
    event.stopPropagation();
  }

  addEventListener("keydown", onKey, true);
  document.addEventListener("input", (event) => {
    if (event.isTrusted) delete event.target.dataset?.at;
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".sx-live [data-go]");
    if (button) go(button.closest(".sx-live"), button.dataset.go);
  });
})();
