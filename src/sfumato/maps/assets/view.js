const data = JSON.parse(document.getElementById("data").textContent);

// The part of the plane that is shown: a centre and a zoom factor, so that a change of size keeps both.
class View {
  constructor(axes, aspect) {
    this.axes = axes;      // [{name, lower, upper, step, unit}] in data units
    this.aspect = aspect;  // length on the screen of one vertical unit over one horizontal unit; null if free
    this.plot = { left: 0, top: 0, width: 1, height: 1 };
    this.reset();
  }

  reset() {
    const [x, y] = this.axes;
    this.zoom = 1;
    this.centre = [(x.lower + x.upper) / 2, (y.lower + y.upper) / 2];
  }

  // Everything at zoom 1, widened where the aspect asks for it.
  home() {
    let [width, height] = this.axes.map((axis) => axis.upper - axis.lower);
    if (this.aspect) {
      const tall = (width / this.plot.width) * this.plot.height / this.aspect;
      if (tall > height) height = tall;
      else width = (height * this.aspect / this.plot.height) * this.plot.width;
    }
    return [width, height];
  }

  span() {
    const zoom = [this.zoom, this.axes[1].fixed ? 1 : this.zoom];
    return this.home().map((length, index) => length / zoom[index]);
  }

  toScreen(x, y) {
    const [width, height] = this.span();
    return [
      this.plot.left + ((x - this.centre[0]) / width + 0.5) * this.plot.width,
      this.plot.top + (0.5 - (y - this.centre[1]) / height) * this.plot.height,
    ];
  }

  toData(left, top) {
    const [width, height] = this.span();
    return [
      this.centre[0] + ((left - this.plot.left) / this.plot.width - 0.5) * width,
      this.centre[1] + (0.5 - (top - this.plot.top) / this.plot.height) * height,
    ];
  }

  inside(left, top) {
    const { left: l, top: t, width, height } = this.plot;
    return left >= l && left <= l + width && top >= t && top <= t + height;
  }

  zoomBy(factor, left, top) {
    const [x, y] = this.toData(left, top);
    this.zoom = Math.min(View.CLOSEST, Math.max(1, this.zoom * factor));
    const [newX, newY] = this.toData(left, top);
    this.moveBy(x - newX, y - newY);
  }

  // Move the centre, but not beyond what there is to see.
  moveBy(x, y) {
    const span = this.span(), home = this.home();
    this.centre = [x, y].map((shift, index) => {
      const axis = this.axes[index];
      const middle = (axis.lower + axis.upper) / 2, free = (home[index] - span[index]) / 2;
      return Math.min(middle + free, Math.max(middle - free, this.centre[index] + shift));
    });
  }

  follow([x, y]) {
    const span = this.span();
    const shifts = [x, y].map((value, index) => {
      const away = value - this.centre[index];
      return Math.abs(away) > span[index] / 2 ? away : 0;
    });
    this.moveBy(...shifts);
  }
}
View.CLOSEST = 64;

// Round numbers between two limits, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / count;
  if (!(rough > 0) || !isFinite(rough)) return { values: [], step: 1 };
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough);
  const values = [];
  for (let index = Math.ceil(low / step); index * step <= high; index++) values.push(index * step);
  return { values, step };
}

// A number for people: two or three digits that count, with thousands apart.
function rounded(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e9 || size < 1e-3) return value.toExponential(1).replace("-", "\u2212");
  return Number(value.toPrecision(size >= 100 ? 3 : 2)).toLocaleString("en").replace("-", "\u2212");
}

// A number with the digits that a step of this size needs.
function withDigits(value, step) {
  const size = Math.max(Math.abs(value), step);
  if (size >= 1e6 || size < 1e-4) return value === 0 ? "0" : value.toExponential(2);
  return value.toFixed(Math.max(0, Math.min(12, -Math.floor(Math.log10(step) + 1e-9)))).replace("-", "\u2212");
}
