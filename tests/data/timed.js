// Milliseconds from an act until a sign of it is painted
async ([act, sign]) => {
  const seen = () => [...document.querySelectorAll(sign[0])]
    .some(e => e.offsetParent !== null && e.textContent.includes(sign[1]));
  if (seen()) throw new Error('already there: ' + sign);
  const start = performance.now();
  await new Promise((done, fail) => {
    const watch = new MutationObserver(() => { if (seen()) { watch.disconnect(); done(); } });
    watch.observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
    setTimeout(() => fail(new Error('never came: ' + sign)), 60000);
    eval(act);
  });
  await new Promise(f => requestAnimationFrame(() => setTimeout(f, 0)));
  return performance.now() - start;
}
