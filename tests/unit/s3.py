"""An S3 server of moto in a process of its own, which counts what it is asked.

In this process it could not answer: deltalake's file system waits for S3 with the interpreter held.
"""

from __future__ import annotations

import json
import multiprocessing
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ACCESS_KEY, SECRET_KEY = "PLANTEDACCESSKEY", "planted/secret+key"
BUCKET = "lake"
_COUNTED, _FILLED = "/counted", "/filled"


class S3:
    """A server with one bucket."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.options = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def client(self) -> Any:
        """A client of boto3."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
        )

    def upload(self, folder: Path, prefix: str) -> None:
        """Put a folder's files into the bucket, past S3's interface: it takes 10 ms a file."""
        files = {
            f"{prefix}/{file.relative_to(folder)}": b64encode(file.read_bytes()).decode()
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
        urlopen(self.endpoint + _FILLED, data=json.dumps(files).encode()).close()

    def requests(self) -> list[str]:
        """Method, path and query of each request since the last call."""
        with urlopen(self.endpoint + _COUNTED) as answer:
            found: list[str] = json.load(answer)
        return found


@contextmanager
def s3_server() -> Iterator[S3]:
    """A server on a free port of this machine."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        server = S3(f"http://127.0.0.1:{ours.recv()}")
        server.client().create_bucket(Bucket=BUCKET)
        yield server
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Any) -> None:
    import logging

    from moto.backends import get_backend
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    store = get_backend("s3")[DEFAULT_ACCOUNT_ID]["aws"]
    answer = DomainDispatcherApplication(create_backend_app)
    seen: list[str] = []

    def counting(environ: Any, start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        if path == _COUNTED:
            text = json.dumps(seen).encode()
            seen.clear()
            start_response("200 OK", [("Content-Length", str(len(text)))])
            return [text]
        if path == _FILLED:
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            for key, content in json.loads(body).items():
                store.put_object(BUCKET, key, b64decode(content))
            start_response("200 OK", [("Content-Length", "0")])
            return []
        seen.append(f"{environ['REQUEST_METHOD']} {path}?{environ.get('QUERY_STRING', '')}")
        return answer(environ, start_response)

    server = make_server("127.0.0.1", 0, counting, threaded=True)
    pipe.send(server.server_port)
    server.serve_forever()
