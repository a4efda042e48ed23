"""Bodies in other servers' formats are understood or refused with one line, never guessed."""

import base64
import gzip
import json
import struct
import zlib

import pytest

from bertcnn.serving.api import ClassifyRequest
from bertcnn.serving.bodies import decompressed
from bertcnn.serving.conventions import read_csv, read_invocation, read_prediction
from bertcnn.serving.open_inference import read_request
from bertcnn.serving.problems import RequestError
from bertcnn.serving.texts import TextColumns

PLAIN = TextColumns((), 100)
ONE = TextColumns(("message",), 100)
TWO = TextColumns(("subject", "body"), 100)
B64 = {"b64": base64.b64encode("née".encode()).decode()}
ROWS = [{"subject": "Hello", "body": "née"}, {"body": "b", "subject": "a"}]
JOINED = ["Hello\nnée", "a\nb"]


def encoded(value):
    return json.dumps(value).encode()


def refusal(read, *arguments):
    with pytest.raises(RequestError) as error:
        read(*arguments)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000
    return error.value.status, str(error.value)


# === KServe v1, TensorFlow Serving, Vertex AI, MLflow ===


@pytest.mark.parametrize(
    ("columns", "body", "texts"),
    [
        (PLAIN, {"instances": ["a", B64, ["b"]], "signature_name": "serving_default"}, None),
        (PLAIN, {"instances": [{"text": "a"}, {"text": B64}, {"text": "b"}]}, None),
        (ONE, {"instances": [{"message": "a"}, {"message": B64}, {"message": "b"}]}, None),
        (ONE, {"instances": [{"text": "a"}, {"text": "née"}, {"text": "b"}]}, None),
        (ONE, {"inputs": ["a", B64, "b"]}, None),
        (ONE, {"inputs": {"Message": ["a", B64, ["b"]]}}, None),
        (TWO, {"instances": ROWS, "parameters": {"probabilities": True}}, JOINED),
        (TWO, {"inputs": {"body": ["née", "b"], "subject": ["Hello", "a"]}}, JOINED),
        (TWO, {"instances": JOINED}, JOINED),
        (TWO, {"instances": []}, []),
    ],
)
def test_predictions_are_requested_by_rows_or_by_columns(columns, body, texts):
    asked = read_prediction(encoded(body), columns)
    assert asked.texts == (["a", "née", "b"] if texts is None else texts)
    assert asked.by_columns == ("inputs" in body)
    assert asked.options.probabilities == ("parameters" in body)


@pytest.mark.parametrize(
    ("columns", "body", "message"),
    [
        (PLAIN, {"instances": [{"ticket_id": "T-1"}]}, "instances with 'ticket_id'; expected"),
        (ONE, {"instances": [{"message": "a", "id": "1"}]}, "instances with 'message, id'"),
        (TWO, {"instances": [["a", "b"]]}, "\"['a', 'b']\" in instances; expected a text, or {"),
        (
            TWO,
            {"inputs": {"subject": ["a"], "body": []}},
            "inputs that are not lists of one length",
        ),
        (
            ONE,
            {"instances": [{"text": "a"}, {"message": "a"}]},
            "rows in instances that have differ",
        ),
        (PLAIN, {"instances": [{"b64": "a"}]}, "'a' in instances; expected base64 of a text"),
        (PLAIN, {"instances": [{"b64": "//79"}]}, "'//79' in instances; expected base64 of a text"),
        (
            PLAIN,
            {"instances": [{"b64": "YQ==", "x": 1}]},
            "\"{'b64': 'YQ==', 'x': 1}\" in instance",
        ),
        (PLAIN, {"instances": ["a", None]}, "'None' in instances; expected a text"),
        (PLAIN, {"instances": ["a"], "inputs": ["a"]}, "a body with instances and inputs"),
        (PLAIN, {"instances": ["a"], "more": 1}, "the key 'more' in the body; expected one of"),
        (PLAIN, {"instances": ["a"], "signature_name": "other"}, "the signature 'other'; expected"),
        (
            PLAIN,
            {"instances": ["a"], "parameters": {"top_k": 3}},
            "the key 'top_k' in 'parameters'",
        ),
        (PLAIN, {"inputs": "a"}, "a body whose 'inputs"),
    ],
)
def test_other_predictions_are_refused(columns, body, message):
    status, given = refusal(read_prediction, encoded(body), columns)
    assert (status, given[: len(message)]) == (400, message)


@pytest.mark.parametrize(
    ("columns", "body"),
    [
        (TWO, {"dataframe_records": [{"id": 7, **row} for row in ROWS]}),
        (TWO, {"dataframe_split": {"columns": ["body", "id", "Subject"], "index": [0, 1],
                                   "data": [["née", 7, "Hello"], ["b", 8, "a"]]}}),
        (TWO, {"inputs": {"body": ["née", "b"], "subject": ["Hello", "a"]}}),
        (TWO, {"instances": ROWS}),
        (PLAIN, {"dataframe_split": {"data": [[text] for text in JOINED]}}),
        (PLAIN, {"inputs": JOINED, "params": {"because": False}}),
    ],
)  # fmt: skip
def test_invocations_are_requested_by_data_frames_too(columns, body):
    asked = read_invocation(encoded(body), columns)
    assert asked.texts == JOINED
    assert asked.options.because == ("params" not in body)


def test_null_in_a_data_frame_is_a_blank_cell():
    rows = [{"subject": None, "body": "b"}, {"subject": None, "body": None}]
    assert read_invocation(encoded({"dataframe_records": rows}), TWO).texts == ["b", ""]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"dataframe_split": {"data": [["a", "b"]]}},
            "dataframe_split without a name for each col",
        ),
        (
            {"dataframe_split": {"columns": ["body", "subject"], "data": [["a"]]}},
            "rows of dataframe",
        ),
        (
            {"dataframe_records": [{"subject": 3, "body": "b"}]},
            "'3' in dataframe_records; expected",
        ),
        ({"dataframe_split": {"columns": [], "rows": []}}, "the key 'rows' in 'dataframe_split'"),
        ({"inputs": ["a"], "params": {"unknown": 1}}, "the key 'unknown' in 'params'; expected"),
        ({"columns": ["text"], "data": [["a"]]}, "the key 'columns' in the body; expected one of"),
    ],
)
def test_other_invocations_are_refused(body, message):
    status, given = refusal(read_invocation, encoded(body), TWO)
    assert (status, given[: len(message)]) == (400, message)


def test_csv_is_read_as_a_file_is():
    text = 'id,Body,subject\n007,"née, or\nnot",Hello\n8,,a\n'
    for charset, given in (("utf-8", "text/csv"), ("latin-1", "text/csv; charset=latin-1")):
        texts = read_csv(text.encode(charset), given, TWO)
        assert texts == ["Hello\nnée, or\nnot", "a"]
    for body, message in (
        (b"a,b\n", "CSV that cannot be read: the body has a header but no rows"),
        (b"T-1,no signal\nT-2,x\n", "CSV with 'T-1, no signal'; expected the model's text columns"),
        (b"subject,body\na,b,c\nd,e\n", "CSV with 1 rows that cannot be read"),
        ("subject,body\né,a\n".encode("latin-1"), "CSV "),
        (b"", "CSV that cannot be read: "),
    ):
        status, given = refusal(read_csv, body, "text/csv", TWO)
        assert (status, given[: len(message)]) == (400, message)
        assert "/tmp" not in given


# === Open Inference ===


def tensor(name, data, **more):
    return {"name": name, "shape": [len(data)], "datatype": "BYTES", "data": data, **more}


def infer(columns, *inputs, **more):
    return read_request(encoded({"inputs": inputs, **more}), None, columns).texts


def test_each_text_column_is_an_input():
    subject, body = tensor("subject", ["Hello", "a"]), tensor("body", ["née", "b"])
    assert infer(TWO, body, subject, parameters={"content_type": "pd"}) == JOINED
    assert infer(ONE, tensor("message", ["a"])) == infer(ONE, tensor("text", ["a"])) == ["a"]


def test_each_input_may_be_a_binary_tensor():
    tensors, inputs = b"", []
    for name, texts in (("body", ["née", "b"]), ("subject", ["Hello", "a"])):
        data = b"".join(struct.pack("<I", len(text)) + text for text in map(str.encode, texts))
        parameters = {"binary_data_size": len(data)}
        inputs.append({"name": name, "shape": [2], "datatype": "BYTES", "parameters": parameters})
        tensors += data
    header = encoded({"inputs": inputs})
    assert read_request(header + tensors, str(len(header)), TWO).texts == JOINED
    status, message = refusal(read_request, header + tensors + b"x", str(len(header)), TWO)
    assert (status, message[:23]) == (400, "1 bytes behind the last")


def test_base64_is_decoded_where_it_is_named():
    data = [B64["b64"]]
    assert infer(PLAIN, tensor("text", data, parameters={"content_type": "base64"})) == ["née"]
    assert infer(PLAIN, tensor("text", data, parameters={"content_type": "str"})) == data
    assert infer(PLAIN, tensor("text", [B64])) == ["née"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": {"content_type": "base64"}}, "'a' in the texts; expected base64 of a text"),
        ({"parameters": {"content_type": "datetime"}}, "the content type 'datetime'; expected str"),
        ({"parameters": {"shared_memory_region": "x"}}, "the key 'shared_memory_region' in 'inp"),
        ({"name": "ticket_id"}, "inputs with 'ticket_id'; expected the model's text columns"),
        ({"colour": "red"}, "the key 'colour' in 'inputs.0'; expected one of: name"),
        ({"datatype": "FP32"}, "an input of the type 'FP32'"),
        ({"shape": [1] * 99 + [2]}, "1 texts with the shape '[1, 1"),
        ({"shape": [-1, -1]}, "1 texts with the shape '[-1, -1]'"),
        ({"shape": [0, 2**70]}, "1 texts with the shape '[0, 1180591620717411303424]'"),
        ({"data": [1]}, "'1' in the texts; expected a text"),
        ({"parameters": {"binary_data_size": 9}}, "binary_data_size 9 of 0 bytes"),
    ],
)
def test_other_inputs_are_refused(change, message):
    status, given = refusal(infer, PLAIN, {**tensor("text", ["a"]), **change})
    assert (status, given[: len(message)]) == (400, message)


@pytest.mark.parametrize("binary", [b"\x05\x00", struct.pack("<I", 9) + b"abc"])
def test_a_binary_tensor_that_ends_too_early_is_refused(binary):
    given = {"name": "text", "shape": [1], "datatype": "BYTES"}
    header = encoded({"inputs": [{**given, "parameters": {"binary_data_size": len(binary)}}]})
    status, message = refusal(read_request, header + binary, str(len(header)), PLAIN)
    assert (status, message[:14]) == (400, "a BYTES tensor")
    for length in ("99999", "9" * 5000, "-1", "", "1.0"):
        status, message = refusal(read_request, b"{}", length, PLAIN)
        assert (status, message[:33]) == (400, "Inference-Header-Content-Length: ")


# === Size ===


def test_compressed_bodies_are_read_up_to_their_limit():
    text = b"no signal" * 100
    assert decompressed(gzip.compress(text), "gzip", 1000) == text
    assert decompressed(zlib.compress(text), "deflate", 1000) == text
    bomb = gzip.compress(bytes(50 << 20))
    assert refusal(decompressed, bomb, "gzip", 1 << 20)[0] == 413
    for body in (b"plain", gzip.compress(text)[:-5], gzip.compress(text) * 2):
        assert refusal(decompressed, body, "gzip", 1000)[0] == 400
    assert refusal(decompressed, b"", "br", 1000)[0] == 415


MANY = 20_000


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (ClassifyRequest.read, {"texts": ["a"], **dict.fromkeys(map(str, range(MANY)))}),
        (ClassifyRequest.read, {"texts": [1] * MANY}),
        (lambda body: read_request(body, None, PLAIN),
         {"inputs": [tensor("text", ["a"])], "outputs": [{}] * MANY}),
        (lambda body: read_request(body, None, PLAIN), {"inputs": [1] * MANY}),
        (lambda body: read_request(body, None, PLAIN),
         {"inputs": [tensor("text", ["a"], parameters=dict.fromkeys(map(str, range(MANY))))]}),
        (lambda body: read_prediction(body, PLAIN), dict.fromkeys(map(str, range(MANY)))),
        (lambda body: read_invocation(body, TWO), {"dataframe_records": [1] * MANY}),
    ],
)  # fmt: skip
def test_a_body_is_refused_at_its_first_error(read, body):
    with pytest.raises(RequestError) as error:
        read(encoded(body))
    cause = error.value.__context__
    assert cause is None or cause.error_count() <= 2
