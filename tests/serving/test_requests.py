"""Every route with its responses, and the one-line error of each refused request."""

import gzip
import json
import re
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

TEXTS = ["my router is broken", "refund the invoice twice", "", "\N{SNOWMAN} é the app crash"]


def shown(predictor, texts, **options):
    answers = [prediction.as_json(**options) for prediction in predictor.classify(texts)]
    return json.loads(json.dumps(answers))


def agree(answers, expected):
    """Assert equality except for rounding: int8 and batching change the last digits."""
    assert len(answers) == len(expected)
    for answer, other in zip(answers, expected, strict=True):
        assert answer.keys() == other.keys()
        for key, value in other.items():
            if key == "probabilities" or isinstance(value, float):
                assert answer[key] == pytest.approx(value, abs=1e-3)
            else:
                assert answer[key] == value


def test_texts_are_answered_as_the_model_answers_them(server, predictor):
    asked = {"texts": TEXTS, "probabilities": True}
    status, answer, _ = server.ask("/classify", asked)
    assert (status, answer["model"]) == (200, "tiny")
    assert answer["version"] == predictor.bundle.bundle_id[:12]
    agree(answer["answers"], shown(predictor, TEXTS, probabilities=True))


def test_phrases_are_left_out_on_request_and_no_texts_have_no_answers(server, predictor):
    answer = server.ask("/classify", {"texts": TEXTS, "because": False})[1]
    agree(answer["answers"], shown(predictor, TEXTS, because=False))
    assert server.ask("/classify", {"texts": []})[1]["answers"] == []


def test_a_model_is_chosen_by_its_name(server):
    label = server.ask("/classify", {"texts": ["refund the invoice"], "model": "other"})[1]
    assert label["model"] == "other"
    names = [model["name"] for model in server.ask("/models")[1]["models"]]
    assert names == ["tiny", "other"]
    status, answer, _ = server.ask("/classify", {"texts": ["x"], "model": "third"})
    assert status == 404
    assert answer["error"].startswith("the model 'third'; expected one of 'tiny, other'.")


def test_requests_at_the_same_time_share_batches_and_get_their_own_answers(server, predictor):
    texts = [f"{word} number {number}" for number in range(40) for word in ("router", "invoice")]
    expected = dict(zip(texts, shown(predictor, texts), strict=True))

    def ask(part):
        return server.ask("/classify", {"texts": part})[1]["answers"]

    parts = [texts[start : start + size] for size in (1, 3, 50) for start in range(0, 80, size)]
    with ThreadPoolExecutor(16) as pool:
        for part, answers in zip(parts, pool.map(ask, parts), strict=True):
            assert answers == [expected[text] for text in part]
    page = server.ask("/metrics")[1].decode()
    assert "bertcnn_queue_texts 0.0" in page


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"hello", 400, "a body that is not JSON"),
        (b"[]", 400, "a body whose value is wrong"),
        (b'{"texts": ["a", 3]}', 400, "a body whose 'texts.1' is wrong; expected"),
        (b'{"texts": [], "text": 1}', 400, "the key 'text' in the body; expected one of: because"),
        (b'{"texts": ["\\ud800"]}', 400, "a body that is not JSON"),
        (b'{"texts": ["a"], "auto_precision": 7}', 400, "automatic precision '7.0'; expected"),
        (
            b'{"texts": [%s""]}' % (b'"",' * 200),
            413,
            "201 texts in a request; expected at most 200",
        ),
        (b'{"texts": ["%s"]}' % (b"a" * 100_001), 413, "a text of 100,001 characters; expected"),
        (b" " * (9 << 20), 413, "a body of 9,437,184 bytes; expected at most 8,388,608."),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_an_unusable_request_is_refused_with_a_reason(server, body, status, message):
    given, answer, _ = server.ask("/classify", body)
    assert (given, list(answer)) == (status, ["error"])
    assert answer["error"].startswith(message)
    assert "\n" not in answer["error"]


def test_other_routes_methods_and_bodies_are_refused(server):
    assert server.ask("/nothing")[0] == 404
    assert server.ask("/classify")[0] == 405
    tensor = {"name": "text", "shape": [3], "datatype": "BYTES", "data": ["a"]}
    status, answer, _ = server.ask("/v2/models/tiny/infer", {"inputs": [tensor]})
    assert (status, answer["error"][:17]) == (400, "1 texts with the ")
    status, answer, _ = server.ask("/invocations", {"rows": []})
    assert (status, answer["error_code"], list(answer)[1:]) == (400, "BAD_REQUEST", ["message"])


def test_compressed_bodies_are_answered(server, predictor):
    body = gzip.compress(json.dumps({"texts": TEXTS}).encode())
    status, answer, _ = server.ask("/classify", body, {"Content-Encoding": "gzip"})
    assert status == 200
    agree(answer["answers"], shown(predictor, TEXTS))


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/ping", "/docs"])
def test_head_is_answered_as_get_without_the_body(server, path):
    status, body, headers = server.ask(path, method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0


def test_pages_of_other_sites_cannot_ask(server):
    for headers, message in (
        ({"Host": "evil.example"}, "the host 'evil.example'; expected 127.0.0.1 or localhost"),
        ({"Host": "[1"}, "the host '[1'; expected"),
        ({"X-Forwarded-For": "10.1.2.3"}, "a request through a proxy; expected requests of this m"),
        ({"Origin": "http://evil.example"}, "a page of 'http://evil.example'; expected the server"),
    ):
        status, answer, _ = server.ask("/classify", {"texts": ["a"]}, headers)
        assert (status, answer["error"][: len(message)]) == (403, message)
    own = {"Origin": server.address}
    assert server.ask("/classify", {"texts": ["a"]}, own)[0] == 200


def test_the_page_of_routes_needs_no_network(server):
    status, page, headers = server.ask("/docs")
    assert status == 200
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    files = re.findall(r'(?:src|href)="([^"]+)"', page.decode())
    assert len(files) == 3
    for file in files:
        assert file.startswith("/docs/")
        assert server.ask(file)[0] == 200


def test_all_routes_are_documented(server):
    paths = server.ask("/openapi.json")[1]["paths"]
    schema = paths["/classify"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["properties"]) >= {"texts", "because", "probabilities", "auto_precision"}
    assert all(way.get("description") for path in paths.values() for way in path.values())
    assert all(
        "$defs" not in json.dumps(way["requestBody"])
        for path in paths.values()
        for way in path.values()
        if "requestBody" in way
    )
    infer = paths["/v2/models/{name}/infer"]["post"]["requestBody"]["content"]["application/json"]
    required = infer["schema"]["properties"]["inputs"]["items"]["required"]
    assert required == ["name", "shape", "datatype"]


# === Open Inference ===


def test_open_inference_describes_server_and_model(server, predictor):
    assert server.ask("/v2")[1]["extensions"] == ["binary_tensor_data", "model_repository"]
    assert server.ask("/v2/health/live")[1] == {"live": True}
    assert server.ask("/v2/health/ready")[:2] == (200, {"ready": True})
    assert server.ask("/ping")[:2] == (200, {"ready": True})
    version = predictor.bundle.bundle_id[:12]
    about = server.ask("/v2/models/tiny")[1]
    assert about["versions"] == [version]
    assert about["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    assert about == server.ask(f"/v2/models/tiny/versions/{version}")[1]
    assert server.ask("/v2/models/tiny/ready")[0] == 200
    assert server.ask("/v2/models/tiny/versions/1/ready")[0] == 404
    index = server.ask("/v2/repository/index", {})[1]
    assert index[0] == {"name": "tiny", "version": version, "state": "READY"}


def test_open_inference_answers_json(server, predictor):
    asked = {
        "id": "7",
        "inputs": [{"name": "text", "shape": [2, 2], "datatype": "BYTES", "data": [TEXTS[:2]] * 2}],
        "outputs": [{"name": "label"}, {"name": "probabilities"}, {"name": "decision"}],
    }
    status, answer, _ = server.ask("/v2/models/tiny/infer", asked)
    assert (status, answer["id"], answer["model_name"]) == (200, "7", "tiny")
    label, probabilities, decision = answer["outputs"]
    predictions = predictor.classify(TEXTS[:2] * 2)
    assert label["data"] == [prediction.label for prediction in predictions]
    assert decision["data"] == [prediction.decision for prediction in predictions]
    assert (label["shape"], probabilities["shape"]) == ([2, 2], [2, 2, 3])
    expected = predictor.predict_proba(TEXTS[:2] * 2).ravel().tolist()
    assert probabilities["data"] == pytest.approx(expected, abs=1e-3)


def test_open_inference_answers_binary_tensors_as_tritonclient_sends_them(server, predictor):
    tensor = b"".join(struct.pack("<I", len(data)) + data for data in map(str.encode, TEXTS))
    size = {"binary_data_size": len(tensor)}
    given = {"name": "text", "shape": [len(TEXTS)], "datatype": "BYTES", "parameters": size}
    given = {"inputs": [given], "parameters": {"binary_data_output": True}}
    header = json.dumps(given).encode()
    headers = {"Inference-Header-Content-Length": str(len(header))}
    status, data, about = server.ask("/v2/models/tiny/infer", header + tensor, headers)
    assert status == 200
    end = int(about["Inference-Header-Content-Length"])
    found = {}
    for output in json.loads(data[:end])["outputs"]:
        size = output["parameters"]["binary_data_size"]
        found[output["name"]], end = (output["datatype"], data[end : end + size]), end + size
    assert end == len(data)
    predictions = predictor.classify(TEXTS)
    confidence = np.frombuffer(found["confidence"][1], "<f4")
    expected = [prediction.confidence or 0 for prediction in predictions]
    np.testing.assert_allclose(confidence, expected, atol=1e-3)
    labels, place = [], 0
    datatype, data = found["label"]
    assert datatype == "BYTES"
    while place < len(data):
        (size,) = struct.unpack_from("<I", data, place)
        labels.append(data[place + 4 : place + 4 + size].decode())
        place += 4 + size
    assert labels == [prediction.label or "" for prediction in predictions]


def test_a_request_broken_off_by_its_client_is_not_a_server_error(server):
    def broken_off():
        page = server.ask("/metrics")[1].decode()
        assert 'status="500"' not in page
        return page.count('route="/classify",status="499"')

    connection = server.connection()
    connection.putrequest("POST", "/classify")
    connection.putheader("Content-Length", "100")
    connection.endheaders(b'{"texts": ')
    connection.close()
    until = time.monotonic() + 20
    while not broken_off() and time.monotonic() < until:
        time.sleep(0.02)
    assert broken_off()


# === Other conventions ===


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/models/tiny:predict", {"instances": TEXTS}),
        ("/invocations", {"dataframe_records": [{"text": text} for text in TEXTS]}),
    ],
)
def test_requests_of_other_servers_are_answered(server, predictor, path, body):
    status, answer, _ = server.ask(path, body)
    assert status == 200
    agree(answer["predictions"], shown(predictor, TEXTS))


def test_tensorflow_serving_has_versions_metadata_and_columns(server, predictor):
    version = predictor.bundle.bundle_id[:12]
    place = f"/v1/models/tiny/versions/{version}"
    status, answer, _ = server.ask(f"{place}:predict", {"inputs": TEXTS})
    assert status == 200
    rows = shown(predictor, TEXTS)
    assert answer["outputs"]["label"] == [row["label"] for row in rows]
    assert set(answer["outputs"]) == set(rows[0])
    assert server.ask("/v1/models/tiny/versions/1:predict", {"inputs": TEXTS})[0] == 404
    about = server.ask(f"{place}/metadata")[1]
    assert about == server.ask("/v1/models/tiny/metadata")[1]
    signature = about["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert (about["model_spec"]["version"], [*signature["inputs"]]) == (version, ["text"])
    (state,) = server.ask(place)[1]["model_version_status"]
    assert (state["version"], state["state"]) == (version, "AVAILABLE")


def test_mlflow_has_params_and_csv(server, predictor):
    asked = {"inputs": TEXTS, "params": {"probabilities": True, "because": False}}
    answer = server.ask("/invocations", asked)[1]
    agree(answer["predictions"], shown(predictor, TEXTS, probabilities=True, because=False))
    body = b"id,text\n1,my router is broken\n2,refund the invoice twice\n"
    status, answer, _ = server.ask("/invocations", body, {"Content-Type": "text/csv"})
    assert status == 200
    agree(answer["predictions"], shown(predictor, TEXTS[:2]))
