// The desk in the browser. Untrusted texts enter the page as text nodes only.
//
// A click never waits: it shows the next ticket of `queue` and adds the decision to `unsent`, which
// stays in sessionStorage until the server acknowledges it. Each message sends all of `unsent`; only
// one is in flight at a time, and it is sent again if there is no response.

const ALIVE = 45; // seconds between signs of life, which keep the leases
const RENEW_EMPTY = 15; // seconds between questions for tickets, for an empty queue
const PAUSE = 100; // seconds without a sign of life after which leases may have expired
const IDLE = 15 * 60; // seconds without user activity until the leases may expire
const PATIENCE = [2, 5]; // seconds until a message is sent again: first, and at most
const DEAD = 30; // seconds without a response until the page is reloaded
const LAST = 10; // decisions in the list
const KEPT = 1000; // decisions that can be undone after a reload
const UNANSWERED = "The server does not answer. Decisions are kept in this tab and sent again.";
const TWICE = "Your desk is open in another tab too. Each tab gets tickets of its own.";
const TYPING = "input:not([type='checkbox']), textarea, select, [contenteditable]:not([contenteditable='false'])";
const ELSEWHERE = "[role='dialog'], [role='menu'], [role='listbox']";
const PRESSED_BY_ENTER = "button, a, summary, [role='button'], [role='tab'], [role='option']";

const PANEL_OF = { w: "why", g: "guide", l: "last", "?": "keys" };
const KEY_OF = {
  accept: "enter",
  none: "n",
  skip: "s",
  undo: "u",
  similar: "f",
  search: "/",
  why: "w",
  guide: "g",
  last: "l",
  back: "escape",
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

class Desk extends Screen {
  constructor(root, owner) {
    super(root);
    this.owner = owner;
    this.queue = []; // leased tickets; the first is visible
    this.seen = new Map(); // ticket by id
    this.labels = [];
    this.hints = {}; // colour and hint by label
    this.several = false;
    this.chosen = new Set(); // labels, if a ticket may have several
    this.touched = false; // whether `chosen` is this person's choice
    this.group = null; // similar tickets: { ticket, tickets, chosen }
    this.asked = null; // the ticket of the pending similarity search
    this.opening = null; // { id, how } of a ticket to open: waited for, shown or late
    this.last = []; // decisions that the server has stored
    this.waiting = { audits: 0, reviews: 0 };
    this.today = 0;
    this.guideText = "";
    this.error = null;
    this.alerts = [];
    this.number = Date.now();
    this.sent = null; // { number, at, alive } of the message in flight
    this.tries = 0;
    this.aliveAt = this.movedAt = now();
    this.silence = 0; // seconds of running without a response to a message
    this.memory = `bertcnn-desk:${owner}`;
    this.view = new URL(location.href).searchParams.get("view") ?? "mixed";
    this.find(".view").value = this.view;
    this.restore();
    this.meet();
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
    this.tab = kept.tab ?? uuid();
    this.keep();
  }

  keep() {
    const { tab, unsent, pinned } = this;
    const kept = { tab, unsent, done: this.done.slice(-KEPT), pinned: [...pinned] };
    try {
      sessionStorage.setItem(this.memory, JSON.stringify(kept));
      this.kept = true;
    } catch {
      this.kept = false; // full or forbidden: decisions are kept in memory
    }
  }

  // Meet this person's other tabs. A duplicated tab has a copy of the storage, and takes a new name.
  meet() {
    this.tabs = new BroadcastChannel(this.memory);
    this.tabs.onmessage = ({ data: { kind, tab } }) => {
      if (kind === "opened") this.tabs.postMessage({ kind: "here", tab: this.tab });
      if (kind === "here") this.second(tab);
      if (kind === "closed" && !this.find(".tabs").hidden) {
        this.find(".tabs").hidden = true;
        this.tabs.postMessage({ kind: "opened" }); // are there more?
      }
    };
    this.tabs.postMessage({ kind: "opened" });
  }

  // This tab was opened while another one was there.
  second(other) {
    if (other === this.tab) {
      this.tab = uuid();
      this.queue = [];
      this.keep();
      this.renew();
    }
    this.find(".tabs").hidden = false;
    this.find(".tabs").textContent = TWICE;
  }

  // --- to and from the server ---

  // A full message is answered with everything; a sign of life keeps the leases.
  flush(full = false) {
    if (this.sent && !full) return;
    this.number += 1;
    const alive = full || now() - this.aliveAt > ALIVE;
    this.sent = { number: this.number, at: now(), alive };
    const { number, tab, view, unsent: decisions, asked: similar } = this;
    const held = this.queue.map((ticket) => ticket.id);
    const open = this.opening?.id ?? null;
    const opened = this.queue.filter((ticket) => ticket.opened).map((ticket) => ticket.id);
    this.post({ number, tab, view, decisions, held, full, alive, similar, open, opened });
  }

  receive(data) {
    this.silence = 0;
    const late = this.sent && data.number !== null && data.number < this.sent.number;
    if (data.number !== null && this.sent?.number === data.number) {
      if (this.sent.alive) this.aliveAt = now();
      this.sent = null;
    }
    const fresh = data.number === null; // a new session, which does not know this tab
    if (fresh) this.sent = null;
    this.error = data.error;
    const stored = new Set(data.acknowledged);
    const before = this.unsent.length;
    const refused = this.unsent.filter((one) => one.key in data.refused);
    this.unsent = this.unsent.filter((one) => !stored.has(one.key) && !(one.key in data.refused));
    for (const one of refused) this.refuse(one, data.refused[one.key]);
    if (!data.error) this.take(data, late);
    if (before !== this.unsent.length) this.keep();
    const more = fresh || this.unsent.length || this.asked !== null || this.opening;
    if (!this.sent && !data.error && more) this.flush(fresh);
    this.draw();
  }

  take(data, late) {
    this.tries = 0;
    this.labels = data.labels;
    this.hints = data.hints ?? this.hints;
    this.several = data.several;
    this.waiting = data.waiting;
    this.today = data.today;
    this.last = data.last ?? this.last;
    this.setGuide(data.guide ?? this.guideText);
    if (!late) this.merge(data);
    if (data.similar) this.showSimilar(data.similar);
    if (data.open !== null && this.queue[0]?.id !== data.open) {
      this.opening = { id: data.open, how: "waited for" };
    }
    if (data.opened) this.showOpened(data.opened);
    if (data.missing) {
      this.opening = null;
      this.alert(data.missing);
    }
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
    this.alert(`Not stored: ${reason} The ticket comes back.`);
    this.done = this.done.filter(([key]) => key !== one.key);
    this.pinned.delete(one.ticket);
    const ticket = this.seen.get(one.ticket);
    if (ticket && !this.queue.includes(ticket)) this.queue.splice(1, 0, ticket);
  }

  alert(message) {
    this.alerts.push(message);
    this.drawAlerts();
  }

  tick() {
    if (this.sent && ++this.silence > DEAD) this.loadAgain();
    const patience = Math.min(PATIENCE[0] * 2 ** this.tries, PATIENCE[1]);
    const quiet = now() - this.aliveAt;
    if (this.sent && now() - this.sent.at > patience) {
      this.tries += 1;
      if (this.opening?.how === "waited for") this.opening.how = "late";
      this.flush(true);
      this.draw();
      if (this.tries === 1) this.say(UNANSWERED);
    } else if (!this.sent && this.error) {
      if (quiet > patience) this.renew();
    } else if (!this.sent && now() - this.movedAt < IDLE) {
      if (!this.queue.length && quiet > RENEW_EMPTY) this.renew();
      else if (quiet > ALIVE) this.flush();
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
    this.aliveAt = now();
    this.flush(true);
  }

  // The user is active; after a pause the leases may have expired.
  moved() {
    if (document.hidden) return;
    this.movedAt = now();
    if (!this.sent && this.movedAt - this.aliveAt > PAUSE) this.renew();
  }

  // --- decisions ---

  decide(kind, labels = []) {
    const ticket = this.queue.shift();
    if (!ticket) return;
    this.leave(ticket);
    const key = this.add(ticket.id, kind, { labels, model: ticket.model, blind: ticket.blind });
    const others = kind === "skip" ? [] : this.decideGroup(kind, labels, ticket.model);
    this.done.push([key, ticket.id, kind === "label" ? labels.join(", ") : kind, others]);
    const what = { none: "None of the labels", skip: "Skipped", label: labels.join(", ") }[kind];
    const more = others.length ? `, for ${many(others.length + 1, "ticket")}` : "";
    this.after(`${what}${more}. U undoes.`);
  }

  // A ticket that was opened leaves the address of the page too.
  leave(ticket) {
    this.pinned.delete(ticket.id);
    if (ticket.opened) this.setAddress("ticket", null);
  }

  setAddress(name, value) {
    const place = new URL(location.href);
    if (value) place.searchParams.set(name, value);
    else place.searchParams.delete(name);
    history.replaceState(history.state, "", place);
  }

  // Show other tickets: those of another view of the queue.
  look(view) {
    this.view = this.find(".view").value = view;
    this.setAddress("view", view === "mixed" ? null : view);
    this.queue = [];
    this.renew();
    this.draw();
    this.focusTicket();
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
    const decided = ticket?.decided?.key === undoes ? null : ticket?.decided;
    if (ticket) this.first({ ...ticket, decided, opened: Boolean(decided) });
    else this.opening = { id, how: "waited for" };
    return this.after(`Undone: ${what}.`);
  }

  // This person's last decisions, the newest first, with those that are not stored yet.
  lastDecisions() {
    const undone = new Set(this.unsent.map((one) => one.undoes));
    const known = new Set(this.last.map((one) => one.key));
    const unsent = this.unsent
      .filter((one) => one.kind !== "undo" && !known.has(one.key))
      .map((one) => ({ ...one, ...this.nameOf(one.ticket), at: one.decided_at }));
    const newest = new Map();
    for (const one of [...unsent.reverse(), ...this.last]) {
      if (!undone.has(one.key) && !newest.has(one.ticket)) newest.set(one.ticket, one);
    }
    return [...newest.values()].slice(0, LAST);
  }

  nameOf(id) {
    const { own, number, sections } = this.seen.get(id) ?? { number: `#${id}`, sections: [] };
    const text = sections.flatMap(([, parts]) => parts.map(([part]) => part)).join("");
    return { name: own || number, text: text.slice(0, 100) };
  }

  // --- tickets that are opened ---

  // Show a ticket first: at once if this tab knows it, else as soon as it arrives.
  open(id) {
    if (this.queue[0]?.id === id) return;
    const ticket = this.seen.get(id);
    const decided = this.lastDecisions().find((one) => one.ticket === id && one.kind !== "skip");
    if (ticket) this.first({ ...ticket, opened: true, decided: decided ?? ticket.decided ?? null });
    this.opening = { id, how: ticket ? "shown" : "waited for" };
    this.draw();
    this.focusTicket();
    this.flush();
  }

  first(ticket) {
    this.queue = this.queue.filter((one) => one.id !== ticket.id);
    this.queue.unshift(this.remember(ticket));
  }

  remember(ticket) {
    this.seen.set(ticket.id, ticket);
    this.pinned.add(ticket.id);
    return ticket;
  }

  showOpened(ticket) {
    if (this.opening?.id !== ticket.id) return;
    const { how } = this.opening;
    this.opening = null;
    if (how === "waited for") this.first(ticket);
    if (how === "late") this.queue.splice(1, 0, this.remember(ticket)); // another one is visible
  }

  back() {
    const [ticket] = this.queue;
    if (!ticket?.opened) return false;
    this.queue.shift();
    this.leave(ticket);
    this.after("Nothing was changed.");
    return true;
  }

  // --- what is decided ---

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

  // The labels that Enter assigns.
  wanted() {
    if (this.several) return this.labels.filter((name) => this.chosen.has(name));
    return this.queue[0].suggested;
  }

  accept() {
    const wanted = this.wanted();
    if (this.queue[0].decided && (!this.several || !this.touched)) return this.back();
    if (wanted.length && wanted.every((name) => this.labels.includes(name))) {
      return this.decide("label", wanted);
    }
    if (this.several) return this.say("Choose labels first, or press N for none of them.");
    if (wanted.length) return this.say("The suggested label is no longer in use. Choose another.");
    return this.say("There is no suggestion to accept. Choose a label.");
  }

  give(name) {
    if (!this.several) return this.decide("label", [name]);
    this.touched = true;
    if (!this.chosen.delete(name)) this.chosen.add(name);
    this.closeSearch();
    this.draw();
    return this.say(`${name} ${this.chosen.has(name) ? "chosen" : "left out"}. Enter confirms.`);
  }

  digit(number, second) {
    if (number === 0) return this.decide("none");
    const names = this.keyed();
    const place = number - 1 + (second && names.length > KEYED / 2 ? KEYED / 2 : 0);
    if (place < names.length) return this.give(names[place]);
    return this.say(`No label has the key ${keyOf(place)}.`);
  }

  // Labels with their own keys, in order: all of them, or the likeliest but for that of Enter.
  keyed() {
    if (this.labels.length <= KEYED) return treeOf(this.labels).flatMap(({ name }) => name ?? []);
    const ticket = this.queue[0];
    const used = new Set(this.labels);
    const others = (ticket?.choices ?? []).filter((name) => used.has(name));
    const again = this.several ? [] : (ticket?.decided?.labels ?? ticket?.suggested ?? []);
    return others.filter((name) => !again.includes(name)).slice(0, KEYED);
  }

  // --- keys and buttons ---

  listen() {
    this.stop = new AbortController();
    const options = { signal: this.stop.signal };
    document.addEventListener("keydown", (event) => this.keydown(event), options);
    for (const kind of ["keydown", "pointermove", "pointerdown", "visibilitychange"]) {
      document.addEventListener(kind, () => this.moved(), { ...options, passive: true });
    }
    window.addEventListener("pagehide", () => this.tabs.postMessage({ kind: "closed" }), options);
    const leaving = (event) => this.unsent.length && !this.leaving && event.preventDefault();
    window.addEventListener("beforeunload", leaving, options);
    this.root.addEventListener("click", (event) => this.click(event), options);
    const views = this.find(".view");
    views.addEventListener("change", () => this.look(views.value), options);
    const input = this.find(".search input");
    input.addEventListener("input", () => this.search(), options);
    input.addEventListener("keydown", (event) => this.searchKey(event), options);
    this.find(".text").addEventListener("scroll", () => this.drawMore(), options);
    this.clock = setInterval(() => this.tick(), 1000);
  }

  close() {
    this.stop.abort();
    clearInterval(this.clock);
    this.tabs.postMessage({ kind: "closed" });
    this.tabs.close();
  }

  keydown(event) {
    if (event.defaultPrevented || event.isComposing) return;
    if (["Control", "Alt", "Meta", "AltGraph"].some((one) => event.getModifierState(one))) return;
    const path = event.composedPath().filter((node) => node instanceof Element);
    if (path.some((node) => node.matches(`${TYPING}, ${ELSEWHERE}`))) return;
    const name = keyName(event);
    const onControl = Boolean(path[0]?.closest(PRESSED_BY_ENTER));
    if (onControl && (name === "enter" || name === " ")) return;
    if (this.shown && this.scroll(name, event.shiftKey)) event.preventDefault();
    else if (!event.repeat && this.act(name, event.shiftKey)) event.preventDefault();
  }

  act(name, shift = false) {
    const panel = PANEL_OF[name];
    if (panel) this.toggle(panel);
    else if (name === "u") this.undo();
    else if (!this.shown) return false;
    else if (name === "enter") this.accept();
    else if (/^\d$/.test(name)) this.digit(Number(name), shift);
    else if (name === "n") this.decide("none");
    else if (name === "s") this.decide("skip");
    else if (name === "f") this.findSimilar();
    else if (name === "q") this.toggleQuotes();
    else if (name === "/") this.openSearch();
    else if (name === "escape") return this.back();
    else return false;
    return true;
  }

  click(event) {
    const target = event.target.closest("button, li, summary");
    const act = target?.dataset.do;
    if (!target || (event.detail > 1 && act !== "undo")) return; // a second click meant the first
    if (target.label !== undefined) this.give(target.label);
    else if (act === "dismiss") this.dismiss();
    else if (act === "open") this.open(target.ticket);
    else if (act === "skipped") this.look("skipped");
    else if (act) this.act(KEY_OF[act]);
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

  // --- the search ---

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
}
