// Helpers of desk.js; both files form one module in the browser.

function make(tag, ...children) {
  const element = document.createElement(tag);
  element.append(...children);
  return element;
}

// Buttons of the labels with keys; as a tree if their places are fixed.
function labelButtons(names, hints, fixed) {
  const rows = fixed ? treeOf(names) : names.map((name) => ({ name, leaf: name, depth: 0 }));
  let place = 0;
  return rows.map((row) => {
    if (row.branch !== undefined) return branch("p", row);
    const button = make("button", labelName(row, hints), make("kbd", keyOf(place)));
    place += 1;
    button.type = "button";
    button.label = row.name;
    button.title = hints[row.name]?.[1] || row.name;
    button.style.setProperty("--depth", row.depth);
    return button;
  });
}

function keyOf(place) {
  return place < 9 ? `${place + 1}` : `⇧${place - 8}`;
}

// A row of the search: a label, or a branch of the tree.
function searchRow(row, hints) {
  if (row.branch !== undefined) {
    const title = branch("li", row);
    title.setAttribute("role", "presentation");
    return title;
  }
  const option = make("li", labelName(row, hints));
  const hint = hints[row.name]?.[1];
  if (hint) option.append(make("small", hint));
  option.label = row.name;
  option.setAttribute("role", "option");
  option.style.setProperty("--depth", row.depth);
  return option;
}

function branch(tag, { branch: name, depth }) {
  const title = make(tag, make("bdi", name));
  title.className = "branch";
  title.style.setProperty("--depth", depth);
  return title;
}

// A label with its colour; the upper levels of its name are smaller, and lines may end at "_".
function labelName({ name, leaf }, hints) {
  const levels = leaf.split(LEVELS);
  const last = levels.pop().split(/(?<=[_/-])/);
  const words = make("bdi", ...last.flatMap((part) => [part, make("wbr")]));
  if (levels.length) words.prepend(make("small", `${levels.join(" › ")} › `));
  const colour = hints[name]?.[0];
  if (!colour) return words;
  const dot = make("i");
  dot.className = "dot";
  dot.style.background = colour;
  return make("span", dot, words);
}

function now() {
  return Date.now() / 1000;
}

// crypto.randomUUID is missing under plain HTTP.
function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

// A key's meaning on any layout: letters and signs by character, digits also by position, because
// AZERTY needs Shift for them, and Shift+7 is a slash on other layouts.
function keyName({ key, code }) {
  if (key === "/" || key === "?" || /^\d$/.test(key)) return key;
  if (/^Digit\d$/.test(code)) return code.slice(-1);
  if (/^[a-z]$/i.test(key)) return key.toLowerCase();
  if (key.length === 1 && /^Key[A-Z]$/.test(code)) return code.slice(-1).toLowerCase();
  return key.toLowerCase();
}

function percent(share) {
  return share > 0.995 ? "over 99%" : share < 0.01 ? "under 1%" : `${Math.round(100 * share)}%`;
}

function many(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

// Headings, lists, bold, italics and code; everything else is shown literally.
function markdown(text) {
  if (!text.trim()) return [make("p", "Nobody has written a label guide yet.")];
  const blocks = [];
  let open = null;
  for (const line of text.split("\n")) {
    const [, tag, content] = block(line);
    if (!tag) open = null;
    else if (tag === "h3") {
      blocks.push(make("h3", ...inline(content)));
      open = null;
    } else {
      const outer = { ul: "UL", ol: "OL", p: "P" }[tag];
      if (open?.tagName !== outer) blocks.push((open = make(tag)));
      else if (tag === "p") open.append(" ");
      open.append(...(tag === "p" ? inline(content) : [make("li", ...inline(content))]));
    }
  }
  return blocks;
}

function block(line) {
  const heading = /^#{1,6}\s+(.*)$/.exec(line);
  const bullet = /^\s*[-*+]\s+(.*)$/.exec(line);
  const number = /^\s*\d+[.)]\s+(.*)$/.exec(line);
  if (heading) return [line, "h3", heading[1]];
  if (bullet) return [line, "ul", bullet[1]];
  if (number) return [line, "ol", number[1]];
  return [line, line.trim() ? "p" : null, line.trim()];
}

function inline(text) {
  return text.split(/(\*\*[^*]+\*\*|\*[^*]+\*|`[^`]+`)/).map((part) => {
    if (/^\*\*.+\*\*$/.test(part)) return make("strong", part.slice(2, -2));
    if (/^\*.+\*$/.test(part)) return make("em", part.slice(1, -1));
    if (/^`.+`$/.test(part)) return make("code", part.slice(1, -1));
    return part;
  });
}

// Checkboxes for the similar tickets; they update the group's `chosen`.
function similarTickets({ tickets, chosen }) {
  if (!tickets.length) return [make("p", "No other ticket that waits is like this one.")];
  const count = make("p");
  const tell = () => {
    count.textContent = chosen.size
      ? `Your decision is also for ${chosen.size} of these ${tickets.length}:`
      : "Your decision is for the ticket above only.";
  };
  const list = make("ul");
  for (const { id, text } of tickets) {
    const box = make("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      if (!chosen.delete(id)) chosen.add(id);
      tell();
    });
    list.append(make("li", make("label", box, make("bdi", text))));
  }
  tell();
  return [count, list];
}

// --- a ticket ---

// In the viewer's time zone; the tooltip has the file's own text.
function receivedAt({ received, received_text: text }) {
  if (received === null) return [];
  const moment = new Date(received * 1000);
  const time = make("time", moment.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }));
  time.dateTime = moment.toISOString();
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  time.title = `${text ? `In the file: ${text}. ` : ""}Shown in your time zone, ${zone}.`;
  return [time];
}

function reasonOf({ blind, holder, reason }) {
  if (holder) return `${holder} has this ticket now.`;
  if (blind) return "A check, without the model's answer: it would sway you.";
  return reason ? `${reason[0].toUpperCase()}${reason.slice(1)}.` : "";
}

function suggestionOf({ blind, decided, suggested, sure, confidence }) {
  if (decided) return `Your decision, ${momentOf(decided.at)}. Another label changes it.`;
  if (blind) return "A check:";
  if (!suggested.length) return "The model suggests no label.";
  const likely = confidence === null ? "" : `, ${percent(confidence)} likely`;
  return sure ? `The model's answer${likely}:` : `Only a guess${likely}:`;
}

function textOf({ kind, labels }) {
  return { none: "none of the labels", skip: "skipped" }[kind] ?? labels.join(", ");
}

function momentOf(seconds) {
  const today = new Date().toDateString() === new Date(seconds * 1000).toDateString();
  const style = today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" };
  return new Date(seconds * 1000).toLocaleString([], style);
}

function fact(value) {
  const cell = make("dd", value);
  cell.dir = "auto";
  cell.title = value;
  return cell;
}

// A part of the text; folded if it is quoted e-mail. Blank lines before that are left out.
function section([quoted, parts], place, all) {
  const beforeQuote = all[place + 1]?.[0];
  const nodes = parts.map(([text, marked], part) => {
    const shown = beforeQuote && part === parts.length - 1 ? text.trimEnd() : text;
    return marked ? make("mark", shown) : shown;
  });
  if (!quoted) return make("span", ...nodes);
  const lines = parts.map(([text]) => text).join("").trim().split("\n").length;
  return make("details", make("summary", `Quoted e-mail, ${many(lines, "line")}`), ...nodes);
}

function whyOf(ticket) {
  if (!ticket) return [];
  if (ticket.blind) return [make("p", "The model's answer is held back: it would sway you.")];
  const bars = make("div");
  bars.className = "probable";
  for (const [name, share] of ticket.probable) {
    const bar = make("i");
    bar.style.width = `${100 * share}%`;
    bars.append(make("bdi", name), make("div", bar), make("span", percent(share)));
  }
  return [make("p", "Marked in the text: what moved the answer most. The likeliest labels:"), bars];
}

// Each of this person's last decisions, as a button that opens its ticket.
function lastDecisions(decisions) {
  if (!decisions.length) return [make("p", "You have not decided anything yet.")];
  const list = make("ul");
  for (const { ticket, name, text, kind, labels, at } of decisions) {
    const button = make("button", make("b", make("bdi", name)), make("bdi", textOf({ kind, labels })));
    button.append(make("bdi", text), make("span", momentOf(at)));
    button.type = "button";
    button.dataset.do = "open";
    button.ticket = ticket;
    list.append(make("li", button));
  }
  return [list];
}
