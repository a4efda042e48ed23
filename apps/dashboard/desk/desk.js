// The desk in the browser. Untrusted texts enter the page as text nodes only.
//
// A click never waits: it shows the next ticket of `queue` and adds the decision to `unsent`, which
// stays in sessionStorage until the server acknowledges it. Each message sends all of `unsent`; only
// one is in flight at a time, and it is sent again if there is no response.

const FIXED = 9; // labels with their own keys; if there are more, the PROBABLE ones
const PROBABLE = 5;
const RENEW = 120; // seconds between renewals of the leases
const RENEW_EMPTY = 15; // the same for an empty queue
const IDLE = 15 * 60; // seconds without user activity until the leases may expire
const PATIENCE = [2, 5]; // seconds until a message is sent again: first, and at most
const DEAD = 30; // seconds without a response until the page is reloaded
const KEPT = 1000; // decisions that can be undone after a reload
const LISTED = 100; // most listed search results
const UNANSWERED = "The server does not answer. Decisions are kept in this tab and sent again.";
const TYPING = "input:not([type='checkbox']), textarea, select, [contenteditable]:not([contenteditable='false'])";
const ELSEWHERE = "[role='dialog'], [role='menu'], [role='listbox']";
const PRESSED_BY_ENTER = "button, a, summary, [role='button'], [role='tab'], [role='option']";

const PANEL_OF = { w: "why", g: "guide", "?": "keys" };
const KEY_OF = {
  accept: "enter",
  none: "n",
  skip: "s",
  undo: "u",
  similar: "f",
  search: "/",
  why: "w",
  guide: "g",
  keys: "?",
};

const desks = new WeakMap();

export default function ({ data, parentElement, setStateValue }) {
  let desk = desks.get(parentElement);
  if (desk?.owner !== data.owner) {
    desk?.close();
    desk = new Desk(parentElement.querySelector(".desk"), data.owner);
    desks.set(parentElement, desk);
  }
  desk.post = (message) => setStateValue("message", message);
  desk.receive(data);
  return () => desk.close();
}

class Desk {
  constructor(root, owner) {
    this.root = root;
    this.owner = owner;
    this.queue = []; // leased tickets; the first is visible
    this.seen = new Map(); // ticket by id
    this.labels = [];
    this.several = false;
    this.chosen = new Set(); // labels, if a ticket may have several
    this.panels = new Set(); // the open ones
    this.group = null; // similar tickets: { ticket, tickets, chosen }
    this.asked = null; // the ticket of the pending similarity search
    this.waiting = { audits: 0, reviews: 0 };
    this.today = 0;
    this.guideText = "";
    this.error = null;
    this.alerts = [];
    this.options = []; // of the search
    this.shown = undefined;
    this.number = Date.now();
    this.sent = null; // { number, at, full } of the message in flight
    this.tries = 0;
    this.renewedAt = this.movedAt = now();
    this.silence = 0; // seconds of running without a response to a message
    this.memory = `bertcnn-desk:${owner}`;
    this.restore();
    this.listen();
  }

  // --- storage of the tab ---

  restore() {
    let kept = {};
    try {
      kept = JSON.parse(sessionStorage.getItem(this.memory)) ?? {};
    } catch {
      // no storage, or invalid contents
    }
    this.unsent = kept.unsent ?? []; // unacknowledged decisions
    this.done = kept.done ?? []; // [key, ticket, kind] of decisions that can be undone
    this.pinned = new Set(kept.pinned ?? []); // tickets that came back to this desk
  }

  keep() {
    const kept = { unsent: this.unsent, done: this.done.slice(-KEPT), pinned: [...this.pinned] };
    try {
      sessionStorage.setItem(this.memory, JSON.stringify(kept));
      this.kept = true;
    } catch {
      this.kept = false; // full or forbidden: decisions are kept in memory
    }
  }

  // --- to and from the server ---

  flush(full = false) {
    if (this.sent && !full) return;
    this.number += 1;
    this.sent = { number: this.number, at: now(), full };
    const held = this.queue.map((ticket) => ticket.id);
    const message = { number: this.number, decisions: this.unsent, held, full };
    this.post({ ...message, similar: this.asked });
  }

  receive(data) {
    this.silence = 0;
    const late = this.sent && data.number !== null && data.number < this.sent.number;
    if (data.number !== null && this.sent?.number === data.number) {
      if (this.sent.full) this.renewedAt = now();
      this.sent = null;
    }
    if (data.number === null) this.sent = null; // a new session, without the message
    this.error = data.error;
    const stored = new Set(data.acknowledged);
    const before = this.unsent.length;
    const refused = this.unsent.filter((one) => one.key in data.refused);
    this.unsent = this.unsent.filter((one) => !stored.has(one.key) && !(one.key in data.refused));
    for (const one of refused) this.refuse(one, data.refused[one.key]);
    if (!data.error) {
      this.tries = 0;
      this.labels = data.labels;
      this.several = data.several;
      this.waiting = data.waiting;
      this.today = data.today;
      this.setGuide(data.guide ?? this.guideText);
      if (!late) this.merge(data);
      if (data.similar) this.showSimilar(data.similar);
    }
    if (before !== this.unsent.length) this.keep();
    this.draw();
    const more = this.unsent.length || this.asked !== null;
    if (!this.sent && !data.error && more) this.flush();
  }

  // Merge the leased tickets from the server; the visible ticket keeps its place.
  merge({ held, tickets }) {
    if (held === null) return;
    for (const ticket of tickets) {
      if (!this.seen.has(ticket.id)) this.seen.set(ticket.id, ticket);
    }
    const mine = new Set(held);
    const last = new Map(this.unsent.map((one) => [one.ticket, one.kind]));
    const shown = this.queue[0];
    this.queue = this.queue.filter((one) => mine.has(one.id) || this.pinned.has(one.id));
    const known = new Set(this.queue.map((one) => one.id));
    for (const id of held) {
      const decided = last.has(id) && last.get(id) !== "undo";
      if (known.has(id) || decided || !this.seen.has(id)) continue;
      if (this.pinned.has(id)) this.queue.splice(1, 0, this.seen.get(id));
      else this.queue.push(this.seen.get(id));
    }
    for (const id of held) if (!last.has(id)) this.pinned.delete(id);
    if (shown && this.queue[0] !== shown) {
      this.say("The ticket shown before is no longer yours: it was decided, or left too long.");
    }
  }

  // The ticket comes back next, not now: the user is already deciding the visible one.
  refuse(one, reason) {
    this.alerts.push(reason);
    this.drawAlerts();
    this.done = this.done.filter(([key]) => key !== one.key);
    this.pinned.delete(one.ticket);
    const ticket = this.seen.get(one.ticket);
    if (ticket && !this.queue.includes(ticket)) this.queue.splice(1, 0, ticket);
  }

  tick() {
    if (this.sent && ++this.silence > DEAD) this.loadAgain();
    const patience = Math.min(PATIENCE[0] * 2 ** this.tries, PATIENCE[1]);
    if (this.sent && now() - this.sent.at > patience) {
      this.tries += 1;
      this.flush(true);
      this.drawUnsent();
      if (this.tries === 1) this.say(UNANSWERED);
    } else if (!this.sent && this.error) {
      if (now() - this.renewedAt > patience) this.renew();
    } else if (!this.sent && now() - this.movedAt < IDLE) {
      if (now() - this.renewedAt > (this.queue.length ? RENEW : RENEW_EMPTY)) this.renew();
    }
  }

  // After a network change, a connection may be dead without the browser's knowledge.
  async loadAgain() {
    this.keep();
    const answers = await fetch(new URL("_stcore/health", document.baseURI), { cache: "no-store" })
      .then((answer) => answer.ok)
      .catch(() => false);
    if (!answers || !this.kept || this.leaving || this.silence <= DEAD) return;
    // only once, or a slow page would never load; decisions are in sessionStorage
    this.leaving = true;
    location.reload();
  }

  renew() {
    this.renewedAt = now();
    this.flush(true);
  }

  // The user is active; after a pause the leases may have expired.
  moved() {
    if (document.hidden) return;
    this.movedAt = now();
    if (!this.sent && this.movedAt - this.renewedAt > RENEW) this.renew();
  }

  // --- decisions ---

  decide(kind, labels = []) {
    const ticket = this.queue.shift();
    if (!ticket) return;
    this.pinned.delete(ticket.id);
    const key = this.add(ticket.id, kind, { labels, model: ticket.model, blind: ticket.blind });
    const others = kind === "skip" ? [] : this.decideGroup(kind, labels, ticket.model);
    this.done.push([key, ticket.id, kind === "label" ? labels.join(", ") : kind, others]);
    const what = { none: "None of the labels", skip: "Skipped", label: labels.join(", ") }[kind];
    const more = others.length ? `, for ${many(others.length + 1, "ticket")}` : "";
    this.after(`${what}${more}. U undoes.`);
  }

  // Decide the selected similar tickets too; returns the key and ticket of each.
  decideGroup(kind, labels, model) {
    const chosen = this.group ? [...this.group.chosen] : [];
    const others = chosen.map((id) => [this.add(id, kind, { labels, model }), id]);
    this.queue = this.queue.filter((one) => !chosen.includes(one.id));
    for (const id of chosen) this.pinned.delete(id);
    return others;
  }

  undo() {
    const last = this.done.pop();
    if (!last) return this.say("There is nothing to undo.");
    const [undoes, id, what, others = []] = last;
    for (const [key, other] of others) this.add(other, "undo", { undoes: key });
    this.add(id, "undo", { undoes });
    const ticket = this.seen.get(id);
    this.pinned.add(id);
    if (ticket) this.queue.unshift(ticket);
    this.after(ticket ? `Undone: ${what}.` : `Undone: ${what}. The ticket comes back next.`);
  }

  add(ticket, kind, { labels = [], undoes = null, model = null, blind = false }) {
    const shown_at = kind === "undo" ? null : this.shownAt;
    const one = { key: uuid(), ticket, kind, labels, undoes, model, blind, shown_at };
    this.unsent.push({ ...one, decided_at: now() });
    return one.key;
  }

  after(message) {
    this.keep();
    this.closeSearch();
    this.draw();
    this.say(message);
    this.focusTicket();
    setTimeout(() => this.flush());
  }

  // --- similar tickets ---

  findSimilar() {
    const ticket = this.queue[0];
    if (this.group || this.asked !== null) return this.closeSimilar();
    if (ticket.blind) return this.say("This ticket is a check, which is decided by itself.");
    this.asked = ticket.id;
    this.drawSimilar();
    return this.flush();
  }

  showSimilar({ ticket, tickets }) {
    if (ticket !== this.asked) return;
    this.asked = null;
    this.group = { ticket, tickets, chosen: new Set(tickets.map((one) => one.id)) };
    this.drawSimilar();
  }

  closeSimilar() {
    this.group = this.asked = null;
    this.drawSimilar();
  }

  drawSimilar() {
    const panel = this.find(".similar");
    const open = Boolean(this.group) || this.asked !== null;
    panel.hidden = !open;
    this.find("[data-do='similar']").setAttribute("aria-expanded", String(open));
    if (!this.group) panel.replaceChildren(make("p", "Looking for similar tickets ..."));
    else panel.replaceChildren(...similarTickets(this.group));
  }

  // The labels that Enter assigns.
  wanted() {
    if (this.several) return this.labels.filter((name) => this.chosen.has(name));
    return this.queue[0].suggested;
  }

  accept() {
    const wanted = this.wanted();
    if (wanted.length && wanted.every((name) => this.labels.includes(name))) {
      return this.decide("label", wanted);
    }
    if (this.several) return this.say("Choose labels first, or press N for none of them.");
    if (wanted.length) return this.say("The suggested label is no longer in use. Choose another.");
    return this.say("There is no suggestion to accept. Choose a label.");
  }

  give(name) {
    if (!this.several) return this.decide("label", [name]);
    if (!this.chosen.delete(name)) this.chosen.add(name);
    this.closeSearch();
    this.draw();
    return this.say(`${name} ${this.chosen.has(name) ? "chosen" : "left out"}. Enter confirms.`);
  }

  digit(number) {
    if (number === 0) return this.decide("none");
    const name = this.keyed()[number - 1];
    return name === undefined ? this.say(`No label has the key ${number}.`) : this.give(name);
  }

  // Labels with their own keys, in order.
  keyed() {
    if (this.labels.length <= FIXED) return this.labels;
    const names = (this.queue[0]?.probable ?? []).map(([name]) => name);
    return names.filter((name) => this.labels.includes(name)).slice(0, PROBABLE);
  }

  // --- keys and buttons ---

  listen() {
    this.stop = new AbortController();
    const options = { signal: this.stop.signal };
    document.addEventListener("keydown", (event) => this.keydown(event), options);
    for (const kind of ["keydown", "pointermove", "pointerdown", "visibilitychange"]) {
      document.addEventListener(kind, () => this.moved(), { ...options, passive: true });
    }
    const leaving = (event) => this.unsent.length && !this.leaving && event.preventDefault();
    window.addEventListener("beforeunload", leaving, options);
    this.root.addEventListener("click", (event) => this.click(event), options);
    const input = this.find(".search input");
    input.addEventListener("input", () => this.search(), options);
    input.addEventListener("keydown", (event) => this.searchKey(event), options);
    this.clock = setInterval(() => this.tick(), 1000);
  }

  close() {
    this.stop.abort();
    clearInterval(this.clock);
  }

  keydown(event) {
    if (event.defaultPrevented || event.repeat || event.isComposing) return;
    if (["Control", "Alt", "Meta", "AltGraph"].some((one) => event.getModifierState(one))) return;
    const path = event.composedPath().filter((node) => node instanceof Element);
    if (path.some((node) => node.matches(`${TYPING}, ${ELSEWHERE}`))) return;
    const name = keyName(event);
    if (name === "enter" && path[0]?.closest(PRESSED_BY_ENTER)) return;
    if (this.act(name)) event.preventDefault();
  }

  act(name) {
    const panel = PANEL_OF[name];
    if (panel) this.toggle(panel);
    else if (name === "u") this.undo();
    else if (!this.queue.length) return false;
    else if (name === "enter") this.accept();
    else if (/^\d$/.test(name)) this.digit(Number(name));
    else if (name === "n") this.decide("none");
    else if (name === "s") this.decide("skip");
    else if (name === "f") this.findSimilar();
    else if (name === "/") this.openSearch();
    else return false;
    return true;
  }

  click(event) {
    const target = event.target.closest("button, li");
    const act = target?.dataset.do;
    if (!target || (event.detail > 1 && act !== "undo")) return; // a second click meant the first
    if (target.label !== undefined) this.give(target.label);
    else if (act === "dismiss") this.dismiss();
    else this.act(KEY_OF[act]);
    if (event.detail && act !== "search") this.focusTicket(); // by mouse or touch
  }

  dismiss() {
    this.alerts = [];
    this.drawAlerts();
  }

  setGuide(text) {
    if (text === this.guideText) return;
    this.guideText = text;
    this.drawPanels();
  }

  toggle(panel) {
    if (!this.panels.delete(panel)) this.panels.add(panel);
    this.drawPanels();
  }

  // --- the search ---

  openSearch() {
    this.find(".search").hidden = false;
    const input = this.find(".search input");
    input.value = "";
    this.search();
    input.focus();
  }

  closeSearch() {
    this.find(".search").hidden = true;
  }

  search() {
    const wanted = plain(this.find(".search input").value.trim());
    const found = this.labels
      .map((name) => [plain(name).indexOf(wanted), name])
      .filter(([place]) => place >= 0)
      .sort(([one], [other]) => Number(one > 0) - Number(other > 0))
      .slice(0, LISTED);
    this.options = found.map(([, name], place) => {
      const option = make("li", name);
      option.id = `label-${place}`;
      option.label = name;
      option.setAttribute("role", "option");
      return option;
    });
    this.find(".search ul").replaceChildren(...this.options);
    this.select(0);
  }

  select(place) {
    this.active = Math.max(0, Math.min(place, this.options.length - 1));
    for (const [index, option] of this.options.entries()) {
      option.setAttribute("aria-selected", String(index === this.active));
    }
    const option = this.options[this.active];
    this.find(".search input").setAttribute("aria-activedescendant", option?.id ?? "");
    option?.scrollIntoView({ block: "nearest" });
  }

  searchKey(event) {
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const option = this.options[this.active];
    if (step) this.select(this.active + step);
    else if (event.key === "Escape") {
      this.closeSearch();
      this.focusTicket();
    } else if (event.key === "Enter" && option && !event.repeat) {
      this.give(option.label);
      this.focusTicket();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // --- drawing ---

  find(selector) {
    return this.root.querySelector(selector);
  }

  say(message) {
    this.find(".said").replaceChildren(make("span", message));
  }

  focusTicket() {
    const ticket = this.find(".ticket");
    ticket.focus({ preventScroll: true });
    if (ticket.getBoundingClientRect().top < 0) ticket.scrollIntoView({ block: "start" });
  }

  draw() {
    const ticket = this.queue[0];
    const { audits, reviews } = this.waiting;
    const wait = `${many(audits, "audit")} and ${many(reviews, "review")} wait.`;
    this.find(".counts").textContent = `${wait} You decided ${this.today} today.`;
    this.find(".work").hidden = !ticket;
    this.find(".empty").hidden = Boolean(ticket);
    if (!ticket) this.drawEmpty();
    else if (this.shown !== ticket) this.drawTicket(ticket);
    if (this.shown !== (ticket ?? null)) {
      this.shown = ticket ?? null;
      this.drawPanels();
    }
    if (ticket) this.drawAnswers(ticket);
    this.drawUnsent();
  }

  drawTicket(ticket) {
    this.shownAt = now();
    this.chosen = new Set(this.several ? ticket.suggested : []);
    this.closeSearch();
    this.closeSimilar();
    const received =
      ticket.received === null ? "unknown" : new Date(ticket.received * 1000).toLocaleString();
    const facts = [["ticket", ticket.name], ["received", received], ...ticket.facts];
    this.find(".facts").replaceChildren(
      ...facts.map(([name, value]) => make("div", make("dt", name), make("dd", value))),
    );
    const parts = ticket.parts.map(([text, marked]) => (marked ? make("mark", text) : text));
    this.find(".text").replaceChildren(...(parts.length ? parts : [make("em", "No text")]));
    this.find(".text").scrollTop = 0;
  }

  drawAnswers(ticket) {
    const suggested = ticket.suggested.join(", ");
    const sure = ticket.confidence === null ? "" : `, ${percent(ticket.confidence)} sure`;
    this.find(".suggestion").textContent = ticket.blind
      ? "Shown without a suggestion, as a check."
      : suggested
        ? `The model suggests${sure}:`
        : "The model suggests no label.";
    const accept = this.find(".accept");
    const none = this.several ? "No label chosen" : "No suggestion";
    const wanted = this.wanted().join(", ");
    accept.setAttribute("aria-disabled", String(!wanted));
    accept.replaceChildren(make("bdi", wanted || none), make("kbd", "Enter"));
    this.drawLabels(ticket);
    this.find("[data-do='search']").hidden = this.labels.length <= FIXED;
    const [enter, digits] = this.several
      ? ["confirm the labels chosen", "choose a label, or not"]
      : ["accept the suggestion", "give a label"];
    this.find(".enter").textContent = enter;
    this.find(".digits").textContent = digits;
  }

  // Replace buttons only if the labels have changed, because one may have the focus.
  drawLabels(ticket) {
    const names = this.keyed();
    const buttons = [...this.find(".labels").children];
    if (names.join("\n") !== buttons.map((button) => button.label).join("\n")) {
      this.find(".labels").replaceChildren(...names.map(labelButton));
    }
    for (const button of this.find(".labels").children) {
      button.classList.toggle("suggested", ticket.suggested.includes(button.label));
      if (this.several) button.setAttribute("aria-pressed", String(this.chosen.has(button.label)));
    }
  }

  drawEmpty() {
    const [title, what] = this.emptiness();
    this.find(".empty h2").textContent = title;
    this.find(".empty p").textContent = what;
  }

  emptiness() {
    const { audits, reviews } = this.waiting;
    if (this.sent || this.unsent.length) return ["One moment.", "More tickets are on their way."];
    if (!this.labels.length) {
      return ["There are no labels yet.", "Add a model first: bertcnn models add FOLDER"];
    }
    if (audits + reviews === 0) {
      return ["No ticket waits.", "New ones appear here. Add some with: bertcnn review add"];
    }
    return [
      "No ticket waits for you.",
      "Others have those that wait, or you have skipped them. U brings your last one back.",
    ];
  }

  drawAlerts() {
    this.find(".alerts").replaceChildren(
      ...this.alerts.map((reason) => {
        const dismiss = make("button", "Dismiss");
        dismiss.type = "button";
        dismiss.dataset.do = "dismiss";
        return make("p", make("span", `Not stored: ${reason} The ticket comes back.`), dismiss);
      }),
    );
  }

  drawUnsent() {
    const late = this.tries > 0 || this.error;
    const count = this.unsent.length;
    const why = this.error ?? UNANSWERED;
    const unsent = this.find(".unsent");
    unsent.textContent = `${count ? `${count} unsent` : "All saved"}${late ? `. ${why}` : ""}`;
    unsent.classList.toggle("late", Boolean(late));
  }

  drawPanels() {
    for (const name of ["why", "guide", "keys"]) {
      const open = this.panels.has(name);
      this.find(`.${name}`).hidden = !open;
      this.find(`[data-do='${name}']`).setAttribute("aria-expanded", String(open));
    }
    this.root.classList.toggle("explained", this.panels.has("why"));
    if (this.panels.has("why")) this.find(".why").replaceChildren(...this.reasons());
    if (this.panels.has("guide")) this.find(".guide").replaceChildren(...markdown(this.guideText));
  }

  reasons() {
    const ticket = this.queue[0];
    if (!ticket) return [];
    if (ticket.blind) return [make("p", "The model's answer is held back: it would sway you.")];
    const bars = make("div");
    bars.className = "probable";
    for (const [name, share] of ticket.probable) {
      const bar = make("i");
      bar.style.width = `${100 * share}%`;
      bars.append(make("bdi", name), make("div", bar), make("span", percent(share)));
    }
    return [make("p", `${ticket.reason}. Marked in the text: what moved the answer most.`), bars];
  }
}
