"""`bertcnn serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import show
from bertcnn.cli.options import grouped


@dataclass(frozen=True, kw_only=True)
class ServeFlags:
    """Fields of `ServeOptions`."""

    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that requests need.", show_default="BERTCNN_SERVE_TOKEN"
        ),
    ] = None
    cores: Annotated[
        int | None,
        typer.Option(min=1, help="Cores to use.", show_default="all, or the container's quota"),
    ] = None
    drain: Annotated[
        float,
        typer.Option(min=0, help="Seconds after SIGTERM in which requests are still accepted."),
    ] = 5.0
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Log each request, without its texts.")
    ] = False


@grouped
def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Folders or URLs of trained models, each also as NAME=MODEL.",
            show_default=False,
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen at; others than this need a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 for any free one, which is shown.")
    ] = 8000,
    models_folder: Annotated[
        Path | None,
        typer.Option(
            "--models",
            help="Folder below which requests may have other models loaded.",
            show_default="those that hold MODEL",
        ),
    ] = None,
    queue: Annotated[
        int, typer.Option(min=1, help="Texts that may wait; more are refused with 429.")
    ] = 2048,
    most_texts: Annotated[int, typer.Option(min=1, help="Most texts of a request.")] = 1024,
    *,
    flags: ServeFlags,
) -> None:
    """Answer over HTTP: POST /classify, and what other model servers offer.

    GET /docs shows all routes, GET /metrics the counters.
    SIGHUP loads the models again; SIGTERM stops after --drain seconds.
    """
    from bertcnn.serving import (
        Limits,
        ServeOptions,
        Supervisor,
        address_of,
        bound_socket,
        check_access,
        check_platform,
        folders_of,
        named_models,
    )

    check_platform()
    check_access(host, flags.token_file)
    named = named_models(models)
    with bound_socket(host, port) as listener:
        address = address_of(listener)
        options = ServeOptions(
            models=named,
            folders=folders_of(named.values())
            if models_folder is None
            else (models_folder.resolve(),),
            address=address,
            **vars(flags),
            limits=Limits(texts=most_texts, waiting_texts=max(queue, most_texts)),
        )
        names = ", ".join(named)
        Supervisor(options, listener, lambda: show(f"{names} at {address}")).run()
