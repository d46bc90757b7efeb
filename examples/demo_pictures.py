"""The README's pictures of `anchored demo`, taken in Chromium.

Needs `anchored[demo]`, playwright and Chromium. Run: python examples/demo_pictures.py docs/images
"""

import io
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from PIL import Image
from playwright.sync_api import sync_playwright

SIZE = {"width": 1200, "height": 750}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
SCENES = {  # the fragment of a link, and the steps to train
    "demo_regression": ("#tab=regression", 6_000),
    "demo_classification": ("#tab=classification", 1_000),
}


def main(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["demo", "--no-browser", "--port", str(port)]
    command = [sys.executable, "-c", "from anchored.cli import app; app()", *words]
    with subprocess.Popen(command) as server, sync_playwright() as driver:
        try:
            url = f"http://127.0.0.1:{port}/"
            wait(lambda: answers(url))
            chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            for name, (fragment, steps) in SCENES.items():
                content = photograph(chromium, url + fragment, steps)
                small(content).save(folder / f"{name}.png", optimize=True)
            chromium.close()
        finally:
            server.terminate()


def photograph(chromium, url: str, steps: int) -> bytes:
    """The page after ``steps`` steps of training, as a PNG."""
    page = chromium.new_page(viewport=SIZE, color_scheme="light")
    page.goto(url)
    wait(lambda: page.evaluate("window.anchoredDemo?.frame"))
    run = page.locator("button.main:visible")
    run.click()
    wait(lambda: page.evaluate("anchoredDemo.frame.step") >= steps)
    run.click()
    wait(lambda: not page.evaluate("anchoredDemo.frame.running"))
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    time.sleep(0.3)
    content = page.screenshot()
    page.close()
    return content


def small(content: bytes) -> Image.Image:
    """The picture with fewer colours, in a smaller file; nobody sees the difference."""
    image = Image.open(io.BytesIO(content)).convert("RGB")
    return image.point(lambda value: min(255, (value + 2) // 4 * 4))


def answers(url: str) -> bool:
    try:
        build_opener(ProxyHandler({})).open(url, timeout=5).close()
    except OSError:
        return False
    return True


def wait(condition, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the demo did not get there in time")
        time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
