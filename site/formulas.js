// Formulas in TeX as HTML. Reads a JSON list of [text, whether it stands on a line of its own],
// writes a JSON list of [HTML, error], one of them null. Call: node formulas.js katex.min.js
const katex = require(require("path").resolve(process.argv[2]));

const render = ([text, displayMode]) => {
  try {
    return [katex.renderToString(text, { displayMode, throwOnError: true }), null];
  } catch (error) {
    return [null, String(error)];
  }
};

const formulas = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(formulas.map(render)));
