"""`bertcnn serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from bertcnn.cli.console import show
from bertcnn.cli.options import argument, grouped, option


@dataclass(frozen=True, kw_only=True)
class ServeFlags:
    """Fields of `ServeOptions`."""

    token_file: Annotated[
        Path | None,
        option("File with the token that requests need.", default="BERTCNN_SERVE_TOKEN"),
    ] = None
    cores: Annotated[
        int | None, option("Cores to use.", default="all, or the container's quota", min=1)
    ] = None
    drain: Annotated[
        float, option("Seconds after SIGTERM in which requests are still accepted.", min=0)
    ] = 5.0
    log_requests: Annotated[
        bool, option("Log each request, without its texts.", "--log-requests")
    ] = False


@grouped
def serve(
    models: Annotated[
        list[str],
        argument("Folders or URLs of trained models, each also as NAME=MODEL.", metavar="MODEL"),
    ],
    host: Annotated[str, option("Address to listen at; any other needs a token.")] = "127.0.0.1",
    port: Annotated[
        int, option("Port; 0 for any free one, which is shown.", min=0, max=65535)
    ] = 8000,
    models_folder: Annotated[
        Path | None,
        option(
            "Folder below which requests may have other models loaded.",
            "--models",
            default="those that hold MODEL",
        ),
    ] = None,
    queue: Annotated[int, option("Texts that may wait; more are refused with 429.", min=1)] = 2048,
    most_texts: Annotated[int, option("Texts per request, at most.", min=1)] = 1024,
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
