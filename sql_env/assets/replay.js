// Shows one step at a time of the episodes on a page. A page that brings in other episodes sends `sx-episodes`.
// It holds no data: every step is in the page already, and the script only changes classes and attributes.
(() => {
  const find = (selector) => document.querySelector(selector);
  const slider = find("#sx-slider");
  const play = find("#sx-play");
  const position = find("#sx-position");
  let episodes = [];
  let last = 0;
  const interval = 1200; // milliseconds between two steps
  let step = 0;
  let timer = 0;

  function showEpisode(episode, wanted) {
    const now = Math.min(wanted, Number(episode.dataset.last)); // the shorter episode waits at its end
    for (const panel of episode.querySelectorAll("[data-step]")) {
      panel.hidden = Number(panel.dataset.step) !== now;
    }
    for (const part of episode.querySelectorAll("[data-at]")) {
      part.classList.toggle("sx-on", Number(part.dataset.at) <= now);
    }
    for (const table of episode.querySelectorAll("[data-touch]")) {
      table.classList.toggle("sx-touch", table.dataset.touch.split(" ").includes(String(now)));
    }
    for (const row of episode.querySelectorAll("[data-row]")) {
      const index = Number(row.dataset.row);
      row.classList.toggle("sx-now", index === now);
      row.classList.toggle("sx-later", index > now);
      if (index === now) {
        row.setAttribute("aria-current", "step");
      } else {
        row.removeAttribute("aria-current");
      }
    }
  }

  function show(wanted) {
    step = Math.max(0, Math.min(last, wanted));
    slider.value = step;
    position.textContent = `step ${step} of ${last}`;
    slider.setAttribute("aria-valuetext", position.textContent);
    episodes.forEach((episode) => showEpisode(episode, step));
  }

  function pause() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  }

  function start() {
    if (step === last) show(0);
    timer = setInterval(() => {
      show(step + 1);
      if (step === last) pause();
    }, interval);
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
  }

  function toggle() {
    if (timer) {
      pause();
    } else {
      start();
    }
  }

  function moveTo(wanted) {
    pause();
    show(wanted);
  }

  // `#3` behind the address of the page opens step 3
  function openAddress() {
    const wanted = parseInt(location.hash.slice(1), 10);
    if (wanted >= 0) show(wanted);
  }

  // The episodes that are on the page now
  function load() {
    pause();
    episodes = [...document.querySelectorAll("article.sx[data-last]")];
    last = Math.max(0, ...episodes.map((episode) => Number(episode.dataset.last)));
    slider.max = last;
  }

  function onKey(event) {
    if (!episodes.length) return;
    if (event.target.closest(".sx-scroll, .sx-map") && event.key !== " ") return; // these scroll
    const targets = { ArrowRight: step + 1, ArrowLeft: step - 1, Home: 0, End: last };
    if (event.key in targets) {
      event.preventDefault();
      moveTo(targets[event.key]);
    } else if (event.key === " " && !event.target.closest("button")) {
      event.preventDefault();
      toggle();
    }
  }

  play.addEventListener("click", toggle);
  slider.addEventListener("input", () => moveTo(Number(slider.value)));
  find("#sx-back").addEventListener("click", () => moveTo(step - 1));
  find("#sx-next").addEventListener("click", () => moveTo(step + 1));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-go]");
    if (button) moveTo(Number(button.dataset.go));
  });
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", openAddress);
  document.addEventListener("sx-episodes", () => {
    load();
    show(last); // how it ended comes first
  });
  load();
  show(Number(slider.value));
  openAddress();
})();
