// What the desk shows. `Desk` has the state: this.queue, this.labels and so on.

const KEYED = 18; // labels with keys: 1 to 9, then Shift and 1 to 9
const LISTED = 300; // most rows of the search
const HEADER = 64; // pixels of the page's own header
const ABOVE = 60; // pixels of the last screen that stay visible after Space

class Screen {
  constructor(root) {
    this.root = root;
    this.shown = undefined; // the visible ticket; null for none
    this.panels = new Set(); // the open ones
    this.options = []; // of the search
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  say(message) {
    this.find(".said").replaceChildren(make("span", message));
  }

  focusTicket() {
    const ticket = this.find(".ticket");
    ticket.focus({ preventScroll: true });
    if (ticket.getBoundingClientRect().top < HEADER) ticket.scrollIntoView({ block: "start" });
  }

  draw() {
    const waits = this.opening?.how === "waited for";
    const ticket = waits ? undefined : this.queue[0];
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
    if (this.panels.has("last")) this.drawLast();
    this.drawUnsent();
  }

  // --- the ticket ---

  drawTicket(ticket) {
    this.shownAt = now();
    this.touched = false;
    this.chosen = new Set(this.several ? (ticket.decided?.labels ?? ticket.suggested) : []);
    this.closeSearch();
    this.closeSimilar();
    const own = make("bdi", ticket.own || ticket.number);
    own.title = ticket.own;
    const others = [ticket.own && ticket.number, ticket.source].filter(Boolean).join(", ");
    this.find(".own").replaceChildren(own, ...(others ? [make("small", others)] : []));
    this.find(".received").replaceChildren(...receivedAt(ticket));
    this.find(".back").hidden = !ticket.opened;
    this.find(".reason").textContent = reasonOf(ticket);
    this.find(".facts").replaceChildren(
      ...ticket.facts.map(([name, value]) => make("div", make("dt", name), fact(value))),
    );
    const sections = ticket.sections.map(section);
    const text = this.find(".text");
    text.replaceChildren(...(sections.length ? sections : [make("em", "No text")]));
    text.scrollTop = 0;
    this.drawMore();
  }

  drawMore() {
    const { scrollHeight, scrollTop, clientHeight } = this.find(".text");
    this.find(".more").hidden = scrollHeight - scrollTop - clientHeight < 4;
  }

  // Scroll a long text; false for other keys and for a text that is visible in full.
  scroll(key, back) {
    const text = this.find(".text");
    const page = text.clientHeight - ABOVE;
    const steps = {
      " ": back ? -page : page,
      pagedown: page,
      pageup: -page,
      arrowdown: ABOVE,
      arrowup: -ABOVE,
      home: -text.scrollHeight,
      end: text.scrollHeight,
    };
    if (!(key in steps) || text.scrollHeight <= text.clientHeight + 1) return false;
    text.scrollTop += steps[key];
    return true;
  }

  toggleQuotes() {
    const quotes = [...this.root.querySelectorAll(".text details")];
    const open = quotes.some((quote) => !quote.open);
    for (const quote of quotes) quote.open = open;
    if (!quotes.length) this.say("This ticket has no quoted e-mail.");
  }

  // --- the answers ---

  drawAnswers(ticket) {
    const { decided } = ticket;
    this.find(".suggestion").textContent = suggestionOf(ticket);
    const accept = this.find(".accept");
    const none = this.several ? "No label chosen" : "No suggestion: choose a label";
    const wanted = this.wanted();
    const kept = decided && !this.several ? `Keep: ${textOf(decided)}` : "";
    const given = kept || wanted.join(", ");
    accept.setAttribute("aria-disabled", String(!given));
    const sure = this.several ? this.touched : ticket.sure && !decided;
    accept.classList.toggle("sure", Boolean(sure && wanted.length));
    accept.classList.toggle("missing", !given);
    accept.replaceChildren(make("bdi", given || none), ...(given ? [make("kbd", "Enter")] : []));
    this.drawLabels(ticket);
    this.find("[data-do='search']").hidden = this.labels.length <= KEYED / 2;
    const [enter, digits] = this.several
      ? ["confirm the labels chosen", "choose a label, or not"]
      : ["accept the suggestion", "give a label"];
    this.find(".enter").textContent = enter;
    this.find(".digits").textContent = digits;
  }

  // Replace buttons only if the labels have changed, because one may have the focus.
  drawLabels(ticket) {
    const names = this.keyed();
    const labels = this.find(".labels");
    const state = JSON.stringify([names, this.hints]);
    if (this.drawnLabels !== state) {
      this.drawnLabels = state;
      const fixed = this.labels.length <= KEYED;
      labels.replaceChildren(...labelButtons(names, this.hints, fixed));
      labels.classList.toggle("two", names.length > KEYED / 2);
      this.root.classList.toggle("many", this.labels.length > KEYED / 2);
    }
    for (const button of labels.querySelectorAll("button")) {
      button.classList.toggle("suggested", ticket.suggested.includes(button.label));
      if (this.several) button.setAttribute("aria-pressed", String(this.chosen.has(button.label)));
      else button.removeAttribute("aria-pressed");
    }
  }

  // --- the search ---

  openSearch() {
    this.find(".search").hidden = false;
    this.find(".labels").hidden = true;
    const input = this.find(".search input");
    input.value = "";
    this.search();
    input.focus();
  }

  closeSearch() {
    this.find(".search").hidden = true;
    this.find(".labels").hidden = false;
  }

  search() {
    const text = this.find(".search input").value;
    const ranks = new Map((this.queue[0]?.choices ?? []).map((name, rank) => [name, rank]));
    const blind = this.queue[0]?.blind; // an order by probability would show the answer
    const rank = (name) => (blind ? 0 : (ranks.get(name) ?? KEYED));
    const found = searchLabels(this.labels, text, rank).slice(0, LISTED);
    const asTree = !text.trim() && found.some((name) => name.includes(LEVELS));
    const rows = asTree ? treeOf(found) : found.map((name) => ({ name, leaf: name, depth: 0 }));
    const items = rows.map((row) => searchRow(row, this.hints));
    this.options = items.filter((item) => item.label !== undefined);
    for (const [place, option] of this.options.entries()) option.id = `label-${place}`;
    this.find(".search ul").replaceChildren(...items);
    this.find(".search ul").hidden = !items.length;
    this.find(".nothing").textContent = items.length ? "" : "No label is like this.";
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

  // --- similar tickets ---

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

  // --- everything else ---

  drawEmpty() {
    const [title, what, skipped] = this.emptiness();
    this.find(".empty h2").textContent = title;
    this.find(".empty p").textContent = what;
    this.find(".empty button").hidden = !skipped;
  }

  emptiness() {
    const { audits, reviews } = this.waiting;
    if (this.opening) return ["One moment.", "Your ticket is on its way."];
    if (this.sent || this.unsent.length) return ["One moment.", "More tickets are on their way."];
    if (!this.labels.length) return ["There are no labels yet.", "A first model brings them."];
    if (audits + reviews === 0) return ["No ticket waits.", "New ones appear here."];
    if (this.view !== "mixed") return ["No such ticket waits.", "Choose others above."];
    return ["No ticket waits for you.", "Others have those that wait, or you have skipped them.", true];
  }

  drawAlerts() {
    this.find(".alerts").replaceChildren(
      ...this.alerts.map((message) => {
        const dismiss = make("button", "Dismiss");
        dismiss.type = "button";
        dismiss.dataset.do = "dismiss";
        return make("p", make("span", message), dismiss);
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

  toggle(panel) {
    if (!this.panels.delete(panel)) this.panels.add(panel);
    this.drawPanels();
  }

  drawPanels() {
    for (const name of ["last", "why", "guide", "keys"]) {
      const open = this.panels.has(name);
      this.find(`.${name}`).hidden = !open;
      this.find(`[data-do='${name}']`).setAttribute("aria-expanded", String(open));
    }
    this.root.classList.toggle("explained", this.panels.has("why"));
    if (this.panels.has("why")) {
      this.find(".why").replaceChildren(...whyOf(this.shown));
      for (const mark of this.root.querySelectorAll(".text details mark")) {
        mark.closest("details").open = true;
      }
    }
    if (this.panels.has("guide")) this.find(".guide").replaceChildren(...markdown(this.guideText));
    if (this.panels.has("last")) this.drawLast();
  }

  drawLast() {
    this.find(".panel.last").replaceChildren(...lastDecisions(this.lastDecisions()));
  }
}
