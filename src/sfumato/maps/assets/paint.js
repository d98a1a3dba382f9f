// Three kinds of picture. Each can paint itself and read off what is at a place.

const COLOUR_COUNT = 256;

function decodeFloats(text) {
  return new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}

class Layer {
  constructor(stored) {
    Object.assign(this, stored);
    this.values = decodeFloats(stored.values);
    this.errors = decodeFloats(stored.errors);
    this.table = Uint8Array.from(atob(stored.colours), (letter) => letter.charCodeAt(0));
    this.logarithmic = false;
  }

  // Where a value stands on the colour scale, from 0 to 1, and the value that stands at a place of it.
  share(value) {
    if (!this.logarithmic) return (value - this.low) / (this.high - this.low);
    return Math.log(Math.max(value, this.floor) / this.floor) / Math.log(this.high / this.floor);
  }

  at(share) {
    if (!this.logarithmic) return this.low + share * (this.high - this.low);
    return this.floor * (this.high / this.floor) ** share;
  }

  contourLevels() {
    const between = (v) => v !== 0 && v > this.low && v < this.high;
    if (!this.logarithmic) return ticks(this.low, this.high, 7).values.filter(between);
    const levels = [];
    for (let power = Math.floor(Math.log10(this.floor)); 10 ** power < this.high; power++)
      for (const factor of [1, 2, 5]) levels.push(factor * 10 ** power);
    return levels.filter((level) => level > this.floor && between(level));
  }

  colour(value) {
    const share = this.share(value);
    const index = 3 * Math.min(COLOUR_COUNT - 1, Math.max(0, Math.floor(share * COLOUR_COUNT)));
    return [this.table[index], this.table[index + 1], this.table[index + 2]];
  }

  css(value) {
    return `rgb(${this.colour(value).join(",")})`;
  }

  noisy(index) {
    const value = this.signed ? Math.abs(this.values[index]) : this.values[index];
    return value < this.cutoff * this.errors[index];
  }
}

function blank(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}

class MapPainter {
  constructor(axes, layer) {
    this.axes = axes;
    this.layer = layer;
    [this.columns, this.rows] = axes.map((axis) => axis.cells);
    this.mask = this.raster((index) => [0, 0, 0, layer.noisy(index) ? 255 : 0]);
    this.recolour();
  }

  recolour() {
    this.image = this.raster((index) => [...this.layer.colour(this.layer.values[index]), 255]);
    this.lines = this.contourLines();
  }

  raster(colour) {
    const canvas = blank(this.columns, this.rows), context = canvas.getContext("2d");
    const image = context.createImageData(this.columns, this.rows);
    for (let row = 0; row < this.rows; row++)
      for (let column = 0; column < this.columns; column++)
        image.data.set(colour(row * this.columns + column), 4 * ((this.rows - 1 - row) * this.columns + column));
    context.putImageData(image, 0, 0);
    return canvas;
  }

  // Marching squares between cell centres, in cell units; squares that touch noise are left out.
  contourLines() {
    const { layer, columns, rows } = this;
    return layer.contourLevels().map((level) => {
      const path = new Path2D();
      for (let row = 0; row + 1 < rows; row++)
        for (let column = 0; column + 1 < columns; column++) this.square(path, level, row, column);
      const shade = layer.colour(level);
      const dark = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] < 140;
      return { path, colour: dark ? "rgba(255,255,255,0.6)" : "rgba(0,0,0,0.5)" };
    });
  }

  square(path, level, row, column) {
    const first = row * this.columns + column;
    const corners = [[first, 0, 0], [first + 1, 1, 0], [first + this.columns + 1, 1, 1], [first + this.columns, 0, 1]];
    const crossings = [];
    for (let side = 0; side < 4; side++) {
      const [a, ax, ay] = corners[side], [b, bx, by] = corners[(side + 1) % 4];
      if (this.layer.noisy(a)) return;
      const from = this.layer.values[a] - level, to = this.layer.values[b] - level;
      if (from < 0 === to < 0) continue;
      const share = from / (from - to);
      crossings.push([column + 0.5 + ax + share * (bx - ax), row + 0.5 + ay + share * (by - ay)]);
    }
    for (let index = 0; index + 1 < crossings.length; index += 2) {
      path.moveTo(...crossings[index]);
      path.lineTo(...crossings[index + 1]);
    }
  }

  paint(context, view, shown, inks) {
    const [x, y] = this.axes;
    const [left, top] = view.toScreen(x.lower, y.upper), [right, bottom] = view.toScreen(x.upper, y.lower);
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "high";
    context.drawImage(this.image, left, top, right - left, bottom - top);
    if (shown.contours) {
      const place = new DOMMatrix([(right - left) / this.columns, 0, 0, (top - bottom) / this.rows, left, bottom]);
      context.lineWidth = 1;
      for (const { path, colour } of this.lines) {
        const placed = new Path2D();
        placed.addPath(path, place);
        context.strokeStyle = colour;
        context.stroke(placed);
      }
    }
    if (shown.noise) this.paintNoise(context, [left, top, right - left, bottom - top], inks);
    if (shown.lines) paintLines(context, view);
  }

  // Hatching keeps its distance on the screen at any zoom, so it is cut out of a pattern by the mask.
  paintNoise(context, place, inks) {
    const { width, height } = context.canvas, scale = context.getTransform().a;
    const cut = blank(width, height), stencil = cut.getContext("2d");
    stencil.setTransform(scale, 0, 0, scale, 0, 0);
    stencil.drawImage(this.mask, ...place);
    stencil.globalCompositeOperation = "source-in";
    stencil.strokeStyle = inks.hatch;
    stencil.lineWidth = 0.8;
    const lines = new Path2D();
    for (let start = -height / scale; start < width / scale; start += 6) {
      lines.moveTo(start, height / scale);
      lines.lineTo(start + height / scale, 0);
    }
    stencil.stroke(lines);
    context.drawImage(cut, 0, 0, width / scale, height / scale);
  }

  // What is at a place: the cell that holds it.
  read([x, y]) {
    const [column, row] = [x, y].map((value, index) => {
      const axis = this.axes[index];
      return Math.floor(((value - axis.lower) / (axis.upper - axis.lower)) * axis.cells);
    });
    if (column < 0 || row < 0 || column >= this.columns || row >= this.rows) return null;
    return { index: row * this.columns + column, place: [x, y] };
  }

  step(axis) {
    return (this.axes[axis].upper - this.axes[axis].lower) / this.axes[axis].cells;
  }
}

// Coast, boroughs or streets: thin and dark, with a pale edge that sets them off from dark colours.
const overlay = { lengths: data.overlay.lengths, places: decodeFloats(data.overlay.places) };

function paintLines(context, view) {
  const path = new Path2D();
  let corner = 0;
  for (const length of overlay.lengths)
    for (let index = 0; index < length; index++, corner++) {
      const place = view.toScreen(overlay.places[2 * corner], overlay.places[2 * corner + 1]);
      if (index === 0) path.moveTo(...place);
      else path.lineTo(...place);
    }
  context.lineJoin = "round";
  for (const [colour, thickness] of [["rgba(255,255,255,0.7)", 2.6], ["rgba(35,27,46,0.85)", 1.1]]) {
    context.strokeStyle = colour;
    context.lineWidth = thickness;
    context.stroke(path);
  }
}

class CurvePainter {
  constructor(axes, layer) {
    this.axes = axes;
    this.layer = layer;
    this.cells = axes[0].cells;
  }

  place(index) {
    const axis = this.axes[0];
    return axis.lower + ((index + 0.5) * (axis.upper - axis.lower)) / this.cells;
  }

  trace(context, view, height, backwards) {
    for (let step = 0; step < this.cells; step++) {
      const index = backwards ? this.cells - 1 - step : step;
      context.lineTo(...view.toScreen(this.place(index), height(index)));
    }
  }

  paint(context, view, shown, inks) {
    const { values, errors, multiplier } = this.layer;
    if (shown.noise && multiplier > 0) {
      context.beginPath();
      this.trace(context, view, (index) => values[index] + multiplier * errors[index], false);
      this.trace(context, view, (index) => values[index] - multiplier * errors[index], true);
      context.fillStyle = inks.accent;
      context.globalAlpha = 0.2;
      context.fill();
      context.globalAlpha = 1;
    }
    context.beginPath();
    this.trace(context, view, (index) => values[index], false);
    context.strokeStyle = inks.accent;
    context.lineWidth = 2.2;
    context.stroke();
  }

  read([x]) {
    const axis = this.axes[0];
    const index = Math.floor(((x - axis.lower) / (axis.upper - axis.lower)) * this.cells);
    if (index < 0 || index >= this.cells) return null;
    return { index, place: [this.place(index), this.layer.values[index]] };
  }

  step(axis) {
    return axis === 0 ? (this.axes[0].upper - this.axes[0].lower) / this.cells : 0;
  }
}

class DotPainter {
  constructor(axes, layer) {
    this.axes = axes;
    this.layer = layer;
    this.places = decodeFloats(layer.places);
    this.order = [...layer.values.keys()].sort((a, b) => layer.values[a] - layer.values[b]);
  }

  paint(context, view, shown, inks) {
    const radius = Math.min(7, 3.2 * Math.sqrt(view.zoom));
    for (const index of this.order) {
      const noisy = this.layer.noisy(index);
      if (noisy && !shown.noise) continue;
      const [left, top] = view.toScreen(this.places[2 * index], this.places[2 * index + 1]);
      context.beginPath();
      context.arc(left, top, radius, 0, 2 * Math.PI);
      if (noisy) {
        context.strokeStyle = inks.pale;
        context.lineWidth = 0.8;
        context.stroke();
      } else {
        context.fillStyle = this.layer.css(this.layer.values[index]);
        context.fill();
      }
    }
  }

  read(place, view) {
    const [left, top] = view.toScreen(...place);
    let best = null, nearest = 30;
    for (const index of this.order) {
      const dot = [this.places[2 * index], this.places[2 * index + 1]];
      const [x, y] = view.toScreen(...dot), distance = Math.hypot(x - left, y - top);
      if (distance < nearest) [best, nearest] = [{ index, place: dot }, distance];
    }
    return best;
  }

  step(axis) {
    return (this.axes[axis].upper - this.axes[axis].lower) / 60;
  }
}

const PAINTERS = { map: MapPainter, curve: CurvePainter, dots: DotPainter };
