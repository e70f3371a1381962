// Counts what a page unpacks
window.unpacked = 0;
const real = window.DecompressionStream;
window.DecompressionStream = class extends real {
  constructor(...given) { super(...given); window.unpacked += 1; }
};
