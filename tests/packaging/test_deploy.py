"""The files of deploy/: tools accept them, commands accept their options, and the service runs.

Building an image takes a Docker daemon, so none is built here. The tests copy and install what the
Dockerfile copies and installs into a folder and an environment, and run its commands there.
"""

import base64
import http.client
import http.server
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from threading import Thread

import pytest
import typer
import yaml

from benchmarks.environment import CompetitorError, peers_python
from bertcnn.cli.main import app
from tests.packaging.conftest import ROOT, attempt, run, sources

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the images are of Linux")

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
IGNORED = ROOT / ".dockerignore"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
OBJECTS = {
    found["kind"]: found
    for file in KUBERNETES
    for found in yaml.safe_load_all(file.read_text(encoding="utf-8"))
}
POD = OBJECTS["Deployment"]["spec"]["template"]["spec"]
JOB = OBJECTS["CronJob"]["spec"]["jobTemplate"]["spec"]
NIGHTLY = JOB["template"]["spec"]
TOKEN = "0123456789abcdef0123456789abcdef"
MOST_MEGABYTES = 700  # to create the service's environment
PATIENCE = 60  # seconds


# === Reading the Dockerfile ===


def stages():
    """The instructions of each stage in order, as pairs of a keyword and its arguments."""
    lines = [
        line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if line[:1] != "#"
    ]
    found = {}
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found[rest.split()[-1]] = current = []
        elif word:
            current.append((word, rest.strip()))
    return found


STAGES = stages()


def only(stage, word):
    """The arguments of a stage's only instruction of this kind."""
    (found,) = (rest for name, rest in STAGES[stage] if name == word)
    return found


def pip_lines(stage):
    """The words of each call of pip, after `pip`."""
    calls = []
    for word, rest in STAGES[stage]:
        if word == "RUN":
            for command in re.sub(r"--mount=\S+", "", rest).split("&&"):
                first, *words = shlex.split(command)
                calls += [words] if first == "pip" else []
    return calls


def copied(stage):
    """The paths of the checkout that a stage copies or mounts."""
    found = []
    for word, rest in STAGES[stage]:
        if word == "COPY":
            found += rest.split()[:-1]
        found += re.findall(r"--mount=type=bind,source=([^,]+)", rest)
    return found


def health_check(stage, port):
    """The command of a HEALTHCHECK, for a server on another port."""
    words = re.search(r"CMD (\[.*\])", only(stage, "HEALTHCHECK"))[1]
    _, option, code = yaml.safe_load(words)
    assert only(stage, "EXPOSE") in code
    return [sys.executable, option, code.replace(only(stage, "EXPOSE"), str(port))]


# === Tools ===


@pytest.fixture(scope="module")
def tool():
    """Runs a tool from an environment of its own; returns its exit code and output."""
    try:
        folder = peers_python("deploy").parent
    except CompetitorError as error:
        pytest.skip(f"no environment with hadolint and others: {error}")

    def call(name, *arguments):
        done = attempt([folder / name, *arguments])
        return done.returncode, (done.stdout + done.stderr).strip()

    return call


def test_hadolint_finds_nothing_in_the_dockerfile(tool):
    assert tool("hadolint", DOCKERFILE) == (0, "")


def test_the_compose_file_has_the_form_of_the_specification(tool):
    code, said = tool(
        *("check-jsonschema", "--builtin-schema", "vendor.compose-spec"), DEPLOY / "compose.yaml"
    )
    assert code == 0, said


def test_kubernetes_takes_each_object(tool):
    code, said = tool("kubernetes-validate", "--strict", *KUBERNETES)
    assert code == 0, said
    assert said.count(" passed for resource ") == len(OBJECTS) == 5


# === The images ===


def test_only_copied_files_reach_the_build():
    lines = IGNORED.read_text(encoding="utf-8").splitlines()
    let_in = {line[1:] for line in lines if line[:1] == "!"}
    wanted = {path for stage in ("wheel", "dashboard", "service") for path in copied(stage)}
    words = [word for words in pip_lines("service") for word in words if word.endswith(".txt")]
    assert let_in == wanted - {"deploy"} | {word.removeprefix("/build/") for word in words}
    assert [path for path in let_in if not (ROOT / path).exists()] == []
    assert "**/secrets.toml" in lines


def test_an_image_runs_as_a_user_with_a_number_and_hears_sigterm():
    for stage in ("dashboard", "service"):
        user, group = only(stage, "USER").split(":")
        assert min(int(user), int(group)) > 10_000
        for word in ("CMD", "ENTRYPOINT"):
            forms = [rest for name, rest in STAGES[stage] if name == word]
            assert [form for form in forms if not form.startswith("[")] == []  # not via a shell
    assert [*STAGES][-1] == "service"  # the default target


def test_installed_packages_have_the_tested_versions():
    for stage in ("wheel", "dashboard", "service"):
        for words in pip_lines(stage):
            assert "--no-deps" in words or words[words.index("-c") + 1].endswith("constraints.txt")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built by the Dockerfile's command from the files it copies."""
    folder = tmp_path_factory.mktemp("image")
    for path in copied("wheel"):
        if (ROOT / path).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / path, folder / path, ignore=ignored)
        else:
            shutil.copy(ROOT / path, folder / path)
    (build,) = (words for words in pip_lines("wheel") if words[0] == "wheel")
    words = [{"/wheels": folder / "wheels"}.get(word, word) for word in build]
    run([sys.executable, "-m", "pip", "--quiet", *words], cwd=folder)
    (made,) = (folder / "wheels").iterdir()
    return made


def test_the_wheel_of_the_image_is_whole(wheel):
    with zipfile.ZipFile(wheel) as found:
        assert {name for name in found.namelist() if name.startswith("bertcnn/")} == sources()


@pytest.fixture(scope="module")
def service(environment, wheel):
    """The Python of the `service` image."""
    here = {"/wheels/*.whl": str(wheel), "--no-cache-dir": "--compile-bytecode"}
    requirements = []
    for install, *words in pip_lines("service"):
        assert install == "install"
        requirements.append([here.get(word, word.replace("/build", str(ROOT))) for word in words])
    return environment(*requirements)


@contextmanager
def started(command, **variables):
    """The address and the process of a service, which is ended afterwards."""
    process = subprocess.Popen(
        [*map(str, command)],
        env={**os.environ, "PYTHONPATH": "", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process.stdout.readline().rpartition(":")[2].strip(), process
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.stdout.close()


def answer(port, path, body=None, **headers):
    """The response's status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)
    connection.request("POST" if body else "GET", path, body, headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_the_service_starts_from_its_image_and_answers(service):
    files = (path for path in service.parents[1].rglob("*") if not path.is_symlink())
    assert 100 < sum(path.stat().st_size for path in files if path.is_file()) / 1e6 < MOST_MEGABYTES
    model = {"/model": ROOT / "tests" / "golden" / "saved" / "model"}
    words = [model.get(word, word) for word in yaml.safe_load(only("service", "CMD"))]
    (name,) = yaml.safe_load(only("service", "ENTRYPOINT"))
    command = [service.with_name(name), *words, "--port", "0", "--drain", "0"]
    assert "without a token" in attempt(command).stderr
    with started(command, BERTCNN_SERVE_TOKEN=TOKEN) as (port, process):
        assert answer(port, "/classify", '{"texts": ["no signal"]}')[0] == 401
        token = {"Authorization": f"Bearer {TOKEN}"}
        status, said = answer(port, "/classify", '{"texts": ["no signal"]}', **token)
        assert status == 200, said
        assert '"model":"model"' in said
        run(health_check("service", port))
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            path = POD["containers"][0][probe]["httpGet"]["path"]
            assert answer(port, path)[0] == 200, path
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert attempt(health_check("service", port)).returncode != 0


# === Compose ===


def parsed(words):
    """The parsed options of a `bertcnn` command."""
    command = typer.main.get_command(app)
    name, *rest = words
    return command.commands[name].make_context(name, list(rest)).params


def mounts(service):
    """What is mounted, by path in the container."""
    return dict(reversed(volume.split(":")[:2]) for volume in SERVICES[service].get("volumes", ()))


def test_the_service_of_compose_takes_its_command():
    service = SERVICES["service"]
    options = parsed(service["command"])
    assert options["host"] == "0.0.0.0"
    assert str(options["token_file"]) == f"/run/secrets/{service['secrets'][0]}"
    assert int(service["stop_grace_period"].removesuffix("s")) > options["drain"]
    (model,) = options["models"]
    assert model.startswith("/models/")
    assert mounts("service")["/models"] == mounts("dashboard")["/models"]
    assert service["ports"] == [f"127.0.0.1:8000:{options['port']}"]
    assert only("service", "EXPOSE") == str(options["port"])


def test_compose_opens_ports_of_this_machine_only_and_locks_each_container():
    for name, service in SERVICES.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["restart"] == "unless-stopped", name
        assert "/tmp" in service["tmpfs"], name
        target = service.get("build", {}).get("target")
        assert target is None or only(target, "HEALTHCHECK"), name
        assert target or service["healthcheck"], name
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"]), name
        assert set(service.get("networks", ())) <= set(COMPOSE["networks"]), name
        named = {place for place in mounts(name).values() if not place.startswith(".")}
        assert named <= set(COMPOSE["volumes"]), name
        for variable, value in service.get("environment", {}).items():
            assert "PASSWORD" not in variable or value.startswith("/run/secrets/"), name


def test_only_the_proxy_reaches_the_dashboard_and_only_that_the_database():
    def on(network):
        return {name for name, one in SERVICES.items() if network in one.get("networks", ())}

    assert on("login") == {"dashboard", "proxy"}
    assert on("reviews") == {"dashboard", "database"}
    assert COMPOSE["networks"]["reviews"]["internal"]
    assert not {"ports", "network_mode"} & {*SERVICES["dashboard"], *SERVICES["database"]}


def free_port():
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def running(command, is_ready, **options):
    """A process that is ready; it is ended afterwards."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **silent, **options)
    try:
        until = time.monotonic() + PATIENCE
        while not is_ready():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait(PATIENCE)


@contextmanager
def dashboard(variables):
    """The port of a dashboard started as in its image, with additional variables."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if "BERTCNN" not in name}
    image = dict(part.split("=") for part in only("dashboard", "ENV").split())
    here = {"PYTHONPATH": str(ROOT), "STREAMLIT_SERVER_PORT": f"{port}"}
    with running(
        [sys.executable, "-m", *yaml.safe_load(only("dashboard", "CMD"))],
        lambda: attempt(health_check("dashboard", port)).returncode == 0,
        env={**kept, **image, **variables, **here},
        cwd=ROOT / "apps" / "dashboard",
    ):
        yield port


def test_the_dashboard_admits_only_people_named_by_the_proxy(tmp_path):
    with dashboard({}) as port:
        status, said = answer(port, "/")
        assert (status, said.partition(";")[0]) == (
            403,
            "the dashboard listens on 0.0.0.0 without a login",
        )
    (tmp_path / "people.csv").write_text("person,role\nann,viewer\n", encoding="utf-8")
    given = SERVICES["dashboard"]["environment"]
    folder = str(tmp_path)
    here = {
        name: value.replace("/models", folder).replace("/people", folder)
        for name, value in given.items()
    }
    with dashboard(here) as port:
        assert answer(port, "/")[0] == 403
        assert answer(port, "/", **{given["BERTCNN_BEHIND_PROXY"]: "ann"})[0] == 200


@contextmanager
def proxy(folder, dashboard_port):
    """Caddy's port with deploy/Caddyfile in front of a dashboard; `folder` has the passwords."""
    port = free_port()
    text = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    here = {"dashboard:8501": f"127.0.0.1:{dashboard_port}", "/run/secrets": str(folder)}
    here["\n:8501 {"] = f"\n:{port} {{"
    major, minor = re.match(r"v?(\d+)\.(\d+)", run(["caddy", "version"])).groups()
    if (int(major), int(minor)) < (2, 8):
        here["basic_auth"] = "basicauth"  # its older name
    for there, found in here.items():
        assert there in text
        text = text.replace(there, found)
    (folder / "Caddyfile").write_text(text, encoding="utf-8")
    with running(
        ["caddy", "run", "--adapter", "caddyfile", "--config", folder / "Caddyfile"],
        lambda: is_open(port),
        env={**os.environ, "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)},
    ):
        yield port


def is_open(port):
    """Whether something listens on the port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class Named(http.server.BaseHTTPRequestHandler):
    """Responds with the values of the dashboard's visitor header."""

    def do_GET(self):
        names = self.headers.get_all(SERVICES["dashboard"]["environment"]["BERTCNN_BEHIND_PROXY"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(" ".join(names).encode())

    def log_message(self, *_):
        """Log nothing."""


def login(name, password="secret"):
    """The Authorization header for a name and a password."""
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


@pytest.mark.skipif(not shutil.which("caddy"), reason="no caddy: apt-get install caddy")
def test_the_proxy_asks_for_a_password_and_believes_no_header(tmp_path):
    hashed = run(["caddy", "hash-password", "--plaintext", "secret"]).strip()
    (tmp_path / "passwords").write_text(f"ann {hashed}\neve {hashed}\n", encoding="utf-8")
    header = SERVICES["dashboard"]["environment"]["BERTCNN_BEHIND_PROXY"]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Named) as behind:
        Thread(target=behind.serve_forever, daemon=True).start()
        with proxy(tmp_path, behind.server_port) as port:
            assert answer(port, "/")[0] == 401  # the health check of compose.yaml expects it
            assert answer(port, "/", **{header: "ann"})[0] == 401
            assert answer(port, "/", **login("ann", "guess"))[0] == 401
            assert answer(port, "/", **login("ann")) == (200, "ann")
            assert answer(port, "/", **login("eve"), **{header: "ann"}) == (200, "eve")
        behind.shutdown()
    (tmp_path / "people.csv").write_text("person,role\nann,viewer\n", encoding="utf-8")
    variables = {
        "BERTCNN_MODELS": str(tmp_path),
        "BERTCNN_PEOPLE": str(tmp_path / "people.csv"),
        "BERTCNN_BEHIND_PROXY": header,
    }
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
    }
    with dashboard(variables) as behind, proxy(tmp_path, behind) as port:
        assert answer(port, "/", **login("ann"))[0] == 200
        stream = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        stream.request("GET", "/_stcore/stream", headers={**login("ann"), **upgrade})
        assert stream.getresponse().status == 101
        stream.close()


def test_the_proxy_and_the_dashboard_use_the_same_header():
    header = SERVICES["dashboard"]["environment"]["BERTCNN_BEHIND_PROXY"]
    proxy = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    assert f"header_up {header} {{http.auth.user.id}}" in proxy
    assert f"reverse_proxy dashboard:{only('dashboard', 'EXPOSE')} {{" in proxy
    assert f"import /run/secrets/{SERVICES['proxy']['secrets'][0]}" in proxy
    assert f"\n:{SERVICES['proxy']['ports'][0].rpartition(':')[2]} {{" in proxy


def test_the_dashboard_reads_the_password_from_its_file(tmp_path):
    (secret,) = SERVICES["dashboard"]["secrets"]
    (tmp_path / secret).write_text("p'a $word\n", encoding="utf-8")
    shell, option, code, name = SERVICES["dashboard"]["entrypoint"]
    assert "$" not in code.replace("$$", "")  # Compose would insert a variable of its own
    code = code.replace("$$", "$").replace("/run/secrets", str(tmp_path))
    assert run([shell, option, code, name, "printenv", "PGPASSWORD"]) == "p'a $word\n"
    database = SERVICES["database"]["environment"]
    assert database["POSTGRES_PASSWORD_FILE"] == f"/run/secrets/{secret}"
    store = SERVICES["dashboard"]["environment"]["BERTCNN_STORE"]
    user = database["POSTGRES_USER"]  # the name of the database too
    assert store == f"postgresql://{user}@database/{user}"


# === Kubernetes ===


def test_the_pods_take_their_commands():
    (fetch,), (serve,) = POD["initContainers"], POD["containers"]
    options = parsed(serve["args"])
    assert options["host"] == "0.0.0.0"
    assert POD["terminationGracePeriodSeconds"] > options["drain"] + 20
    assert serve["ports"][0]["containerPort"] == options["port"]
    assert options["models"] == [f"triage={fetch['args'][1]}"]
    assert parsed(fetch["args"])
    places = {one["name"]: one["mountPath"] for one in serve["volumeMounts"]}
    assert str(options["token_file"].parent) == places["token"]
    assert serve["resources"]["limits"]["cpu"]
    scored = parsed(NIGHTLY["containers"][0]["args"])
    assert str(scored["shard"]) == str(JOB["completions"]) == str(JOB["parallelism"])


def test_each_pod_is_locked_and_writes_only_where_a_volume_is():
    variables = dict(part.split("=") for part in only("base", "ENV").split())
    user = int(only("service", "USER").partition(":")[0])
    for pod in (POD, NIGHTLY):
        assert pod["securityContext"]["runAsUser"] == user
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            locked = container["securityContext"]
            assert locked["readOnlyRootFilesystem"]
            assert locked["allowPrivilegeEscalation"] is False
            assert locked["capabilities"] == {"drop": ["ALL"]}
            places = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
            assert set(places.values()) <= volumes
            assert variables["HOME"] in places
            by_url = "://" in " ".join(container["args"])
            assert not by_url or variables["BERTCNN_CACHE"] in places


def test_the_objects_name_each_other():
    labels = OBJECTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert OBJECTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert OBJECTS["Service"]["spec"]["selector"] == labels
    assert OBJECTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    target = OBJECTS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert target["name"] == OBJECTS["Deployment"]["metadata"]["name"]
    (port,) = OBJECTS["Service"]["spec"]["ports"]
    assert port["targetPort"] == POD["containers"][0]["ports"][0]["name"]


def test_the_guide_names_files_that_are_there():
    guide = (ROOT / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\bdeploy/[\w./-]*\w", guide))
    made = {"deploy/secrets", "deploy/people"}  # created by the user as the guide says
    there = {name for name in named if not name.startswith(tuple(made))}
    assert there >= {"deploy/Dockerfile", "deploy/compose.yaml", "deploy/kubernetes/service.yaml"}
    assert [name for name in there if not (ROOT / name).exists()] == []
    for secret in COMPOSE["secrets"].values():
        assert f"deploy/{secret['file']}" in guide
