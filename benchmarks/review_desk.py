"""How fast the review desk is, and what is lost when servers, pages and networks fail.

    python -m benchmarks.review_desk [--decisions 600] [--kills 0] [--offline 0] [--pace 2]
        [--labels 4]

Five reviewers, each with a page in headless Chromium, decide on tickets at two decisions a second
in all. Prints the time from a key press to the next ticket painted, and to the server's
acknowledgement of the decision. With more than 18 labels, one label in five is searched by four
letters, whose keys count too. With `--kills`, the server is killed that often meanwhile, or (one
time in four) a page is reloaded. With `--offline`, all pages lose the network for that many seconds
in the middle. At the end every decision must be in the store exactly once. The server's memory
before and after is printed.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Error
from sqlalchemy import select

from bertcnn import load
from bertcnn.bundle import Decisions
from bertcnn.review import NewTicket, Person, ReviewStore, add_model, add_tickets, open_review
from bertcnn.review.schema import decision, event, ticket
from tests.apps.dashboards import Server, browsing, save_model
from tests.apps.doors import Proxy, proxying

_NAMES = ("ann", "bob", "cho", "dia", "eve")
_MOST_KEYED = 18  # labels with fixed keys
_SEARCHED = 0.2  # share of labels that are searched, if there are more
_WORDS = ("billing", "hardware", "login", "television")  # of the labels
_TEXT = ".desk .work:not([hidden]) .text"
_WATCH = """() => {  // when what a key changed was painted, and when it was acknowledged
  window.painted = [];
  window.acknowledged = [];
  const inside = (root) => root.querySelector(".desk .unsent") ??
    [...root.querySelectorAll("*")].map((one) => one.shadowRoot && inside(one.shadowRoot))
      .find(Boolean);
  document.addEventListener("keydown", () => {
    const pressed = performance.now();
    const shown = inside(document);
    requestAnimationFrame(() => setTimeout(() => painted.push(performance.now() - pressed)));
    const saved = () => {
      if (shown?.textContent !== "All saved") return;
      acknowledged.push(performance.now() - pressed);
      watch.disconnect();
    };
    const watch = new MutationObserver(saved);
    if (shown) watch.observe(shown, {childList: true, characterData: true, subtree: true});
  }, {capture: true});
}"""
_UNTIL_RELOADED = 10  # times without a ticket until the page is reloaded
_PATIENCE = 120_000  # milliseconds


class Reviewer:
    """A reviewer's page, with a record of the reviewer's decisions."""

    def __init__(self, name: str, page: Any, address: str, labels: Sequence[str]) -> None:
        self.name, self.page, self.address = name, page, f"{address}/desk"
        self.labels = labels
        self.page.add_init_script(f"({_WATCH})()")
        self.page.on("dialog", lambda dialog: dialog.accept())  # "leave the page?"
        self.decided: dict[str, str] = {}  # label by text
        self.without = 0  # consecutive times without a ticket
        self.painted: list[float] = []
        self.acknowledged: list[float] = []

    def open(self) -> None:
        """Open or reopen the desk."""
        self.page.goto(self.address, timeout=_PATIENCE)
        self.page.locator(_TEXT).wait_for(timeout=_PATIENCE)
        self.without = 0

    def decide(self, *, wait: bool) -> None:
        """Label the ticket shown; optionally wait for the acknowledgement."""
        try:
            shown = self.page.locator(_TEXT).all_text_contents()
        except Error:
            return  # the page reloads itself, since its connection is dead
        if not shown:  # between two batches, while the server is away
            self.without += 1
            if self.without > _UNTIL_RELOADED:
                self.open()
            return
        self.without = 0
        self.decided[shown[0]] = self.label()
        if wait:
            self.saved()

    def label(self) -> str:
        """Give a label by its key, or search it; returns its name."""
        many = len(self.labels) > _MOST_KEYED
        if many and random.random() < _SEARCHED:
            name = random.choice(self.labels)
            self.page.keyboard.press("/")
            self.page.keyboard.type(name[:4])
            name = self.page.locator(".desk [aria-selected=true]").inner_text()
            self.page.keyboard.press("Enter")
            return str(name)
        keyed = self.page.locator(".desk .labels bdi").all_inner_texts() if many else self.labels
        place = random.randrange(min(4, len(keyed)))
        self.page.keyboard.press(str(place + 1))
        return str(keyed[place])

    def saved(self) -> None:
        """Wait until the server has stored everything."""
        shown = self.page.locator(".desk .unsent")
        shown.get_by_text("All saved", exact=True).wait_for(timeout=_PATIENCE)

    def reload(self) -> None:
        """Reload the page, without waiting for anything."""
        self.keep()
        self.page.reload(timeout=_PATIENCE)
        self.page.locator(_TEXT).wait_for(timeout=_PATIENCE)

    def keep(self) -> None:
        """Keep the times that the page has measured."""
        self.painted += self.page.evaluate("() => window.painted ?? []")
        self.acknowledged += self.page.evaluate("() => window.acknowledged ?? []")


@contextmanager
def reviewing(
    folder: Path, tickets: int, labels: Sequence[str]
) -> Iterator[tuple[ReviewStore, Server, list[Reviewer]]]:
    """A store with waiting tickets, a server, and five reviewers at their desks."""
    model = save_model(
        folder / "models" / "tiny",
        labels=labels,
        decisions=Decisions(thresholds=(1.0,) * len(labels)),
    )
    store = open_review(folder / "review.db")
    add_model(store, model, Person("root"))
    new = [NewTicket(str(one), f"my router led number {one}") for one in range(tickets)]
    add_tickets(store, load(model), new, source="benchmark")
    people = folder / "people.csv"
    people.write_text("person,role\n" + "".join(f"{name},reviewer\n" for name in _NAMES))
    options = ["--models", folder / "models", "--store", store.name, "--people", people]
    server = Server(folder / "tmp", [*options, "--behind-proxy", "X-User"], {})
    server.start()
    with ExitStack() as stack:
        stack.callback(server.process.kill)
        browser = stack.enter_context(browsing())
        reviewers = []
        for name in _NAMES:
            proxy: Proxy = stack.enter_context(proxying(server.port))
            proxy.added = {"X-User": name}
            context = browser.new_context(viewport={"width": 1200, "height": 900})
            reviewers.append(Reviewer(name, context.new_page(), proxy.address, labels))
            reviewers[-1].open()
        yield store, server, reviewers


def memory_of(server: Server) -> float:
    """Resident memory of the server's process, MB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def run(options: argparse.Namespace, server: Server, reviewers: list[Reviewer]) -> None:
    """Decide tickets; kill servers and go offline as the options say."""
    kills = set(np.linspace(0, options.decisions, options.kills + 2, dtype=int)[1:-1].tolist())
    middle = options.decisions // 2 if options.offline else -1
    began = time.perf_counter()
    for number in range(options.decisions):
        reviewer = reviewers[number % len(reviewers)]
        if number in kills:
            fail(server, reviewer)
        if number == middle:
            for one in reviewers:
                one.page.context.set_offline(True)
            back = time.perf_counter() + options.offline
            ahead = 15 * len(reviewers)  # of the 20 tickets that each page has
            while time.perf_counter() < back:
                if ahead > 0:
                    reviewers[ahead % len(reviewers)].decide(wait=False)
                    ahead -= 1
                reviewer.page.wait_for_timeout(500)
            for one in reviewers:
                one.page.context.set_offline(False)
            began += options.offline
        reviewer.decide(wait=not options.kills and not options.offline and options.pace > 0)
        if options.pace:
            due = began + (number + 1) / options.pace
            reviewer.page.wait_for_timeout(max(0.0, 1000 * (due - time.perf_counter())))


def fail(server: Server, reviewer: Reviewer) -> None:
    """Kill the server and start it again, or reload a page."""
    if random.random() < 0.25:
        reviewer.reload()
        return
    server.process.kill()
    server.process.wait()
    server.start()


def check(store: ReviewStore, reviewers: list[Reviewer]) -> str:
    """Compare the reviewers' decisions with the stored ones."""
    with store.reading() as connection:
        texts = {row.id: row.text for row in connection.execute(select(ticket))}
        stands = {
            (row.actor, texts[row.ticket]): row.label
            for row in connection.execute(select(decision))
        }
        events = Counter(
            (row.actor, texts[row.ticket]) for row in connection.execute(select(event))
        )
    wanted = {(one.name, text): label for one in reviewers for text, label in one.decided.items()}
    lost = wanted.keys() - stands.keys()
    wrong = [key for key, label in wanted.items() if key in stands and stands[key] != label]
    doubled = [key for key, number in events.items() if number > 1]
    twice = [text for text, people in Counter(text for _, text in wanted).items() if people > 1]
    return (
        f"{len(wanted):,} decisions: {len(lost)} lost, {len(wrong)} wrong, {len(doubled)} doubled,"
        f" {len(twice)} tickets decided by two people"
    )


def main() -> None:
    """Run the measurement and print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--decisions", type=int, default=600)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--offline", type=float, default=0.0, help="seconds")
    parser.add_argument("--pace", type=float, default=2.0, help="a second; 0 for no pauses")
    parser.add_argument("--labels", type=int, default=4)
    options = parser.parse_args()
    random.seed(0)
    labels = tuple(f"{_WORDS[place % 4]}_of_kind_{place + 1}" for place in range(options.labels))
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        reviewing(Path(folder), 2 * options.decisions + 500, labels) as (store, server, reviewers),
    ):
        before = memory_of(server)
        run(options, server, reviewers)
        for one in reviewers:
            if not one.page.locator(".desk").count():
                one.open()  # the page was loaded while the server was away: press reload
            one.saved()
            one.keep()
        after = memory_of(server)
        print(check(store, reviewers))
        for what, times in (
            ("key to painted", [time for one in reviewers for time in one.painted]),
            ("acknowledged", [time for one in reviewers for time in one.acknowledged]),
        ):
            if times:
                middle, most = np.percentile(times, [50, 95])
                print(f"{what}: median {middle:.0f} ms, 95% within {most:.0f} ms")
        print(f"server's memory: {before:.0f} MB before, {after:.0f} MB after")


if __name__ == "__main__":
    main()
