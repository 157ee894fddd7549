"""``kcdo serve``: a model in the browser, and for programs, over HTTP."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.errors import FileError, UsageError
from kcdo.commands.options import Debug, Json, ModelFile, Quiet
from kcdo.commands.reading import check_model
from kcdo.extras import import_extra
from kcdo.serve.limits import Limits


@app.command(
    epilog=examples(
        "kcdo serve model.kcdo",
        "kcdo serve model.kcdo --port 9000 --max-rows 10000",
        "kcdo serve model.kcdo --host 0.0.0.0 --token secret",
    )
)
def serve(
    model: ModelFile,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine's need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes one that is free.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(help="What requests must bring along; made up where it is needed."),
    ] = None,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Rows, or draws, of one request.")
    ] = Limits.rows,
    max_bytes: Annotated[int, typer.Option(min=1, help="Of the body of a request.")] = Limits.bytes,
    max_seconds: Annotated[
        float, typer.Option(min=0.01, help="That a request may take, waiting included.")
    ] = Limits.seconds,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Explore a model live in the browser, and answer programs over HTTP, until Ctrl-C.

    The page moves every input, also uncertain ones; /predict, /density and /sample answer in JSON,
    and /predict takes CSV and Arrow too. /openapi.json describes them.
    """
    with session(quiet, as_json, debug) as console:
        check_model(model)
        if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
            raise UsageError("--token must be printable ASCII, since it travels in a header.")
        local = _is_local(host)
        if token is None and not local:
            token = secrets.token_urlsafe(24)
        uvicorn = import_extra("uvicorn", extra="serve", what="Servers")
        import_extra("starlette", extra="serve", what="Servers")
        listening = _listen(host, port)
        from kcdo.commands.models import load_model
        from kcdo.serve.app import application

        limits = Limits(max_rows, max_bytes, max_seconds)
        name = Path(model).name
        served = application(load_model(model), name, token=token, limits=limits, local=local)
        config = uvicorn.Config(served, log_level="warning", timeout_graceful_shutdown=5)
        url = _url(host, listening, token)
        told = {"url": url, "token": token, "model": model}
        console.result(f"Serving {model} at {url} (Ctrl-C ends it).", told)
        typer.get_text_stream("stdout").flush()
        with suppress(KeyboardInterrupt):  # the usual end
            uvicorn.Server(config).run(sockets=[listening])
        console.note("Stopped.")


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; that it cannot is said before the model is loaded."""
    try:
        return socket.create_server((host, port), family=_family(host), backlog=256)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(
            f"cannot listen on {host} port {port}: {reason}; --port 0 takes a free one."
        ) from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _url(host: str, listening: socket.socket, token: str | None) -> str:
    everywhere = host in ("0.0.0.0", "::", "")
    shown = socket.gethostname() if everywhere else f"[{host}]" if ":" in host else host
    query = f"?token={quote(token, safe='')}" if token else ""
    return f"http://{shown}:{listening.getsockname()[1]}/{query}"
