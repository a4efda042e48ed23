// Searches labels: all words that were typed, in any order and with typos. Spaces, underscores,
// hyphens, case and accents are equal. In the browser, because each key must be answered at once,
// without a network too.

const LEVELS = " > "; // between the levels of a label
const wordsByText = new Map();

function wordsOf(text) {
  let words = wordsByText.get(text);
  if (!words) {
    const plain = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
    words = plain.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
    wordsByText.set(text, words);
  }
  return words;
}

// The best labels first: those without typos, and among equals the lowest `rank`.
function searchLabels(names, text, rank) {
  const typed = wordsOf(text);
  return names
    .map((name, order) => ({ name, order, cost: costOf(typed, text.trim(), name) }))
    .filter(({ cost }) => cost < Infinity)
    .sort((a, b) => a.cost - b.cost || rank(a.name) - rank(b.name) || a.order - b.order)
    .map(({ name }) => name);
}

function costOf(typed, text, name) {
  if (!text) return 0;
  if (!typed.length) return name.includes(text) ? 0 : Infinity; // signs only
  const words = wordsOf(name);
  const each = typed.map((one) => Math.min(...words.map((word) => typosIn(one, word))));
  const rests = words.map((_, first) => words.slice(first).join(""));
  const joined = Math.min(...rests.map((rest) => typosIn(typed.join(""), rest)));
  return Math.min(joined, each.reduce((sum, cost) => sum + cost, 0));
}

// Typos in the beginning of a word; half a typo if what was typed stands inside of it.
function typosIn(typed, word) {
  if (word.startsWith(typed)) return 0;
  if (word.includes(typed)) return 0.5;
  const most = typed.length < 3 ? 0 : typed.length < 6 ? 1 : 2;
  return word.length < typed.length - most || !most ? Infinity : distance(typed, word, most);
}

// The fewest letters to insert, delete, replace or swap that turn `typed` into a beginning of
// `word` (optimal string alignment); Infinity for more than `most`.
function distance(typed, word, most) {
  const width = Math.min(word.length, typed.length + most);
  let above = [];
  let last = Array.from({ length: width + 1 }, (_, at) => at);
  for (let row = 1; row <= typed.length; row += 1) {
    const next = [row];
    let fewest = row;
    for (let at = 1; at <= width; at += 1) {
      const replaced = last[at - 1] + (typed[row - 1] === word[at - 1] ? 0 : 1);
      let best = Math.min(last[at] + 1, next[at - 1] + 1, replaced);
      if (row > 1 && typed[row - 1] === word[at - 2] && typed[row - 2] === word[at - 1]) {
        best = Math.min(best, above[at - 2] + 1);
      }
      next[at] = best;
      fewest = Math.min(fewest, best);
    }
    if (fewest > most) return Infinity;
    above = last;
    last = next;
  }
  return Math.min(...last);
}

// Rows of the tree of labels: branches { branch, depth } and labels { name, leaf, depth }.
function treeOf(names, depth = 0) {
  const branches = new Map();
  for (const name of names) {
    const [part] = name.split(LEVELS).slice(depth);
    branches.set(part, [...(branches.get(part) ?? []), name]);
  }
  return [...branches].flatMap(([part, inside]) => {
    const [leaves, deeper] = [[], []];
    for (const name of inside) {
      (name.split(LEVELS).length === depth + 1 ? leaves : deeper).push(name);
    }
    const rows = leaves.map((name) => ({ name, leaf: part, depth }));
    if (!deeper.length) return rows;
    return [...rows, { branch: part, depth }, ...treeOf(deeper, depth + 1)];
  });
}
