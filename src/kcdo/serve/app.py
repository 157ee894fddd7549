"""The ASGI application: routes, the token, limits, and errors as JSON."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Awaitable, Callable
from functools import cache, partial
from importlib.resources import files
from threading import Lock
from typing import Any

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from kcdo._version import __version__
from kcdo.arrays import Array
from kcdo.commands.answers import Answers
from kcdo.commands.console import json_line, listed
from kcdo.commands.models import Model
from kcdo.commands.naming import names
from kcdo.errors import KcdoError
from kcdo.serve.asking import (
    STATS,
    answers_of,
    as_object,
    asked_answers,
    density,
    query_of,
    rows_of,
    sample,
)
from kcdo.serve.description import model_facts, openapi
from kcdo.serve.limits import Deadline, Limits, RequestError
from kcdo.serve.tables import PART, TABLES, answered

__all__ = ["application"]

_JSON = "application/json"
_THREADS = 40  # requests that may wait for their turn to compute
_LOCAL = {"127.0.0.1", "localhost", "[::1]", "testserver"}
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_OPTION = re.compile(r"--(?=[a-z])")  # messages name options of commands: here they are fields


def application(
    model: Model,
    name: str,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    local: bool = False,
) -> Starlette:
    """Return the application of a model.

    Parameters
    ----------
    model : Model
    name : str
        What the page calls it.
    token : str or None
        What requests must bring along.
    limits : Limits, optional
        What one request may ask for.
    local : bool
        Whether only requests to this machine's own names are answered, so that no web page of
        others reaches the server by a name that it lets point here.
    """
    _wake(model)
    server = _Server(model, name, token, limits or Limits(), local)
    routes = [
        Route("/", server.open(server.page), methods=["GET"]),
        Route("/health", server.open(server.health), methods=["GET"]),
        Route("/model", server.guarded(server.facts), methods=["GET"]),
        Route("/openapi.json", server.guarded(server.described), methods=["GET"]),
        Route("/predict", server.guarded(server.predict), methods=["POST"]),
        Route("/density", server.guarded(server.density), methods=["POST"]),
        Route("/sample", server.guarded(server.sample), methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _plain_error})


def _wake(model: Model) -> None:
    """Ask once: what a loaded model solves for when first asked counts for no request's time."""
    usual = {known["name"]: known["usual"] for known in model_facts(model, "")["inputs"]}
    query_of({"at": usual}, model).distribution(model).mean()


Endpoint = Callable[[Request], Awaitable[Response]]


class _Server:
    """Answers requests about one model.

    Requests wait in threads and compute one at a time, in parts of some rows: the library uses all
    cores by itself, and a long request lets short ones through.
    """

    def __init__(
        self, model: Model, name: str, token: str | None, limits: Limits, local: bool
    ) -> None:
        self._model, self._name = model, name
        self._token, self._limits, self._local = token, limits, local
        self._turn = Lock()
        self._threads: anyio.CapacityLimiter | None = None

    def open(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint whose errors are JSON."""

        async def answer(request: Request) -> Response:
            try:
                self._check_host(request)
                return await endpoint(request)
            except RequestError as error:
                return _error(error.status, str(error))
            except KcdoError as error:
                return _error(400, str(error))
            except ClientDisconnect:
                return Response(status_code=499)  # nobody reads it
            except MemoryError:
                return _error(413, "there is not enough memory for this.")

        return answer

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint that needs the token too."""

        async def answer(request: Request) -> Response:
            self._check_token(request)
            return await endpoint(request)

        return self.open(answer)

    async def page(self, request: Request) -> Response:
        return HTMLResponse(_page(), headers=_SAFE)

    async def health(self, request: Request) -> Response:
        return _json({"status": "ok", "kcdo": __version__})

    async def facts(self, request: Request) -> Response:
        return _json(model_facts(self._model, self._name))

    async def described(self, request: Request) -> Response:
        told = openapi(self._model, self._name, self._limits, token=self._token is not None)
        return _json(told)

    async def predict(self, request: Request) -> Response:
        deadline = Deadline(self._limits.seconds)
        kind = _kind(request)
        if kind in TABLES:
            body = await self._body(request)
            stats = names(request.query_params.get("stats")) or STATS
            levels = names(request.query_params.get("conformal"))
            answers = asked_answers(self._model, stats, levels)

            def table() -> bytes:
                work = self._parted(answers, deadline)
                return answered(body, kind, answers, work, self._limits)

            return Response(await self._threaded(table, deadline), media_type=kind)
        asked = await self._object(request, (_JSON, *TABLES), ("rows", "stats", "conformal"))
        return _json(await self._threaded(lambda: self._predicted(asked, deadline), deadline))

    async def density(self, request: Request) -> Response:
        known = ("at", "target", "grid")
        return await self._asked(request, known, lambda body: density(body, self._model))

    async def sample(self, request: Request) -> Response:
        known = ("at", "n", "seed")
        work = partial(sample, model=self._model, limits=self._limits)
        return await self._asked(request, known, work)

    async def _asked(
        self,
        request: Request,
        known: tuple[str, ...],
        answer: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> Response:
        deadline = Deadline(self._limits.seconds)
        body = await self._object(request, (_JSON,), known)

        def work() -> str:
            with self._turn:
                deadline.check()
                return json_line(answer(body))

        return _json_text(await self._threaded(work, deadline))

    def _predicted(self, body: dict[str, Any], deadline: Deadline) -> dict[str, Array]:
        chunk = rows_of(body, self._model, self._limits)
        answers = answers_of(body, self._model)
        added = answers.check(list(chunk.data), "the request")
        work = self._parted(answers, deadline)
        found = [
            work(type(chunk)(chunk.data.iloc[start : start + PART], chunk.place))
            for start in range(0, len(chunk.data), PART)
        ]
        return {name: [value for part in found for value in part[name]] for name in added}  # type: ignore[misc]

    def _parted(self, answers: Answers, deadline: Deadline) -> Callable[[Any], dict[str, Array]]:
        def work(chunk: Any) -> dict[str, Array]:
            with self._turn:
                deadline.check()
                return answers.of(chunk)

        return work

    async def _threaded(self, work: Callable[[], Any], deadline: Deadline) -> Any:
        """Return what work in a thread returns, if that is there in time."""
        if self._threads is None:  # inside the loop that it belongs to
            self._threads = anyio.CapacityLimiter(_THREADS)
        try:
            with anyio.fail_after(max(deadline.left, 0.0)):
                return await anyio.to_thread.run_sync(
                    work, limiter=self._threads, abandon_on_cancel=True
                )
        except TimeoutError:
            deadline.check()
            raise

    async def _object(
        self, request: Request, kinds: tuple[str, ...], known: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return the body as JSON; raise if it is none, or has parts that nobody would read."""
        if _kind(request) not in (_JSON, ""):
            raise RequestError(
                415,
                f"the header Content-Type calls the body {_kind(request)}: send it as "
                f"{' or '.join(kinds)}.",
            )
        body = await self._body(request)
        try:
            found = as_object(json.loads(body, parse_constant=_no_number))
        except RecursionError:
            raise RequestError(400, "the JSON is nested too deeply.") from None
        except ValueError as error:  # also of text that is no UTF-8, and of huge numbers
            raise RequestError(400, f"the body is not valid JSON: {error}.") from None
        odd = next((name for name in found if name not in known), None)
        if odd is not None:
            raise RequestError(400, f'"{odd:.60}" is not asked here; there is {listed(known)}.')
        return found

    async def _body(self, request: Request) -> bytes:
        """Return the body, read no further than is allowed."""
        told = request.headers.get("content-length", "")
        self._limits.check_bytes(int(told) if told.isdecimal() else 0)
        parts, n = [], 0
        async for part in request.stream():
            n += len(part)
            self._limits.check_bytes(n)
            parts.append(part)
        return b"".join(parts)

    def _check_host(self, request: Request) -> None:
        host = re.sub(r":\d+$", "", request.headers.get("host", ""))
        if self._local and host not in _LOCAL:
            raise RequestError(403, "this server answers requests to 127.0.0.1 only.")

    def _check_token(self, request: Request) -> None:
        if self._token is None:
            return
        bearer = request.headers.get("authorization", "").partition("Bearer ")[2]
        given = (bearer or request.query_params.get("token", "")).encode()
        if not hmac.compare_digest(given, self._token.encode()):
            raise RequestError(401, "the token is missing or wrong: kcdo serve printed it.")


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _json(data: Any) -> Response:
    return _json_text(json_line(data))


def _json_text(text: str) -> Response:
    return Response(text, media_type=_JSON, headers=_SAFE)


def _error(status: int, message: str) -> Response:
    text = json_line({"error": _OPTION.sub("", message)})
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return Response(text, status, media_type=_JSON, headers=_SAFE | headers)


async def _plain_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    known = "/, /predict, /density, /sample, /model, /health, /openapi.json"
    said = {404: f"there is nothing here; there is {known}.", 405: "use another method."}
    return _error(status, said.get(status, str(error)))


@cache
def _page() -> str:
    folder = files("kcdo.serve").joinpath("assets")
    html, css, script = (
        folder.joinpath(f"explore.{ending}").read_text(encoding="utf-8")
        for ending in ("html", "css", "js")
    )
    return html.replace("/* style */", css).replace("/* script */", script)
