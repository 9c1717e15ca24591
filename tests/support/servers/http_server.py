"""An HTTP server of a test, on the loopback."""

import contextlib
import ssl
from collections.abc import AsyncIterator

from aiohttp import web

ANY_PATH = "/{path:.*}"


@contextlib.asynccontextmanager
async def serving(
    *routes: web.RouteDef, context: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serve some routes while the block runs; yield the server's URL.

    Args:
        routes: Made by `web.get`, `web.post` and the like.
        context: Of a server that speaks TLS.
    """
    application = web.Application()
    application.add_routes(routes)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        scheme = "http" if context is None else "https"
        yield f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
