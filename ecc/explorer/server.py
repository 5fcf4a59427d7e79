"""The local server of `ecc explore`: Starlette and Uvicorn, on the loopback address, behind a token.

Starlette and Uvicorn are small, in pure Python and maintained. Dash and Panel have many dependencies and components of
their own; this page needs one request and Plotly's script, which comes from the installed package.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ecc.errors import EccError, install_command
from ecc.explorer.panels import WORK
from ecc.explorer.saved import asset, plotly_script
from ecc.explorer.session import MAX_REQUEST, Session
from ecc.explorer.view import View

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["application", "listening_socket", "serve"]

ADDRESS = "127.0.0.1"
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def _starlette() -> Any:
    try:
        import starlette.applications
        import uvicorn
    except ImportError:
        raise EccError(f"ecc explore needs starlette and uvicorn: {install_command('explore')}") from None
    return starlette, uvicorn


def application(session: Session, token: str, port: int) -> Starlette:
    """Return the ASGI application: the page and its files below /TOKEN/, and `ask` for requests.

    Requests with another token, from other hosts' names, or from pages of another origin are refused with 403.

    Parameters
    ----------
    session : Session
    token : str
        Random text in the address.
    port : int
        Port of the address, which Host and Origin headers must name.
    """
    _starlette()
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    hosts = {f"{ADDRESS}:{port}", f"localhost:{port}"}
    texts = {"": ("html", asset("page.html")), "plotly.js": ("js", plotly_script())}
    texts |= {name: (name.rpartition(".")[2], asset(name)) for name in ("explore.js", "page.js", "explore.css")}
    pools = {kind: ThreadPoolExecutor(1, f"explore-{kind}") for kind in dict.fromkeys(WORK.values())}

    def allowed(request: Request) -> bool:
        headers = request.headers
        origins = headers.getlist("origin")
        same = headers.getlist("host") and set(headers.getlist("host")) <= hosts
        mine = secrets.compare_digest(request.path_params["token"].encode(), token.encode())
        return bool(same) and mine and all(origin in {f"http://{host}" for host in hosts} for origin in origins)

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if not allowed(request):
            return refused(request)
        if name not in texts:
            return PlainTextResponse("there is no such file", 404, _HEADERS)
        kind, text = texts[name]
        return Response(text, headers=_HEADERS, media_type=_TYPES[kind])

    async def ask(request: Request) -> Response:
        if not allowed(request):
            return refused(request)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_REQUEST:
                break
        kind = _announced(session, body)
        session.due[kind] += 1
        try:
            answer = await asyncio.get_running_loop().run_in_executor(pools[kind], session.answer_text, body)
        finally:
            session.due[kind] -= 1
        return Response(json.dumps(answer, allow_nan=False), headers=_HEADERS, media_type="application/json")

    def refused(request: Request) -> Response:
        return PlainTextResponse("refused: open the address that ecc explore has printed", 403, _HEADERS)

    async def elsewhere(request: Request, error: Exception) -> Response:
        return refused(request)

    routes = [
        Route("/{token}/ask", ask, methods=["POST"]),
        Route("/{token}/{name:path}", file, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={404: elsewhere, 405: elsewhere})


def _announced(session: Session, body: bytes) -> str:
    """Tell the session of a request before its work begins, and return the kind of its work."""
    try:
        request = json.loads(body[: MAX_REQUEST + 1])
    except (ValueError, RecursionError):
        return "model"
    session.announce(request)
    name = request.get("panel") if isinstance(request, dict) else None
    if isinstance(request, dict) and request.get("ask") == "page":
        return "search"
    return WORK.get(name, "model") if isinstance(name, str) else "model"


def listening_socket(port: int) -> socket.socket:
    """Return a socket that listens on the loopback address.

    Parameters
    ----------
    port : int
        Port; 0: any free one.
    """
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((ADDRESS, port))
    except OSError as error:
        bound.close()
        raise ValueError(f"port must be free on {ADDRESS}, got {port}: {error.strerror}") from None
    return bound


def serve(view: View, port: int = 0, browser: bool = True, ready: Callable[[str], object] | None = None) -> None:
    """Serve the page of a view until it is interrupted.

    Parameters
    ----------
    view : View
        View that is shown first.
    port : int, optional
        Port; 0: any free one.
    browser : bool, optional
        Whether to open the page in the browser.
    ready : callable, optional
        Called with the address before the server starts.
    """
    _, uvicorn = _starlette()
    bound = listening_socket(port)
    token, session = secrets.token_urlsafe(24), Session(view)
    number = int(bound.getsockname()[1])
    address = f"http://{ADDRESS}:{number}/{token}/"
    config = uvicorn.Config(
        application(session, token, number), log_level="warning", access_log=False, timeout_graceful_shutdown=1
    )
    if ready is not None:
        ready(address)
    if browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    try:
        uvicorn.Server(config).run(sockets=[bound])
    finally:
        session.close()
        bound.close()
