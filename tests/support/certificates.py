"""A self-signed certificate for 127.0.0.1, made by openssl; who trusts it is the caller's choice."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM files; `chain` holds the key and the certificate together, as Kafka's PEM key stores want them."""

    key: Path
    certificate: Path
    chain: Path


def make_certificate(directory: Path) -> Certificate:
    directory.mkdir(parents=True, exist_ok=True)
    key, certificate, chain = (directory / name for name in ("key.pem", "certificate.pem", "chain.pem"))
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*command, *names, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True, timeout=60
    )
    chain.write_text(key.read_text() + certificate.read_text())
    return Certificate(key, certificate, chain)
