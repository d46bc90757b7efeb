"""The interactive demo: a small web server and its page (``anchored demo``).

Needs the extra ``demo``: ``pip install 'anchored[demo]'``.
"""

import threading
import webbrowser
from collections.abc import Callable

PORT = 8765


def run(
    host: str = "127.0.0.1",
    port: int = PORT,
    *,
    open_browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the demo until Ctrl-C; port 0 picks a free port, and ``say`` receives messages."""
    from anchored.demo.server import serve

    address = ""

    def on_listen(url: str) -> None:
        nonlocal address
        address = url
        say(f"The demo is at {url} (Ctrl-C stops it). Compiling the first networks ...")

    def on_warm(seconds: float) -> None:
        say(f"Ready after {seconds:.1f} s.")
        if open_browser:
            # Apart, because a browser of the console would stop the server.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    serve(host, port, on_listen=on_listen, on_warm=on_warm)
    say("The demo has stopped.")
