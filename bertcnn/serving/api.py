"""The FastAPI application: its routes and error responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any, Final

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from bertcnn.errors import BertCNNError
from bertcnn.serving import conventions
from bertcnn.serving.bodies import Body, to_json
from bertcnn.serving.conventions import (
    AnswerOptions,
    InvocationBody,
    PredictionBody,
    PredictionRequest,
    is_csv,
    read_csv,
    read_invocation,
    read_prediction,
)
from bertcnn.serving.logs import log
from bertcnn.serving.metrics import CONTENT_TYPE
from bertcnn.serving.models import ServedModel
from bertcnn.serving.open_inference import (
    EXTENSIONS,
    HEADER_LENGTH,
    InferBody,
    metadata,
    read_request,
    write_response,
)
from bertcnn.serving.problems import RequestError
from bertcnn.serving.service import Service

_MLFLOW_CODES: Final = {429: "REQUEST_LIMIT_EXCEEDED", 500: "INTERNAL_ERROR"}
PAGE: Final = "/docs"
_SCRIPT, _STYLE, _ICON = "swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"
_TYPES: Final = {_SCRIPT: "text/javascript", _STYLE: "text/css", _ICON: "image/png"}
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline';"
        " script-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
    )
}  # a browser loads nothing from other hosts


class ClassifyRequest(AnswerOptions):
    """The body of `POST /classify`."""

    texts: Annotated[list[str], Field(fail_fast=True)]
    model: Annotated[str | None, Field(description="name; the first by default")] = None


class LoadParameters(Body):
    """How a model is loaded again."""

    path: Annotated[str | None, Field(description="folder; by default the one it came from")] = None
    other_labels: Annotated[bool, Field(description="allow another set of labels")] = False


class LoadRequest(Body):
    """The body of `POST /v2/repository/models/NAME/load`; it may be empty."""

    parameters: LoadParameters = LoadParameters()


def json_response(
    value: Any,  # noqa: ANN401 - any JSON value
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A JSON response."""
    return Response(to_json(value), status, dict(headers or {}), "application/json")


def body_of(schema: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """OpenAPI schema of a body that the route parses itself, twice as fast as FastAPI."""
    described = schema.model_json_schema()
    inlined = _inlined(described, described.pop("$defs", {}))
    return {
        "requestBody": {"required": required, "content": {"application/json": {"schema": inlined}}}
    }


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:  # noqa: ANN401 - part of a schema
    """Inline the definitions, none recursive: OpenAPI resolves references elsewhere."""
    if isinstance(schema, list):
        return [_inlined(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined({**definitions[name], **rest}, definitions)
    return {key: _inlined(value, definitions) for key, value in schema.items()}


def create_app(service: Service) -> FastAPI:
    """Create the application for a service."""
    app = FastAPI(
        title="bertcnn",
        description="Labels for texts, each with its confidence, a decision and the reason.",
        docs_url=None,
        redoc_url=None,
    )
    add_documentation(app)
    app.add_exception_handler(BertCNNError, _answer_error)
    app.add_exception_handler(Exception, _answer_crash)
    app.add_exception_handler(404, _answer_status)
    app.add_exception_handler(405, _answer_status)
    _add_own_routes(app, service)
    _add_open_inference(app, service)
    _add_repository(app, service)
    _add_conventions(app, service)
    return app


# === Routes ===


def _add_own_routes(app: FastAPI, service: Service) -> None:
    @app.post("/classify", openapi_extra=body_of(ClassifyRequest))
    async def classify(request: Request) -> Response:
        """Classify texts: label, confidence, decision and reason of each."""
        parsed = ClassifyRequest.read(await service.read_body(request))
        model, answers = await service.answer(
            request, parsed.texts, model=parsed.model, auto_precision=parsed.auto_precision
        )
        shown = [
            answer.as_json(because=parsed.because, probabilities=parsed.probabilities)
            for answer in answers
        ]
        return json_response({"model": model.name, "version": model.version, "answers": shown})

    @app.get("/models")
    async def models() -> Response:
        """The models: names, versions, labels."""
        return json_response({"models": [_described(model) for model in service.models.all]})

    @app.get("/metrics")
    async def metrics() -> Response:
        """The counters, for Prometheus."""
        return Response(service.batcher.metrics.page(), media_type=CONTENT_TYPE)


def _described(model: ServedModel) -> dict[str, Any]:
    predictor = model.predictor
    return {
        "name": model.name,
        "version": model.version,
        "bundle_id": model.bundle_id,
        "engine": predictor.engine.name,
        "labels": predictor.labels,
        "multi_label": predictor.multi_label,
        "auto_precision": str(predictor.decisions.auto_precision),
    }


def _add_open_inference(app: FastAPI, service: Service) -> None:
    @app.get("/v2")
    async def server() -> Response:
        """Open Inference: the server."""
        about = {"name": "bertcnn", "version": _own_version(), "extensions": EXTENSIONS}
        return json_response(about)

    @app.get("/v2/health/live")
    async def live() -> Response:
        """Open Inference: whether the server runs."""
        return json_response({"live": True})

    @app.get("/v2/health/ready")
    async def ready() -> Response:
        """Open Inference: whether requests should be sent here."""
        return json_response({"ready": service.is_ready}, 200 if service.is_ready else 503)

    @app.get("/v2/models/{name}/versions/{version}")
    @app.get("/v2/models/{name}")
    async def model(name: str, version: str | None = None) -> Response:
        """Open Inference: a model, its input and its outputs."""
        served = service.models.get(name, version)
        labels, columns = served.predictor.hierarchy.names, service.columns(served)
        return json_response(metadata(name, served.version, labels, columns))

    @app.get("/v2/models/{name}/versions/{version}/ready")
    @app.get("/v2/models/{name}/ready")
    async def model_ready(name: str, version: str | None = None) -> Response:
        """Open Inference: whether a model answers."""
        service.models.get(name, version)
        return json_response(
            {"name": name, "ready": service.is_ready}, 200 if service.is_ready else 503
        )

    described = body_of(InferBody)

    @app.post("/v2/models/{name}/versions/{version}/infer", openapi_extra=described)
    @app.post("/v2/models/{name}/infer", openapi_extra=described)
    async def infer(request: Request, name: str, version: str | None = None) -> Response:
        """Open Inference: classify texts, as JSON or as binary tensors."""
        columns = service.columns(service.models.get(name, version))
        body = await service.read_body(request)
        parsed = read_request(body, request.headers.get(HEADER_LENGTH), columns)
        served, answers = await service.answer(
            request, parsed.texts, model=name, version=version, auto_precision=parsed.auto_precision
        )
        answer, header_length = write_response(parsed, answers, name, served.version)
        if header_length is None:
            return Response(answer, media_type="application/json")
        headers = {"Inference-Header-Content-Length": str(header_length)}
        return Response(answer, headers=headers, media_type="application/octet-stream")


def _add_repository(app: FastAPI, service: Service) -> None:
    @app.post("/v2/repository/index")
    async def index() -> Response:
        """Model repository: the models and their state."""
        return json_response(
            [
                {"name": model.name, "version": model.version, "state": "READY"}
                for model in service.models.all
            ]
        )

    @app.post(
        "/v2/repository/models/{name}/load", openapi_extra=body_of(LoadRequest, required=False)
    )
    async def load(request: Request, name: str) -> Response:
        """Model repository: load a model again, or from another folder, while the old one answers.

        It is verified and computes every shape once; then it takes over at once. One that is
        refused changes nothing.
        """
        parameters = LoadRequest.read(await service.read_body(request) or b"{}").parameters
        service.check_place(parameters.path)
        model = await service.load(name, parameters.path, other_labels=parameters.other_labels)
        return json_response(_described(model))


def _add_conventions(app: FastAPI, service: Service) -> None:
    described = body_of(PredictionBody)

    @app.post("/v1/models/{name}/versions/{version}:predict", openapi_extra=described)
    @app.post("/v1/models/{name}:predict", openapi_extra=described)
    async def predict(request: Request, name: str, version: str | None = None) -> Response:
        """KServe v1, TensorFlow Serving and Vertex AI: {"instances": [...]} or {"inputs": ...}."""
        columns = service.columns(service.models.get(name, version))
        parsed = read_prediction(await service.read_body(request), columns)
        return await _answered(service, request, parsed, name, version)

    @app.get("/v1/models/{name}/versions/{version}")
    @app.get("/v1/models/{name}")
    async def status(name: str, version: str | None = None) -> Response:
        """KServe v1 and TensorFlow Serving: whether a model answers."""
        version = service.models.get(name, version).version
        state = {"version": version, "state": "AVAILABLE", "status": {"error_code": "OK"}}
        answer = {"name": name, "ready": service.is_ready, "model_version_status": [state]}
        return json_response(answer)

    @app.get("/v1/models/{name}/versions/{version}/metadata")
    @app.get("/v1/models/{name}/metadata")
    async def described_model(name: str, version: str | None = None) -> Response:
        """TensorFlow Serving: a model's inputs and outputs."""
        served = service.models.get(name, version)
        columns = service.columns(served)
        return json_response(conventions.metadata(name, served.version, columns))

    @app.post("/invocations", openapi_extra=body_of(InvocationBody))
    async def invocations(request: Request) -> Response:
        """MLflow and SageMaker: {"inputs": [...]}, a data frame with columns of texts, or CSV."""
        columns = service.columns(service.models.get())
        kind = request.headers.get("content-type", "")
        body = await service.read_body(request)
        if is_csv(kind):
            parsed = PredictionRequest(await asyncio.to_thread(read_csv, body, kind, columns))
        else:
            parsed = read_invocation(body, columns)
        return await _answered(service, request, parsed)

    @app.get("/ping")
    async def ping() -> Response:
        """MLflow and SageMaker: whether requests should be sent here."""
        return json_response({"ready": service.is_ready}, 200 if service.is_ready else 503)


async def _answered(
    service: Service,
    request: Request,
    parsed: PredictionRequest,
    model: str | None = None,
    version: str | None = None,
) -> Response:
    precision = parsed.options.auto_precision
    _, answers = await service.answer(
        request, parsed.texts, model=model, version=version, auto_precision=precision
    )
    return json_response(parsed.answers(answers))


# === Errors ===


async def _answer_error(request: Request, error: Exception) -> Response:
    status, headers = 400, {}
    if isinstance(error, RequestError):
        status, headers = error.status, error.headers
    body = {"error": str(error)}
    if request.url.path == "/invocations":  # MLflow's error format
        body = {"error_code": _MLFLOW_CODES.get(status, "BAD_REQUEST"), "message": str(error)}
    return json_response(body, status, headers)


async def _answer_status(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    message = "no such route; GET /docs shows all" if status == 404 else "not by this method"
    return json_response({"error": f"{request.method} {request.url.path}: {message}"}, status)


async def _answer_crash(_: Request, error: Exception) -> Response:
    log("defect", logging.ERROR, error=type(error).__name__)
    return json_response({"error": "the server has a defect; its log says more"}, 500)


def _own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("bertcnn")
    except PackageNotFoundError:  # a source tree that was not installed
        return "unknown"


def add_documentation(app: FastAPI) -> None:
    """Add the page and its files to an application."""

    @app.get(PAGE, include_in_schema=False)
    async def page() -> Response:
        made = get_swagger_ui_html(
            openapi_url=str(app.openapi_url),
            title=app.title,
            swagger_js_url=f"{PAGE}/{_SCRIPT}",
            swagger_css_url=f"{PAGE}/{_STYLE}",
            swagger_favicon_url=f"{PAGE}/{_ICON}",
        )
        made.headers.update(_HEADERS)
        return made

    for name, media_type in _TYPES.items():
        _add_file(app, name, media_type)


def _add_file(app: FastAPI, name: str, media_type: str) -> None:
    @app.get(f"{PAGE}/{name}", include_in_schema=False)
    async def file() -> Response:
        headers = {"Cache-Control": "max-age=3600"}
        return Response(_content(name), media_type=media_type, headers=headers)


@cache
def _content(name: str) -> bytes:
    """A file of the package; cached, so that slow clients share one copy."""
    import fastapi_offline

    return resources.files(fastapi_offline).joinpath("static", name).read_bytes()
