// Draws the data of tinyattn/explore/page.py. Python has computed all of it, but for the softmax
// with another temperature. One call of mount draws one explorer; a page may have several.
(() => {
  "use strict";

  const element = (name, attributes = {}, ...children) => {
    const svg = ["svg", "line", "text", "g"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name)
      : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== false && value !== undefined) made.setAttribute(key, value);
    }
    made.append(...children);  // strings become text, never markup
    return made;
  };
  const button = (text, press, more = {}) =>
    element("button", { type: "button", onclick: press, ...more }, text);
  const shown = (token) => token.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
  const percent = (x) => `${(100 * x).toFixed(1)} %`;
  const number = (x) => (Math.abs(x) < 5e-5 ? "0" : x.toFixed(4));
  const SMALL = 1e-3;  // a smaller change of a probability gets no strong colour
  const ARROWS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };  // rows down, columns right
  const heading = (level, text) => element(`h${level}`, {}, text);

  // Arrays come as base64 of deflated bytes.
  async function unpack(packed) {
    if (!packed) return null;
    const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const buffer = await new Response(stream).arrayBuffer();
    const kinds = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array };
    return { values: new kinds[packed.type](buffer), shape: packed.shape };
  }
  const row = (array, ...index) => {  // the last axis at these indices
    const size = array.shape[array.shape.length - 1];
    const at = index.reduce((sum, i, axis) => sum * array.shape[axis] + i, 0) * size;
    return array.values.subarray(at, at + size);
  };
  const softmax = (scores) => {  // zeros if all scores are -Infinity
    const top = Math.max(...scores);
    if (top === -Infinity) return scores.map(() => 0);
    const e = scores.map((s) => Math.exp(s - top));
    const sum = e.reduce((a, b) => a + b, 0);
    return e.map((x) => x / sum);
  };
  const quote = (text) => `"${text.replace(/"/g, '""')}"`;  // a field of a CSV file

  class Section {
    constructor(data, theme) {
      const [layer, head] = data.start || [0, 0];
      Object.assign(this, { data, theme, layer, head, key: null, temperature: 1 });
      this.queries = new Set([data.tokens.length - 1]);
      this.horizontal = false;
      this.root = element("section", { "aria-label": data.title });
    }

    async load() {
      for (const name of ["weights", "allowed", "q", "k", "adds", "influence", "neurons", "edges"]) {
        this[name] = await unpack(this.data[name]);
      }
      // Weights have steps of 1/65535; in a large page their roots have steps of 1/255.
      const fine = this.weights.values instanceof Uint16Array;
      this.weights.values = Float32Array.from(this.weights.values, (x) => (fine ? x / 65535 : (x / 255) ** 2));
      [this.L, this.H, this.T, this.S] = this.weights.shape;
      this.keys = this.data.keys || this.data.tokens;
      const last = row(this.weights, this.layer, this.head, this.T - 1);
      if (this.q) this.key = last.indexOf(Math.max(...last));
      return this;
    }

    // The weights of one query with the chosen temperature.
    weightsOf(t) {
      const plain = row(this.weights, this.layer, this.head, t);
      if (this.temperature === 1) return plain;
      const scores = this.scoresOf(t) || plain.map((w) => Math.log(w));
      const allowed = Float64Array.from(scores, (score, s) => (this.mayAttend(t, s) ? score : -Infinity));
      return softmax(allowed.map((score) => score / this.temperature));
    }
    mayAttend(t, s) {  // the mask: a bit for each pair, 1 where the weight is not 0
      const at = ((this.layer * this.H + this.head) * this.T + t) * this.S + s;
      return (this.allowed.values[at >> 3] >> (at & 7)) & 1;
    }
    scoresOf(t) {
      if (!this.q || this.k.shape[2] !== this.S || this.data.note_q) return null;
      const q = row(this.q, this.layer, this.head, t);
      return Float64Array.from({ length: this.S }, (_, s) => {
        const k = row(this.k, this.layer, this.head, s);
        return this.data.scale[this.layer] * q.reduce((sum, x, d) => sum + x * k[d], 0);
      });
    }
    chosen() { return [...this.queries].sort((a, b) => a - b); }
    sums() {
      const total = new Float64Array(this.S);
      for (const t of this.chosen()) this.weightsOf(t).forEach((w, s) => { total[s] += w; });
      return total;
    }

    draw() {
      const d = this.data;
      this.parts = {};
      this.root.append(heading(2, d.title));
      if (d.summary) this.root.append(element("p", { class: "summary" }, d.summary));
      const add = (name, ...nodes) => {
        this.parts[name] = element("div", { class: name });
        this.root.append(...nodes, this.parts[name]);
      };
      this.root.append(heading(3, "All heads: choose one"));
      this.root.append(this.overview());
      add("controls");
      const two = element("div", { class: "two" });
      for (const name of ["picture", "lines"]) two.append(this.parts[name] = element("div", { class: name }));
      this.root.append(two);
      add("readout", heading(3, "Attention weights of the chosen query"));
      this.parts.readout.setAttribute("aria-live", "polite");
      add("score", heading(3, "One attention score, dimension by dimension"));
      if (d.lens) this.root.append(heading(3, "Lens: the next token that each layer predicts already"), this.lens());
      if (d.knock) this.root.append(heading(3, "Knock-out of one head"), this.headMap(),
        heading(3, "Knock-out of one neuron"), this.neuronMap(), heading(3, "Knock-out of one attention edge"), this.edgeMap());
      if (d.patch) this.root.append(heading(3, "Patching: one vector of the other text, put into this one"), this.patch());
      if (this.influence) { this.root.append(heading(3, "Influence: on which tokens the logits at a position depend")); add("influence"); }
      if (d.generation) this.root.append(heading(3, "Generation, token by token"), this.generation());
      this.update();
      return this.root;
    }

    overview() {
      const grid = element("div", { class: "heads", role: "group", "aria-label": "heads" });
      this.heads = [];
      for (let l = 0; l < this.L; l++) for (let h = 0; h < this.H; h++) {
        const canvas = element("canvas", { "aria-hidden": "true" });
        const made = button("", () => { this.layer = l; this.head = h; this.update(); },
          { "aria-label": `${this.data.layers[l]} head ${h}` });
        made.append(canvas, this.data.layers[l], element("br"), `head ${h}`);
        grid.append(made);
        this.heads.push({ made, canvas, l, h });
      }
      return grid;
    }
    // Paint the weights that `of` has for each query, the largest one darkest; in at most `most`
    // pixels in a row, each the largest weight of a block. Returns the largest weight.
    paint(canvas, most, of) {
      const step = Math.ceil(Math.max(this.T, this.S) / most);
      const [rows, columns] = [Math.ceil(this.T / step), Math.ceil(this.S / step)];
      Object.assign(canvas, { width: columns, height: rows });
      const image = new ImageData(columns, rows);
      const style = getComputedStyle(this.theme.root);
      const [r, g, b] = style.getPropertyValue("--heat").split(",").map(Number);
      const peak = new Float32Array(rows * columns);
      let largest = 0;
      for (let t = 0; t < this.T; t++) {
        const to = Math.floor(t / step) * columns, weights = of(t);
        for (let s = 0; s < this.S; s++) {
          const at = to + Math.floor(s / step), w = weights[s];
          if (w > peak[at]) peak[at] = w;
          if (w > largest) largest = w;
        }
      }
      for (let at = 0; at < peak.length; at++) {
        image.data[4 * at] = r; image.data[4 * at + 1] = g; image.data[4 * at + 2] = b;
        image.data[4 * at + 3] = 255 * peak[at] / (largest || 1);
      }
      canvas.getContext("2d").putImageData(image, 0, 0);
      return largest;
    }

    toggle(t, several) {  // pin a query; with several, add it to those that are pinned
      if (!several) this.queries = this.queries.has(t) && this.queries.size === 1 ? new Set() : new Set([t]);
      else if (this.queries.has(t)) this.queries.delete(t);
      else this.queries.add(t);
      this.update(false);
    }
    tokens(names, pressed, press, label) {
      const list = element("div", { class: "tokens", role: "group", "aria-label": label });
      names.forEach((token, i) => list.append(button(shown(token), (event) => press(i, event), {
        "aria-pressed": String(pressed(i)), title: `${label} ${i}: ${token}`, tabindex: i ? "-1" : "0",
      })));
      list.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (move && event.target.parentNode === list) {
          const next = event.target[move > 0 ? "nextSibling" : "previousSibling"];
          if (next) { event.target.tabIndex = -1; next.tabIndex = 0; next.focus(); }
        }
      });
      return list;
    }

    update(heads = true) {
      if (heads) for (const { made, canvas, l, h } of this.heads) {
        made.setAttribute("aria-pressed", String(l === this.layer && h === this.head));
        if (!canvas.dataset.theme || canvas.dataset.theme !== this.theme.name) {
          this.paint(canvas, 96, (t) => row(this.weights, l, h, t));
          canvas.dataset.theme = this.theme.name;
        }
      }
      this.controls();
      if (heads) { this.picture(); if (this.influence) this.influenceMap(); }
      this.marks();
      this.lines();
      this.readout();
      this.score();
    }

    controls() {
      const slider = element("input", { type: "range", min: "-2", max: "2", step: "0.05",
        value: Math.log2(this.temperature), "aria-label": "temperature" });
      const value = element("output", { class: "temperature" }, this.temperature.toFixed(2));
      slider.addEventListener("input", () => {
        this.temperature = Math.abs(slider.value) < 0.02 ? 1 : 2 ** slider.value;
        value.textContent = this.temperature.toFixed(2);
        this.lines(); this.readout(); this.score();
        if (this.T * this.S <= 40000) this.repaint();
      });
      if (this.parts.controls.childNodes.length) { this.pressed(); return; }
      this.lists = [
        this.tokens(this.data.tokens, (t) => this.queries.has(t), (t, event) => this.toggle(t, event.shiftKey), "query"),
        this.tokens(this.keys, (s) => s === this.key, (s) => { this.key = s === this.key ? null : s; this.update(false); }, "key")];
      const layout = button("layout: vertical", () => {
        this.horizontal = !this.horizontal;
        layout.textContent = `layout: ${this.horizontal ? "horizontal" : "vertical"}`;
        this.update(false);
      });
      this.parts.controls.replaceChildren(
        element("p", { class: "soft" }, "Query (the position that attends): click to pin it, and again to unpin it. With shift, pin several; their weights are summed."),
        this.lists[0],
        element("p", { class: "soft" }, "Key (the position that is attended to), for the score below:"),
        this.lists[1],
        element("div", { class: "bar" }, element("label", {}, "temperature of the softmax ", slider, " ", value),
          layout,
          button("all queries", () => { this.queries = new Set(Array(this.T).keys()); this.update(false); }),
          button("copy weights as CSV", () => this.copy(this.csv())),
          button("copy matrix as CSV", () => this.copy(this.csvMatrix())),
          button("save lines as SVG", () => this.save())));
      if (this.data.tokens.length > 160) this.parts.controls.querySelectorAll(".tokens").forEach((list) => {
        list.classList.add("scroll"); list.style.maxHeight = "120px";
      });
    }

    pressed() {
      this.lists[0].childNodes.forEach((made, t) => made.setAttribute("aria-pressed", String(this.queries.has(t))));
      this.lists[1].childNodes.forEach((made, s) => made.setAttribute("aria-pressed", String(s === this.key)));
    }

    picture() {
      const canvas = element("canvas", { class: "matrix", role: "application", tabindex: "0",
        "aria-label": `weights of ${this.data.layers[this.layer]} head ${this.head}: rows are queries, columns are keys; arrow keys move` });
      const say = element("p", { class: "hover mono", "aria-live": "polite" }, "(hover over a cell, or click it, for its weight)");
      const legend = element("p", { class: "soft" });
      this.repaint = () => {
        const all = this.T * this.S <= 40000;  // with more, a temperature would take too long
        const largest = this.paint(canvas, 1024, (t) => (all ? this.weightsOf(t) : row(this.weights, this.layer, this.head, t)));
        legend.textContent = `${this.data.layers[this.layer]}, head ${this.head}: row = query, column = key; ${this.T} × ${this.S}; colour from 0 to ${number(largest)}${all ? "" : ", at temperature 1"}`;
      };
      this.repaint();
      canvas.style.aspectRatio = `${this.S} / ${this.T}`;
      const at = (event) => {
        const box = canvas.getBoundingClientRect();
        return [Math.floor((event.clientY - box.top) / box.height * this.T),
          Math.floor((event.clientX - box.left) / box.width * this.S)];
      };
      const tell = (t, s) => {
        if (t < 0 || s < 0 || t >= this.T || s >= this.S) return;
        say.textContent = `${t} ${shown(this.data.tokens[t])} → ${s} ${shown(this.keys[s])}: ${number(this.weightsOf(t)[s])}`;
      };
      canvas.addEventListener("mousemove", (event) => tell(...at(event)));
      canvas.addEventListener("click", (event) => {
        const [t, s] = at(event);
        this.key = s;
        this.toggle(t, event.shiftKey);
        tell(t, s);
      });
      canvas.addEventListener("keydown", (event) => {
        const [down, right] = ARROWS[event.key] || [];
        if (down === undefined) return;
        event.preventDefault();
        const t = Math.min(this.T - 1, Math.max(0, (this.chosen()[0] ?? 0) + down));
        this.key = Math.min(this.S - 1, Math.max(0, (this.key ?? 0) + right));
        this.queries = new Set([t]);
        this.update(false);
        tell(t, this.key);
      });
      this.parts.picture.replaceChildren(legend, canvas, say);
    }
    marks() {
      const names = this.chosen().map((t) => `${t} ${shown(this.data.tokens[t])}`);
      this.parts.picture.title = names.length ? `pinned: ${names.slice(0, 8).join(", ")}` : "nothing is pinned";
    }

    lines() {
      const chosen = this.chosen();
      const many = this.T > 96 || this.S > 96;  // then only tokens with a line are drawn
      const weights = this.sums().map((w) => w / Math.max(1, chosen.length));
      const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
      const keys = many ? order.slice(0, 40).sort((a, b) => a - b) : [...weights.keys()];
      const queries = many ? chosen.slice(0, 40) : [...Array(this.T).keys()];
      const gap = this.horizontal ? 22 : 17, wide = this.horizontal ? 170 : 300;
      const length = gap * Math.max(queries.length, keys.length, 1) + 10;
      const point = (i, side) => (this.horizontal ? [10 + gap * i, side ? wide - 22 : 22] : [side ? wide - 70 : 70, 14 + gap * i]);
      const [width, height] = this.horizontal ? [length, wide] : [wide, length];
      const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
        "aria-label": "lines from queries to keys; a thick line is a large weight" });
      let drawn = 0;
      const pinned = queries.filter((t) => this.queries.has(t));
      const largest = Math.max(1e-9, ...pinned.map((t) => Math.max(...this.weightsOf(t))));
      for (const t of pinned) {
        const of = this.weightsOf(t);
        keys.forEach((s, j) => {
          if (of[s] < 0.004 || drawn > 3000) return;
          const [x1, y1] = point(queries.indexOf(t), 0), [x2, y2] = point(j, 1);
          svg.append(element("line", { x1, y1, x2, y2, "stroke-width": (5 * of[s] / largest).toFixed(2), "stroke-opacity": (0.25 + 0.75 * of[s] / largest).toFixed(2), "data-weight": of[s].toFixed(4) }));
          drawn++;
        });
      }
      const label = (text, i, side, bold) => {
        const [x, y] = point(i, side);
        const anchor = this.horizontal ? "middle" : side ? "start" : "end";
        svg.append(element("text", { x: this.horizontal ? x : x + (side ? 6 : -6), y: this.horizontal ? (side ? y + 16 : y - 8) : y + 4, "text-anchor": anchor, class: bold ? "chosen" : false }, shown(text)));
      };
      queries.forEach((t, i) => label(this.data.tokens[t], i, 0, this.queries.has(t)));
      keys.forEach((s, j) => label(this.keys[s], j, 1, s === this.key));
      this.svg = svg;
      const some = many ? `; of many, at most 40 queries and the 40 keys with the largest weights` : "";
      this.parts.lines.replaceChildren(element("p", { class: "soft" }, (this.horizontal ? "Above: queries, below: keys" : "Left: queries, right: keys") + some + (pinned.length ? `; the thickest line is ${number(largest)}` : "")),
        element("div", { class: "scroll" }, svg));
    }

    readout() {
      const chosen = this.chosen(), sums = this.sums();
      if (!chosen.length) { this.parts.readout.replaceChildren("nothing is pinned"); return; }
      const many = chosen.length > 1;
      const order = [...sums.keys()].sort((a, b) => sums[b] - sums[a]).slice(0, 20).filter((s) => sums[s] > 0);
      const norms = this.adds && row(this.adds, this.layer, this.head);
      const most = norms && Math.max(...order.map((s) => sums[s] * norms[s]), 1e-9);
      const body = order.map((s) => element("tr", { "data-key": s }, element("td", { class: "mono" }, `${s} ${shown(this.keys[s])}`),
        element("td", { class: "weight" }, number(sums[s])),
        ...(many ? [element("td", {}, number(sums[s] / chosen.length))] : []),
        ...(norms ? [element("td", { class: "adds" }, number(sums[s] * norms[s])), element("td", { style: "text-align:left" }, element("span", { class: "meter", style: `width:${80 * sums[s] * norms[s] / most}px` }))] : [])));
      this.parts.readout.replaceChildren(
        element("p", { class: "soft" }, `Query ${chosen.slice(0, 8).map((t) => `${t} ${shown(this.data.tokens[t])}`).join(", ")}${chosen.length > 8 ? ` and ${chosen.length - 8} more` : ""}; the largest ${order.length} of ${this.S} weights. Positions count from 0.`),
        element("div", { class: "scroll" }, element("table", {}, element("tr", {}, element("th", {}, "key"), element("th", {}, many ? "sum" : "weight"), ...(many ? [element("th", {}, "mean")] : []),
          ...(norms ? [element("th", { title: "weight times the length of value W_o" }, "length of what it adds"), element("th", {}, "")] : [])), ...body)));
    }

    score() {
      const chosen = this.chosen(), t = chosen[0], s = this.key;
      const say = (...nodes) => this.parts.score.replaceChildren(...nodes);
      if (!this.q) { say(this.data.why_no_q || "The data have no queries and keys."); return; }
      if (s === null || !chosen.length) { say(element("p", { class: "soft" }, "Pin a query and choose a key (both are buttons above, or click a cell).")); return; }
      if (s >= this.k.shape[2]) { say(`Key ${s} is no position, but a summary of several; its q·k is not shown.`); return; }
      const q = row(this.q, this.layer, this.head, t), k = row(this.k, this.layer, this.head, s);
      const terms = Array.from(q, (x, d) => ({ d, x, y: k[d], term: x * k[d] }));
      const product = terms.reduce((sum, { term }) => sum + term, 0), scale = this.data.scale[this.layer];
      const allowed = this.mayAttend(t, s), weight = this.weightsOf(t)[s];
      const most = Math.max(...terms.map(({ term }) => Math.abs(term)), 1e-9);
      terms.sort((a, b) => Math.abs(b.term) - Math.abs(a.term));
      say(element("p", {}, `Query ${t} ${shown(this.data.tokens[t])}, key ${s} ${shown(this.keys[s])}. The score is the sum of the products, times the scale; striped bars are negative. The softmax over all keys gives the weight.`),
        this.data.note_q ? element("p", { role: "note" }, this.data.note_q) : "",
        element("p", { class: "mono sum" }, `q·k = ${number(product)}; × scale ${number(scale)} = ${number(product * scale)}${allowed ? "" : " → masked"}; ÷ temperature ${this.temperature.toFixed(2)}; softmax → `, element("b", { class: "result" }, number(weight))),
        element("div", { class: "scroll" }, element("table", {}, element("tr", {}, ...["dimension", "q", "k", "q × k", ""].map((h) => element("th", {}, h))),
          ...terms.map(({ d, x, y, term }) => element("tr", { "data-dimension": d }, element("td", {}, d), element("td", {}, number(x)), element("td", {}, number(y)), element("td", { class: "term" }, number(term)),
            element("td", { style: "text-align:left" }, element("span", { class: term < 0 ? "meter less" : "meter", style: `width:${90 * Math.abs(term) / most}px` })))))));
    }

    heat(value, text, title) {
      return element("td", { class: "cell", style: `background:rgba(var(--heat),${(0.5 * Math.min(1, Math.max(0, value))).toFixed(3)})`, title }, text);
    }
    lens() {
      const { streams, lens } = this.data;
      return element("div", { class: "scroll lens" }, element("p", { class: "soft" }, "After the embedding and after each layer, the model's last layer norm and head are applied. Each cell: the most likely next token, and its probability in %. The last row is what the model says."),
        element("table", {}, element("tr", {}, element("th", {}, ""), ...this.data.tokens.map((t, i) => element("th", { class: "mono", title: String(i) }, shown(t)))),
          ...lens.map((rows, i) => element("tr", {}, element("th", {}, streams[i]), ...rows.map((top) => {
            const cell = this.heat(top[0][1], "", top.map(([token, p]) => `${shown(token)} ${percent(p)}`).join("\n"));
            cell.append(element("span", { class: "mono" }, shown(top[0][0])), element("br"), String(Math.round(100 * top[0][1])));
            cell.dataset.p = top[0][1];
            return cell;
          })))));
    }
    // Parts are taken out one by one. Blue: the probability falls; striped orange: it rises.
    changeCell(p, most, text, title) {
      const { base } = this.data.knock, share = Math.min(1, Math.abs(p - base) / most).toFixed(3);
      const colour = `rgba(var(--${p > base ? "rise" : "heat"}),${share})`;
      return element("td", { class: "cell", title, style: `background:${p > base ? `repeating-linear-gradient(45deg,${colour} 0 2px,transparent 2px 3px)` : colour}` }, text);
    }
    legend(most) {
      const { token, base } = this.data.knock;
      return `With all parts the next token is ${shown(token)}, probability ${percent(base)}. Blue: it falls, striped orange: it rises; the strongest colour is a change by ${(100 * most).toFixed(1)} points.`;
    }
    headMap() {
      const { base, heads, layers } = this.data.knock;
      const most = Math.max(SMALL, ...heads.flat().map((p) => Math.abs(p - base)));
      return element("div", { class: "scroll knock" }, element("p", { class: "soft" }, `The probability of the next token if the output of one head is set to 0. ${this.legend(most)} A large attention weight does not mean that its head matters.`),
        element("table", {}, element("tr", {}, element("th", {}, ""), ...heads[0].map((_, h) => element("th", {}, `head ${h}`))),
          ...heads.map((rows, l) => element("tr", {}, element("th", {}, layers[l]), ...rows.map((p) => this.changeCell(p, 2 * most, percent(p), number(p)))))));
    }
    neuronMap() {
      const { layers, why_no_neurons } = this.data.knock;
      if (!this.neurons) return element("p", { class: "neurons soft" }, why_no_neurons);
      return this.changeMap("neurons", "Each cell is a neuron of a feed-forward network, 64 in each row.", layers.map((layer, l) => {
        const values = row(this.neurons, l), rows = [];
        values.forEach((p, n) => { (rows[n >> 6] ||= []).push({ name: `${layer} neuron ${n}`, p }); });
        return { title: layer, rows };
      }));
    }
    edgeMap() {
      const { layers, why_no_edges } = this.data.knock, { tokens } = this.data;
      if (!this.edges) return element("p", { class: "edges soft" }, why_no_edges);
      const rest = this.S > this.T ? " It still attends to summaries that contain the key." : "";
      return this.changeMap("edges", `One query (row) cannot attend to one key (column), in all heads of a layer.${rest} In the last layer only the last query matters.`, layers.map((layer, l) => ({
        title: layer, labels: tokens.map(shown),
        rows: tokens.map((query, t) => Array.from(row(this.edges, l, t).subarray(0, t + 1), (p, s) => (
          { name: `${layer} ${t} ${shown(query)} → ${s} ${shown(tokens[s])}`, p }))),
      })));
    }
    // A map of the probability without each of many parts, and in words those that change it most.
    // `maps` have a title, rows of cells {name, p}, and tokens beside rows and columns, if any. A
    // cell whose p is NaN has no part. Arrow keys move in a map.
    changeMap(kind, about, maps) {
      const { base } = this.data.knock, changeOf = ({ p }) => Math.abs(p - base);
      const cells = maps.flatMap(({ rows }) => rows.flat()).filter(({ p }) => !Number.isNaN(p));
      cells.sort((a, b) => changeOf(b) - changeOf(a));
      const most = Math.max(SMALL, ...cells.slice(0, 1).map(changeOf));
      const say = element("p", { class: "mono soft", "aria-live": "polite" }, "(hover over a cell, or use the arrow keys in a map)");
      const label = (text) => element("th", { class: "mono" }, text);
      const drawn = ({ title, rows, labels }) => {
        let at = [0, 0];
        const tell = (i, j) => {
          if (!rows[i] || !rows[i][j]) return;
          at = [i, j];
          const { name, p } = rows[i][j];
          say.textContent = Number.isNaN(p) ? `${name}: no edge` : `${name}: ${percent(base)} → ${percent(p)}`;
        };
        const table = element("table", { tabindex: "0", role: "application", "aria-label": `${kind} of ${title}; arrow keys move` }, element("caption", {}, title),
          ...(labels ? [element("tr", {}, label(""), ...labels.map(label))] : []),
          ...rows.map((row, i) => element("tr", {}, ...(labels ? [label(labels[i])] : []), ...row.map((cell, j) => {
            const made = Number.isNaN(cell.p) ? element("td", { title: `${cell.name}: no edge` }) : this.changeCell(cell.p, most, "", `${cell.name}: ${percent(cell.p)}`);
            made.addEventListener("mouseenter", () => tell(i, j));
            return made;
          }))));
        table.addEventListener("keydown", (event) => {
          const [down, right] = ARROWS[event.key] || [];
          if (down === undefined) return;
          event.preventDefault();
          tell(at[0] + down, at[1] + right);
        });
        return element("div", { class: "scroll" }, table);
      };
      return element("div", { class: kind }, element("p", { class: "soft" }, `${about} ${this.legend(most)} The largest changes:`),
        element("ol", {}, ...cells.slice(0, 5).map(({ name, p }) => element("li", { "data-p": p }, `${name}: ${percent(base)} → ${percent(p)}`))),
        element("div", { class: "maps" }, ...maps.map(drawn)), say);
    }
    patch() {
      const { why, rows, from, tokens } = this.data.patch;
      if (why) return element("p", { class: "patch soft" }, why);
      const [other, own] = tokens.map(shown);
      return element("div", { class: "scroll patch" }, element("p", { class: "soft" }, `Each cell: the residual stream at this position (column), after this layer (row), is replaced by that of the text ${from}. 0: the next token stays ${own}. 100: the logit of ${other} exceeds that of ${own} by as much as in the other text. Where both texts have the same letter, the embedding is the same.`),
        element("table", {}, element("tr", {}, element("th", {}, ""), ...this.data.tokens.map((t) => element("th", { class: "mono" }, shown(t)))),
          ...rows.map((gaps, i) => element("tr", {}, element("th", {}, this.data.streams[i]), ...gaps.map((gap) => this.heat(gap, (100 * gap).toFixed(0).replace(/^-0$/, "0"), number(gap)))))));
    }
    influenceMap() {
      const [T, S] = this.influence.shape;
      const pairs = `${this.influence.values.reduce((a, b) => a + b, 0)} of ${T * S} pairs`;
      const canvas = element("canvas", { class: "matrix", role: "img", style: `width:${Math.min(300, 6 * S)}px`, "aria-label": `row = position, column = position that it depends on; ${pairs}` });
      Object.assign(canvas, { width: S, height: T });
      const context = canvas.getContext("2d");
      context.fillStyle = `rgb(${getComputedStyle(this.theme.root).getPropertyValue("--heat")})`;
      this.influence.values.forEach((yes, at) => { if (yes) context.fillRect(at % S, Math.floor(at / S), 1, 1); });
      this.parts.influence.replaceChildren(element("p", { class: "soft" }, `Each token was changed once. Coloured: the logits at this position (row) depend on the token at that position (column): ${pairs}`), canvas);
    }
    generation() {
      return element("div", { class: "scroll generation" }, element("p", { class: "soft" }, "Greedy: the most likely token at each step."), element("table", {}, element("tr", {}, element("th", {}, "step"), element("th", {}, "token"), element("th", {}, "probability"), element("th", {}, "other likely tokens")),
        ...this.data.generation.map(({ token, p, others }, i) => element("tr", {}, element("td", {}, i + 1), element("td", { class: "mono" }, shown(token)), element("td", { class: "p" }, percent(p)),
          element("td", { class: "mono", style: "text-align:left" }, others.filter(([, q]) => q >= 5e-4).map(([other, q]) => `${shown(other)} ${percent(q)}`).join("  "))))));
    }

    csv() {
      const sums = this.sums();
      return ["index,key,weight", ...Array.from(sums, (w, s) => `${s},${quote(this.keys[s])},${w.toFixed(4)}`)].join("\n");
    }
    csvMatrix() {
      return [["", ...this.keys.map(quote)].join(","), ...this.data.tokens.map((token, t) => [quote(token), ...Array.from(this.weightsOf(t), (w) => w.toFixed(4))].join(","))].join("\n");
    }
    copy(text) {
      const area = this.area || element("textarea", { class: "copied", readonly: true, "aria-label": "copied text" });
      this.area = area;
      area.value = text;
      this.parts.controls.append(area);
      area.select();
      if (navigator.clipboard) navigator.clipboard.writeText(text).catch(() => document.execCommand("copy"));
      else document.execCommand("copy");
    }
    save() {
      const copy = this.svg.cloneNode(true);  // dark on white, also from a dark page
      copy.querySelectorAll("line").forEach((line) => line.setAttribute("stroke", "#0b5cad"));
      copy.querySelectorAll("text").forEach((text) => {
        text.setAttribute("font-family", "monospace"); text.setAttribute("font-size", "13");
        text.setAttribute("fill", "#16202a");
        if (text.getAttribute("class") === "chosen") text.setAttribute("font-weight", "bold");
      });
      const link = element("a", { download: `head-${this.layer}-${this.head}.svg`, href: URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" })) });
      link.click();
    }
  }

  async function mount(root) {
    root.dataset.ready = "loading";
    const data = JSON.parse(root.querySelector("script").textContent);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const theme = { root, name: dark.matches ? "dark" : "light" };
    root.dataset.theme = theme.name;
    let chosen = false;  // by the reader, who then decides and not the system
    let sections = [];
    const set = (name) => {
      root.dataset.theme = theme.name = name;
      sections.forEach((section) => section.update());
    };
    root.append(element("div", { class: "bar" }, heading(1, data.title),
      button("light or dark", () => { chosen = true; set(theme.name === "dark" ? "light" : "dark"); })),
    ...data.notes.map((note) => element("p", {}, note)));
    sections = await Promise.all(data.sections.map((section) => new Section(section, theme).load()));
    for (const section of sections) root.append(section.draw());
    dark.addEventListener("change", () => { if (!chosen) set(dark.matches ? "dark" : "light"); });
    root.dataset.ready = "yes";
  }

  document.querySelectorAll(".tinyattn:not([data-ready])").forEach((root) => mount(root).catch((error) => {
    root.append(element("p", { role: "alert" }, `This page cannot be shown: ${error.message}. It needs a browser of 2023 or later.`));
    root.dataset.ready = "failed";
    throw error;
  }));
})();
