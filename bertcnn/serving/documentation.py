"""The API documentation page: Swagger UI from an installed package, not from a CDN."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import Response

PAGE: Final = "/docs"
_SCRIPT, _STYLE, _ICON = "swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"
_TYPES: Final = {_SCRIPT: "text/javascript", _STYLE: "text/css", _ICON: "image/png"}
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline';"
        " script-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
    )
}  # a browser loads nothing from other hosts


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
