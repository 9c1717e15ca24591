"""A registry that tells an image to who has its password: its manifest and its configuration.

It runs in a pod on the network of the node whose containerd asks it, which has the layers already:
`python3 registry_server.py PORT FOLDER`, where FOLDER holds `manifest`, `config` and `password`.
"""

import base64
import hashlib
import http.server
import sys
from pathlib import Path
from typing import Final

USER: Final = "hudi"
MANIFEST_TYPE: Final = "application/vnd.docker.distribution.manifest.v2+json"


def main(port: str, folder: str) -> None:
    """Answer until killed."""
    files = {name: Path(folder, name).read_bytes() for name in ("manifest", "config", "password")}
    told = base64.b64encode(f"{USER}:".encode() + files["password"].strip()).decode()

    class Handler(http.server.BaseHTTPRequestHandler):
        """Knows one image, whatever its name is."""

        def do_GET(self) -> None:
            """Tell an image's manifest, or its configuration."""
            if self.headers.get("Authorization") != f"Basic {told}":
                self._answer(401, b"", {"WWW-Authenticate": 'Basic realm="images"'})
            elif "/manifests/" in self.path:
                self._answer(200, files["manifest"], {"Content-Type": MANIFEST_TYPE})
            elif "/blobs/" in self.path and self.path.endswith(_digest(files["config"])):
                self._answer(200, files["config"], {})
            else:
                self._answer(200 if self.path == "/v2/" else 404, b"", {})

        do_HEAD = do_GET  # noqa: N815 - the base class calls it

        def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.send_header("Docker-Content-Digest", _digest(content))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


if __name__ == "__main__":
    main(*sys.argv[1:])
