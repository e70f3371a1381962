// Lowest contrast of text and the background that is painted behind it, as WCAG counts
(selector) => {
  const rgb = (color) => {
    const canvas = document.createElement('canvas').getContext('2d');
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => sum + w * linear(c[i] / 255), 0);
  const painted = (e) => {
    const c = rgb(getComputedStyle(e).backgroundColor);
    if (c[3] === 255 || !e.parentElement) return c;
    const under = painted(e.parentElement);
    return c.slice(0, 3).map((v, i) => v * c[3] / 255 + under[i] * (1 - c[3] / 255));
  };
  const ratio = (e) => {
    const a = luminance(rgb(getComputedStyle(e).color)), b = luminance(painted(e));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const shown = [...document.querySelectorAll(selector)].filter(e => e.offsetParent && e.textContent.trim());
  return Math.min(99, ...shown.map(ratio));
}
