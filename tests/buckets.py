"""A real S3 server on the loopback, for the tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

ENVIRONMENT = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "testtest",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True)
class Bucket:
    process: subprocess.Popen[bytes]
    port: int

    def address(self, path: str) -> str:
        where = f"scheme=http&endpoint_override=127.0.0.1:{self.port}&region=us-east-1"
        return f"s3://lab/{path}?{where}"


@contextmanager
def serving(folder: Path) -> Iterator[Bucket]:
    """A server with the bucket `lab`; its state is in memory. ENVIRONMENT must be set."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **ENVIRONMENT}
        )
        try:
            deadline = time.monotonic() + 60
            while not _answers(port):
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.1)
            fs.S3FileSystem(
                endpoint_override=f"127.0.0.1:{port}",
                scheme="http",
                region="us-east-1",
                allow_bucket_creation=True,
            ).create_dir("lab")
            yield Bucket(process, port)
        finally:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
