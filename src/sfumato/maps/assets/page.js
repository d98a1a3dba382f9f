const element = (name) => document.getElementById(name);
const canvas = element("map"), reading = element("reading");
const layers = data.layers.map((stored) => new Layer(stored));
const painters = layers.map((layer) => new PAINTERS[data.kind](data.axes, layer));
const view = new View(data.axes, data.aspect);
const shown = { layer: 0, noise: true, contours: true, lines: overlay.lengths.length > 0 };
let cursor = null;     // the place that is read, in data units
let waiting = false;   // for the next frame

function refresh() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    paint();
  });
}

function inks() {
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(["ink", "pale", "line", "accent", "hatch", "void", "card"].map((name) => [name, ink(name)]));
}

function layOut() {
  const width = canvas.clientWidth || 800, scale = window.devicePixelRatio || 1, narrow = width < 480;
  const margin = { left: data.kind === "dots" ? 34 : narrow ? 64 : 72, right: 18, top: 18, bottom: data.kind === "dots" ? 38 : 52 };
  const across = width - margin.left - margin.right;
  const [x, y] = data.axes;
  const natural = data.aspect ? (data.aspect * (y.upper - y.lower)) / (x.upper - x.lower) : data.kind === "curve" ? 0.5 : 0.8;
  const tallest = Math.max(320, 0.8 * window.innerHeight);
  const height = Math.min(tallest, Math.max(0.35, natural) * across);
  canvas.style.height = `${height + margin.top + margin.bottom}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round((height + margin.top + margin.bottom) * scale);
  view.plot = { left: margin.left, top: margin.top, width: across, height };
  view.moveBy(0, 0);
  return scale;
}

function paint() {
  const scale = layOut(), context = canvas.getContext("2d"), colours = inks();
  const { left, top, width, height } = view.plot;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.fillStyle = data.kind === "map" ? colours.void : colours.card;
  context.fillRect(left, top, width, height);
  if (data.kind === "curve") paintZero(context, colours);
  painters[shown.layer].paint(context, view, shown, colours);
  paintCursor(context, colours);
  if (data.metres) paintScaleBar(context);
  context.restore();
  paintAxes(context, colours);
  canvas.dataset.zoom = view.zoom.toFixed(3);
  canvas.dataset.centre = view.centre.join(" ");
  placeReading();
}

function paintAxes(context, colours) {
  const { left, top, width, height } = view.plot, span = view.span();
  context.strokeStyle = colours.pale;
  context.lineWidth = 1;
  context.strokeRect(left, top, width, height);
  context.fillStyle = colours.ink;
  context.font = "12px system-ui, sans-serif";
  const withTicks = data.kind !== "dots";
  data.axes.forEach((axis, index) => {
    const low = view.centre[index] - span[index] / 2;
    const marks = ticks(low, low + span[index], index === 0 ? width / 90 : height / 60);
    for (const value of withTicks ? marks.values : []) {
      const [x, y] = view.toScreen(index === 0 ? value : view.centre[0], index === 0 ? view.centre[1] : value);
      context.beginPath();
      context.moveTo(index === 0 ? x : left, index === 0 ? top + height : y);
      context.lineTo(index === 0 ? x : left - 5, index === 0 ? top + height + 5 : y);
      context.stroke();
      context.textAlign = index === 0 ? "center" : "right";
      context.textBaseline = index === 0 ? "top" : "middle";
      context.fillText(withDigits(value, marks.step), index === 0 ? x : left - 8, index === 0 ? top + height + 8 : y);
    }
    axis.step = marks.step;
  });
  context.textAlign = "center";
  context.font = "13px system-ui, sans-serif";
  context.textBaseline = "bottom";
  context.fillText(data.axes[0].name, left + width / 2, top + height + (withTicks ? 46 : 26));
  context.save();
  context.translate(!withTicks ? 22 : view.plot.left < 72 ? 10 : 16, top + height / 2);
  context.rotate(-Math.PI / 2);
  context.textBaseline = "middle";
  context.fillText(data.axes[1].name, 0, 0);
  context.restore();
}

function paintZero(context, colours) {
  const { left, width } = view.plot, y = view.toScreen(view.centre[0], 0)[1];
  context.strokeStyle = colours.pale;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(left, y);
  context.lineTo(left + width, y);
  context.stroke();
}

function paintScaleBar(context) {
  const { left, top, width, height } = view.plot, metresPerPixel = (view.span()[0] * data.metres) / width;
  const target = (width / 4) * metresPerPixel, power = 10 ** Math.floor(Math.log10(target));
  const length = Math.max(...[1, 2, 5].map((factor) => factor * power).filter((value) => value <= target));
  const pixels = length / metresPerPixel, text = length >= 1000 ? `${length / 1000} km` : `${length} m`;
  const x = left + 18, y = top + height - 20;
  context.fillStyle = "rgba(255,255,255,0.75)";
  context.fillRect(x - 8, y - 20, pixels + 16, 30);
  context.fillStyle = "#231b2e";
  context.fillRect(x, y, pixels, 3);
  context.font = "12px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "bottom";
  context.fillText(text, x + pixels / 2, y - 2);
}

function paintCursor(context, colours) {
  const found = cursor && painters[shown.layer].read(cursor, view);
  if (!found) return;
  const [x, y] = view.toScreen(...found.place);
  for (const [colour, thickness] of [["#ffffff", 4], ["#231b2e", 1.6]]) {
    context.strokeStyle = colour;
    context.lineWidth = thickness;
    context.beginPath();
    context.arc(x, y, 6, 0, 2 * Math.PI);
    context.stroke();
  }
}

function read() {
  const found = cursor && painters[shown.layer].read(cursor, view);
  reading.hidden = !found;
  if (!found) return;
  const layer = layers[shown.layer], value = layer.values[found.index], error = layer.errors[found.index];
  const digits = Math.max(error, (layer.high - layer.low) / 1000) / 10, number = (v) => withDigits(v, digits);
  const place = data.axes.slice(0, data.kind === "curve" ? 1 : 2).map((axis, index) => {
    return `${axis.name} ${withDigits(found.place[index], axis.step / 100)}`;
  });
  const lines = [["place", data.kind === "dots" ? `public point ${found.index + 1}` : place.join(", ")]];
  if (layer.area) {
    const certain = error > 0 ? ` \u00b1 ${rounded(error * layer.area)}` : "";
    lines.push(["records", `${rounded(value * layer.area)}${certain} ${layer.unit}`]);
  }
  lines.push(["value", error > 0 ? `${number(value)} \u00b1 ${number(error)}` : number(value)]);
  if (error > 0) {
    const reach = data.deviations * error;
    lines.push(["range", `${100 * data.level} %: ${number(value - reach)} to ${number(value + reach)}`]);
    if (layer.noisy(found.index)) lines.push(["noisy", "may be noise alone"]);
  }
  reading.replaceChildren(...lines.map(([kind, text]) => {
    const line = document.createElement("div");
    line.className = kind;
    line.textContent = text;
    return line;
  }));
}

function placeReading() {
  const found = cursor && painters[shown.layer].read(cursor, view);
  if (!found) return;
  const [x, y] = view.toScreen(...found.place), box = reading.getBoundingClientRect();
  const right = x + 16 + box.width > canvas.clientWidth ? x - 16 - box.width : x + 16;
  const below = y + 16 + box.height > canvas.clientHeight ? y - 16 - box.height : y + 16;
  reading.style.left = `${Math.max(4, right)}px`;
  reading.style.top = `${Math.max(4, below)}px`;
}

function moveCursor(place) {
  cursor = place;
  read();
  refresh();
}

function zoomBy(factor, left, top) {
  const { plot } = view;
  view.zoomBy(factor, left ?? plot.left + plot.width / 2, top ?? plot.top + plot.height / 2);
  refresh();
}

function showLegend() {
  const layer = layers[shown.layer], bar = element("bar").getContext("2d"), image = bar.createImageData(COLOUR_COUNT, 1);
  for (let index = 0; index < COLOUR_COUNT; index++)
    image.data.set([...layer.table.slice(3 * index, 3 * index + 3), 255], 4 * index);
  bar.putImageData(image, 0, 0);
  const values = [0, 0.5, 1].map((share) => layer.at(share));
  const step = (layer.logarithmic ? layer.floor : layer.high - layer.low) / (layer.logarithmic ? 10 : 1000);
  const row = (texts) => texts.map((text) => {
    const mark = document.createElement("span");
    mark.textContent = text;
    return mark;
  });
  const small = (texts) => (layer.logarithmic ? [`\u2264 ${texts[0]}`, ...texts.slice(1)] : texts);
  const kernel = small(values.map((value) => (value === 0 ? "0" : withDigits(value, step))));
  const records = layer.area ? small(values.map((value) => rounded(value * layer.area))) : null;
  element("ends").replaceChildren(...row(records ?? kernel));
  element("quantity").textContent = records ? layer.unit : layer.quantity;
  element("kernel-ends").replaceChildren(...row(records ? kernel : []));
  element("kernel-quantity").textContent = records ? layer.quantity : "";
  element("legend").hidden = data.kind === "curve";
  const words = (texts, unit) => `${unit}, ${texts.join(", ")}`;
  const spoken = [records && words(records, layer.unit), words(kernel, layer.quantity)].filter(Boolean);
  element("legend").setAttribute("aria-label", `Colour scale: ${spoken.join("; ")}`);
}

function recolour(logarithmic) {
  layers.forEach((layer, index) => {
    layer.logarithmic = logarithmic && !layer.signed;
    if (painters[index].recolour) painters[index].recolour();
  });
  showLegend();
  refresh();
}

// Pointers: one drags, two pinch; none just reads.
const pointers = new Map();
const position = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

const pressed = new Map();  // where each finger came down, to tell a tap from a drag

canvas.addEventListener("pointerdown", (event) => {
  if (event.pointerType !== "touch") canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, position(event));
  pressed.set(event.pointerId, pointers.size > 1 ? null : position(event));
});

canvas.addEventListener("pointermove", (event) => {
  const here = position(event), before = pointers.get(event.pointerId);
  if (!before) return moveCursor(view.inside(...here) ? view.toData(...here) : null);
  const others = [...pointers].filter(([id]) => id !== event.pointerId);
  const [fromX, fromY] = view.toData(...before), [toX, toY] = view.toData(...here);
  if (others.length) {
    const pivot = others[0][1], apart = (point) => Math.hypot(point[0] - pivot[0], point[1] - pivot[1]);
    if (apart(before) > 0) view.zoomBy(apart(here) / apart(before), ...pivot);
    view.moveBy((fromX - toX) / 2, (fromY - toY) / 2);
  } else {
    view.moveBy(fromX - toX, fromY - toY);
  }
  pointers.set(event.pointerId, here);
  refresh();
});

canvas.addEventListener("pointerup", (event) => {
  const from = pressed.get(event.pointerId), here = position(event);
  const tapped = event.pointerType === "touch" && from && Math.hypot(here[0] - from[0], here[1] - from[1]) < 10;
  if (tapped) moveCursor(view.inside(...here) ? view.toData(...here) : null);
});
for (const name of ["pointerup", "pointercancel"])
  canvas.addEventListener(name, (event) => {
    pointers.delete(event.pointerId);
    pressed.delete(event.pointerId);
  });
// A finger that is lifted leaves its value standing; a mouse that leaves takes it along.
canvas.addEventListener("pointerleave", (event) => {
  if (event.pointerType !== "touch") moveCursor(null);
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoomBy(Math.exp(-Math.max(-100, Math.min(100, event.deltaY)) / 300), ...position(event));
}, { passive: false });

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] };
canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const arrow = ARROWS[event.key], at = cursor ? view.toScreen(...cursor) : [];
  if (arrow && event.shiftKey) {
    view.moveBy(...view.span().map((length, index) => 0.1 * length * arrow[index]));
    refresh();
  } else if (arrow) {
    const start = cursor ?? view.centre, painter = painters[shown.layer];
    const moved = start.map((value, index) => {
      const axis = data.axes[index], edge = painter.step(index) / 2;
      return Math.min(axis.upper - edge, Math.max(axis.lower + edge, value + arrow[index] * painter.step(index)));
    });
    view.follow(moved);
    moveCursor(moved);
  } else if (event.key === "+" || event.key === "=") zoomBy(1.5, ...at);
  else if (event.key === "-" || event.key === "_") zoomBy(1 / 1.5, ...at);
  else if (event.key === "0" || event.key === "Home") element("whole").click();
  else if (event.key === "Escape") moveCursor(null);
  else return;
  event.preventDefault();
});

element("closer").addEventListener("click", () => zoomBy(1.5));
element("farther").addEventListener("click", () => zoomBy(1 / 1.5));
element("whole").addEventListener("click", () => {
  view.reset();
  refresh();
});
element("logarithmic").addEventListener("change", (event) => recolour(event.target.checked));
for (const name of ["noise", "contours", "lines"])
  element(name).addEventListener("change", (event) => {
    shown[name] = event.target.checked;
    refresh();
  });
element("layers").addEventListener("change", (event) => {
  shown.layer = Number(event.target.value);
  showLegend();
  read();
  refresh();
});

document.body.className = data.kind;
element("noise-text").textContent = data.noise_text;
element("contours-label").hidden = data.kind !== "map";
element("lines-label").hidden = !(data.kind === "map" && shown.lines);
element("logarithmic-label").hidden = data.kind === "curve" || layers.every((layer) => layer.signed);
element("logarithmic").checked = data.logarithmic;
element("layers-label").hidden = layers.length < 2;
layers.forEach((layer, index) => element("layers").append(new Option(layer.name, index)));
window.addEventListener("resize", refresh);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
if (data.logarithmic) recolour(true);
showLegend();
paint();
