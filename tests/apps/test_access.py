"""Access to the dashboard: its users, their routes, and the server files they may read."""

import os
import socket
import tomllib
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest
from sqlalchemy import insert
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from bertcnn import load
from bertcnn.bundle.schemas import Decisions
from bertcnn.errors import RoleError, SettingsError, TableError
from bertcnn.review.decisions import decided
from bertcnn.review.jobs.processes import own_start, this_host
from bertcnn.review.models import add_model
from bertcnn.review.people import Person, read_people
from bertcnn.review.schema import job
from bertcnn.review.store import now, open_review
from bertcnn.review.tickets import NewTicket, add_tickets
from tests.apps.dashboards import (
    LOGIN,
    Server,
    in_browser,
    labels_of,
    logged_in,
    part,
    said,
    save_model,
    serving,
    set_start,
)
from tests.apps.doors import providing, proxying

PEOPLE = "person,role\nAnn@example.org,admin\nrob@example.org,reviewer\nvic@example.org,viewer\n"
HERE = {"host": ["127.0.0.1:8501"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with a model, and a list of people."""
    folder = tmp_path_factory.mktemp("access")
    model = save_model(folder / "models" / "tiny")
    add_model(open_review(folder / "review.db"), model, Person("root"))
    (folder / "people.csv").write_text(PEOPLE)
    options = ["--models", folder / "models", "--store", folder / "review.db"]
    return SimpleNamespace(folder=folder, people=folder / "people.csv", options=options)


# --- the list of people --------------------------------------------------------------------------


def test_a_list_gives_each_person_a_role_in_any_spelling(tmp_path):
    (tmp_path / "people.csv").write_text(
        "person,role,team\n Ann@Example.org ,Admin,a\n李,viewer,b\n"
    )
    assert read_people(tmp_path / "people.csv") == {
        "ann@example.org": Person("Ann@Example.org", "admin"),
        "李": Person("李", "viewer"),
    }


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            "person,role\nann,boss\n",
            "line 2 of .* gives 'ann' the role 'boss'; expected a name, and",
        ),
        ("person,role\nann,\n", "gives 'ann' the role ''"),
        ("person,role\nann,admin\n,viewer\n", "line 3 of .* gives '' the role 'viewer'"),
        ("person,role\nann,admin\nANN,viewer\n", "line 3 of .* names 'ANN' a second time"),
        ("name,role\nann,admin\n", "has the columns .*; expected the columns person and role"),
        ("person,role\nann,admin,x,y\nbob,viewer\n", "1 line of .* cannot be read"),
    ],
)
def test_a_malformed_list_lets_nobody_in(tmp_path, content, expected):
    (tmp_path / "people.csv").write_text(content)
    with pytest.raises((SettingsError, TableError), match=expected):
        read_people(tmp_path / "people.csv")


# --- start options --------------------------------------------------------------------------------


@pytest.fixture
def access(monkeypatch):
    """`access` for a dashboard started with this address, these options and this login."""

    def found(address="127.0.0.1", login=None, **options):
        set_start(monkeypatch, address, **options)
        monkeypatch.setattr(part("access"), "login_settings", lambda: login)
        return part("access").access()

    return found


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_without_a_login_this_machine_may_use_it(access, address):
    assert access(address).by == "here"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", None, "", "10.1.2.3", "tickets.example.org"])
def test_without_a_login_no_other_address_is_served(access, address):
    with pytest.raises(SettingsError, match="without a login; expected"):
        access(address)


def test_with_a_list_and_a_login_or_a_proxy_any_address_is_served(access):
    found = access("0.0.0.0", LOGIN, people="people.csv")
    assert (found.by, found.people) == ("login", "people.csv")
    monkeyed = access("0.0.0.0", None, people="people.csv", behind_proxy="X-Forwarded-Email")
    assert (monkeyed.by, monkeyed.header) == ("proxy", "x-forwarded-email")


@pytest.mark.parametrize(
    ("login", "options", "expected"),
    [
        (LOGIN, {}, "a login without --people"),
        (None, {"behind_proxy": "X-User"}, "a login without --people"),
        (None, {"people": "p.csv"}, "--people without a login"),
        (LOGIN, {"people": "p.csv", "behind_proxy": "X-User"}, "expected one of them"),
        (None, {"people": "p.csv", "behind_proxy": "X User:"}, "expected the name of a header"),
        ({**LOGIN, "cookie_secret": "xxx"}, {"people": "p.csv"}, "cookie_secret .* short"),
        (
            {**LOGIN, "redirect_uri": "http://tickets.example.org/oauth2callback"},
            {"people": "p.csv"},
            "expected https://NAME/oauth2callback",
        ),
    ],
)
def test_options_that_would_let_anybody_in_are_refused(access, login, options, expected):
    with pytest.raises(SettingsError, match=expected):
        access(login=login, **options)


# --- requests ------------------------------------------------------------------------------------


def checked(headers, by="here", **others):
    module = part("access")
    module.check_request(module.Access(by, **others), {**HERE, **headers})


def test_a_request_of_this_machine_is_answered():
    for host in ("127.0.0.1:8501", "localhost:8501", "[::1]:8501", "LOCALHOST"):
        checked({"host": [host], "origin": [f"http://{host}"]})


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.org",
        "127.0.0.1.evil.example.org",
        "localhost.evil.example.org:8501",
        "127.0.0.1@evil.example.org",
        "evil.example.org#127.0.0.1",
        "10.1.2.3:8501",
        "0.0.0.0:8501",
        "",
        "[::1",
        "127.0.0.1, evil.example.org",
    ],
)
def test_a_request_for_another_host_is_refused(host):
    with pytest.raises(SettingsError, match="a request for the host"):
        checked({"host": [host]})


def test_a_request_for_two_hosts_or_none_is_refused():
    for hosts in ([], ["127.0.0.1", "evil.example.org"]):
        with pytest.raises(SettingsError, match="a request for the host"):
            checked({"host": hosts})


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example.org",
        "https://127.0.0.1.evil.org",
        "null",
        "http://[",
        "http://127.0.0.1",
    ],
)
def test_a_request_of_another_page_is_refused(origin):
    for by in ("here", "login", "proxy"):
        with pytest.raises(SettingsError, match="a request from a page of"):
            checked({"origin": [origin], "x-user": ["ann"]}, by, header="x-user")


@pytest.mark.parametrize(
    "header", ["forwarded", "via", "x-forwarded-for", "x-forwarded-proto", "x-real-ip"]
)
def test_a_request_through_a_proxy_is_refused(header):
    with pytest.raises(SettingsError, match="came through a proxy"):
        checked({header: ["1"]})


@pytest.mark.parametrize("said", [[], [""], ["ann", "eve"]])
def test_a_proxy_has_to_name_one_visitor(said):
    checked({"x-user": ["ann"], "host": ["tickets.example.org"]}, "proxy", header="x-user")
    with pytest.raises(RoleError, match=r"headers x-user; expected 1, which says who"):
        checked({"x-user": said}, "proxy", header="x-user")


# --- people on the pages -------------------------------------------------------------------------


@pytest.fixture
def visit(made, monkeypatch):
    """The app as seen by somebody who logged in with this e-mail address."""

    def opened(email="ann@example.org", *, people=made.people, **claims):
        models, store = made.folder / "models", made.folder / "review.db"
        set_start(monkeypatch, "0.0.0.0", models=models, store=store, people=people)
        return logged_in(email, **claims).run()

    return opened


def sees_nothing(app):
    return not (app.exception or app.selectbox or app.text_area or app.get("navigation"))


def seen(app):
    """The pages in the menu."""
    found = set()
    for name in ("classify", "review"):
        try:
            app.switch_page(f"pages_/{name}.py").run()
        except ValueError:
            continue
        found.add(name)
    return found


@pytest.mark.parametrize(
    ("email", "role", "pages"),
    [
        ("ANN@example.org", "ann@example.org, admin", {"classify", "review"}),
        ("rob@example.org", "rob@example.org, reviewer", {"classify", "review"}),
        ("vic@example.org", "vic@example.org, viewer", {"classify"}),
    ],
)
def test_somebody_on_the_list_sees_the_pages_of_their_role(visit, email, role, pages):
    app = visit(email)
    assert not app.exception
    assert role in said(app.caption).replace("\u2060", "")
    assert "Log out" in labels_of(app.button)
    assert seen(app) == pages


def test_somebody_who_is_not_on_the_list_sees_one_line_and_a_way_to_another_account(visit):
    app = visit()
    for email in ("eve@example.org", "ann@example.org.evil.org", "ann", "*", "person"):
        app.user["email"] = email
        app.run()
        assert sees_nothing(app)
        assert "is not on the list of people; expected" in said(app.error)
        assert labels_of(app.button) == ["Log out"]


def test_an_address_that_the_provider_has_not_verified_lets_nobody_in(visit):
    app = visit()
    assert app.title
    for verified in (False, None, "false", "no", 0, ""):
        app.user["email_verified"] = verified
        app.run()
        assert sees_nothing(app)
        assert "which the provider has not verified" in said(app.error)


def test_a_login_without_an_address_lets_nobody_in(visit):
    assert "the login names no e-mail address" in said(visit(email=None).error)


def test_before_the_login_there_is_nothing_but_its_button(visit):
    app = visit(is_logged_in=False)
    assert labels_of(app.button) == ["Log in"]
    assert sees_nothing(app)
    assert not app.error
    both = {
        name: value for name, value in LOGIN.items() if name in ("redirect_uri", "cookie_secret")
    }
    app = visit(is_logged_in=False, login={**both, "google": {}, "okta": {}})
    assert labels_of(app.button) == ["Log in with google", "Log in with okta"]


def test_a_changed_list_counts_at_once(visit, tmp_path):
    people = tmp_path / "people.csv"
    people.write_text(PEOPLE)
    app = visit(people=people)
    assert app.title
    people.write_text("person,role\nrob@example.org,admin\n")
    os.utime(people, (1, 1))
    assert "is not on the list" in said(app.run().error)
    people.unlink()
    app.run()
    assert sees_nothing(app)
    assert "there is no file" in said(app.error)


# --- the server ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def here(made):
    """A dashboard that serves this machine only."""
    with serving(made.folder / "here", made.options, BERTCNN_PERSON="ann") as server:
        yield server


def fetch(address, **headers):
    """The status and text of a response; `_` in the names of added headers stands for `-`."""
    request = urllib.request.Request(
        address, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


REFUSED = [{"Host": "evil.example.org"}, {"X-Forwarded-For": "10.0.0.1"}, {"Via": "1.1 proxy"}]


@pytest.mark.parametrize("headers", REFUSED, ids=lambda headers: next(iter(headers)))
def test_a_refused_request_gets_one_line_at_any_address(here, headers):
    for path in ("", "review", "static/js/none.js", "_stcore/host-config", "media/x"):
        status, text, _ = fetch(f"{here.address}/{path}", **headers)
        assert (status, text.count("\n")) == (403, 1)
        assert "What to do" in text
    with pytest.raises(InvalidStatus, match="403"):
        connected(here, host=headers.get("Host", "127.0.0.1"), additional_headers=headers)


def connected(server, host="127.0.0.1", **options):
    """A page's WebSocket connection, for a host that need not be the server's."""
    headers = options.pop("additional_headers", {})
    return connect(
        f"ws://{host}:{server.port}/_stcore/stream",
        sock=socket.create_connection(("127.0.0.1", server.port)),
        additional_headers={name: value for name, value in headers.items() if name != "Host"},
        subprotocols=["streamlit"],
        proxy=None,
        **options,
    )


def test_a_page_of_another_site_gets_no_connection(here):
    with connected(here, origin=here.address):
        pass
    for origin in ("http://evil.example.org", "http://localhost:1"):
        with pytest.raises(InvalidStatus, match="403"):
            connected(here, origin=origin)


def test_each_response_says_what_a_page_may_load(here):
    for path in ("", "_stcore/health", "_stcore/host-config"):
        status, _, headers = fetch(f"{here.address}/{path}")
        assert status == 200
        policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
        assert "unsafe-eval" not in policy["script-src"]
        assert "unsafe-inline" not in policy["script-src"]
        assert policy["default-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"


@pytest.fixture
def page(browser):
    """A page in a new browser context."""
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    opened = context.new_page()
    opened.set_default_timeout(30_000)
    yield opened
    context.close()


def shown(name, role):
    """A visitor's name as a page shows it; a joiner keeps an address from becoming a link."""
    return name.replace("@", "\u2060@") + f", {role}"


def links(page):
    page.get_by_role("heading", level=1).first.wait_for()
    return {link.inner_text().split("\n")[-1] for link in page.locator("header a").all()}


def test_a_dashboard_for_everybody_without_a_login_shows_one_line(made):
    with serving(made.folder / "open", made.options, STREAMLIT_SERVER_ADDRESS="0.0.0.0") as server:
        status, text, _ = fetch(server.address)
        assert status == 403
        assert text.startswith("the dashboard listens on 0.0.0.0 without a login; expected")
        assert server.log.read_text().count(text.strip()) == 1


@in_browser
def test_a_proxy_names_a_visitor_whose_role_changes_at_once(page, tmp_path):
    model = save_model(tmp_path / "models" / "tiny", decisions=Decisions(thresholds=(1.0,) * 3))
    store, people = open_review(tmp_path / "review.db"), tmp_path / "people.csv"
    add_model(store, model, Person("root"))
    texts = ("my router", "my bill", "the app")
    new = [NewTicket(text, text, {}, 3600.0 * hour) for hour, text in enumerate(texts, start=1)]
    add_tickets(store, load(model), new, source="tests")
    for id, state, words in (("ran", "running", "stage one"), ("broke", "failed", "")):
        at = now()
        row = {"id": id, "arguments": ["score", "m", "in.csv", "out.csv"], "state": state}
        row |= {"folder": "/not/there", "actor": "rob@example.org", "created_at": at, "starts": 1}
        row |= {"host": this_host(), "pid": os.getpid(), "pid_started": own_start()}
        row |= {"heartbeat": at, "progress": {"stage": words}, "message": "", "cancelled": False}
        row |= {"ended_at": None if state == "running" else at}
        with store.writing() as connection:
            connection.execute(insert(job).values(**row))

    def role(*lines):
        people.write_text("\n".join(["person,role", "ann@example.org,admin", *lines, ""]))

    role("rob@example.org,reviewer")
    options = ["--models", tmp_path / "models", "--store", store.name, "--people", people]
    with (
        serving(tmp_path / "tmp", [*options, "--behind-proxy", "X-Email"]) as server,
        proxying(server.port) as proxy,
    ):
        proxy.added = {"X-Email": "ROB@example.org", "X-Forwarded-For": "10.0.0.7"}
        page.goto(f"{proxy.address}/desk")
        page.locator(".desk .text").wait_for()
        page.get_by_text(shown("rob@example.org", "reviewer")).wait_for()
        page.keyboard.press("1")
        page.locator(".desk .unsent").get_by_text("All saved", exact=True).wait_for()
        role("rob@example.org,viewer")
        page.keyboard.press("1")
        page.get_by_text(shown("rob@example.org", "viewer")).wait_for()
        assert decided(store).tickets == 1
        page.goto(f"{proxy.address}/jobs")
        page.get_by_text("stage one").wait_for()
        assert "Audit" in links(page)
        assert not any(name.startswith("Desk") for name in links(page))
        role()
        page.get_by_text("is not on the list of people").wait_for()
        assert not page.get_by_text("stage one").count()
        page.goto(proxy.address)
        page.get_by_text("is not on the list of people").wait_for()
        assert not page.locator("h1, header a, textarea").count()
        role("rob@example.org,reviewer")
        page.goto(f"{proxy.address}/jobs")
        page.get_by_role("button", name="Start again").click()  # a script run
        page.get_by_text("which is not there; expected an existing folder").first.wait_for()
        page.goto(server.address)  # bypasses the proxy
        assert "a request with 0 headers x-email" in page.locator("body").inner_text()


@in_browser
def test_somebody_logs_in_and_out(made, page):
    with providing() as provider:
        server = Server(made.folder / "login", [*made.options, "--people", made.people], {})
        login = {
            **LOGIN,
            "redirect_uri": f"{server.address}/oauth2callback",
            "server_metadata_url": f"{provider.address}/.well-known/openid-configuration",
        }
        lines = [f'{name} = "{value}"' for name, value in login.items()]
        secrets = made.folder / "login" / ".streamlit" / "secrets.toml"
        secrets.parent.mkdir()
        secrets.write_text("[auth]\n" + "\n".join(lines))
        assert tomllib.loads(secrets.read_text())["auth"] == login
        server.environment["HOME"] = str(made.folder / "login")
        server.start()
        try:
            provider.claims = {"email": "rob@example.org", "email_verified": True}
            page.goto(server.address)
            page.get_by_role("button", name="Log in").click()
            page.get_by_text(shown("rob@example.org", "reviewer")).wait_for()
            assert "Desk" in links(page)
            page.get_by_role("button", name="Log out").click()
            page.get_by_role("button", name="Log in").wait_for()
        finally:
            server.stop()


# --- uploads ------------------------------------------------------------------------------------


def test_an_upload_has_limits_that_are_named(tmp_path, monkeypatch):
    uploads = part("uploads")
    monkeypatch.setattr(uploads, "MOST_ROWS", 2)
    path = tmp_path / "in.csv"
    path.write_text("text\nmy bill\nmy router\n")
    assert uploads.look_into(path, ("text",)).guessed == ("text",)
    path.write_text("text\nmy bill\nmy router\nmy app\n")
    with pytest.raises(TableError, match="has more than 2 rows; expected at most as many"):
        uploads.look_into(path, ("text",))
    path.write_text(",".join(f"c{place}" for place in range(10_000)) + "\n")
    with pytest.raises(TableError, match="has 10,000 columns; expected at most 1,000"):
        uploads.look_into(path, ("text",))
    assert uploads.limits().startswith("At most 200 MB, 2 rows, 1,000 columns, and 1,000,000 char")


# --- files on the server -------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    """A folder whose files may be read, and one outside it."""
    root, outside = tmp_path / "files", tmp_path / "outside"
    for path in (
        root / "a.csv",
        root / "b.jsonl.gz",
        root / "notes.txt",
        root / ".hidden.csv",
        root / "c.parquet.gz",
        root / "team" / "c.XLSX",
        root / "team" / "year" / "d.parquet",
        root / "team" / "year" / "month" / "deep.tsv",
        outside / "secret.csv",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text\n")
    (root / "folder.csv").mkdir()
    (root / "linked").symlink_to(outside)
    (root / "link.csv").symlink_to(outside / "secret.csv")
    (root / "inside.csv").symlink_to(root / "a.csv")
    return root


def test_tables_are_listed_two_levels_down(files):
    found = part("server_files").server_files([files, files.parent / "none"])
    names = ["a.csv", "b.jsonl.gz", "inside.csv", "team/c.XLSX", "team/year/d.parquet"]
    assert [path.relative_to(files).as_posix() for path in found] == names


def test_at_most_a_thousand_tables_are_listed(tmp_path):
    for number in range(1002):
        (tmp_path / f"{number:04}.csv").touch()
    found = part("server_files").server_files([tmp_path])
    assert (len(found), found[-1].name) == (1000, "0999.csv")


def test_a_table_below_the_folder_for_files_is_given(files, monkeypatch):
    server_file = part("server_files").server_file
    assert server_file(str(files / "a.csv"), [files]) == (files / "a.csv").resolve()
    assert server_file("team/year/month/deep.tsv", [files]).name == "deep.tsv"
    assert server_file("x/../inside.csv", [files]) == (files / "a.csv").resolve()
    monkeypatch.chdir(files)
    assert server_file("team/c.XLSX", [files]).name == "c.XLSX"


@pytest.mark.parametrize(
    "given",
    [
        "{outside}/secret.csv",
        "{outside}/none.csv",
        "../outside/secret.csv",
        "team/../../outside/secret.csv",
        "linked/secret.csv",
        "linked/none.csv",
        "link.csv",
        "notes.txt",
        "folder.csv",
        "none.csv",
        "",
        ".",
        "/etc/passwd",
        "~/secret.csv",
        "file://{outside}/secret.csv",
        "a.csv\0",
        "x" * 5000 + ".csv",
    ],
)
def test_paths_outside_are_refused_without_revealing_whether_they_exist(files, given, monkeypatch):
    outside = files.parent / "outside"
    monkeypatch.setenv("HOME", str(outside))
    with pytest.raises(TableError) as refused:
        part("server_files").server_file(given.format(outside=outside), [files])
    assert "is not a table of the server; expected a file .csv" in str(refused.value)
    assert str(refused.value).endswith("or start the dashboard with -- --files FOLDER.")


def test_without_the_option_no_file_of_the_server_is_read(files, monkeypatch):
    monkeypatch.chdir(files)
    module = part("server_files")
    assert module.files_roots() == []
    assert module.server_files([]) == []
    with pytest.raises(TableError, match="this dashboard reads no files on the server"):
        module.server_file("a.csv", [])
    monkeypatch.setenv("BERTCNN_FILES", str(files))
    assert module.files_roots() == [files]
