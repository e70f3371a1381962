// What of an article is drawn, part by part
(scope) => ['.sx-ask', '.sx-body', '.sx-model', '.sx-schema'].map((part) => {
  const found = scope.querySelector(part);
  if (!found) return part;
  const plain = (name) => name.replace(/ ?sx-(now|later)/g, '');
  const marks = [...found.querySelectorAll('[data-at], [data-touch]')];
  const classes = [...found.querySelectorAll('td, th, li')].map((e) => plain(e.className));
  return [found.textContent.replace(/\s+/g, ' ').trim(), classes.join(),
    marks.map((e) => [e.tagName, e.dataset.table, e.dataset.at || '', e.dataset.touch || ''].join()).join()];
})
