// Helpers of desk.js; both files form one module in the browser.

function make(tag, ...children) {
  const element = document.createElement(tag);
  element.append(...children);
  return element;
}

function labelButton(name, place) {
  const button = make("button", make("bdi", name), make("kbd", String(place + 1)));
  button.type = "button";
  button.label = name;
  return button;
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

function plain(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
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
