"""Writes App Store notifications for sealed.lua, each about a new purchase and signed as Apple signs (ES256, RFC 7515).
usage: sealed_bodies.py POSTHOUSE DIRECTORY FILES COUNT

`posthouse send` makes the certificates and the sample that the others are like. DIRECTORY gets FILES files, `0` and on,
of COUNT bodies, each behind its length in ten digits. Prints the root's fingerprint, for `roots`."""

import base64
import hashlib
import json
import pathlib
import ssl
import subprocess
import sys
import uuid

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def opened(text: str) -> tuple[str, dict]:
    """The header as it stands, and what is signed."""
    header, payload, _ = text.split(".")
    return header, json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def main() -> None:
    posthouse, directory, files, count = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    chain = directory / "chain"
    sample = subprocess.run(
        [posthouse, "send", "--url", "http://127.0.0.1/ingest/apple", "--kind", "apple", "--chain", str(chain),
         "--event", "SUBSCRIBED/INITIAL_BUY", "--user", str(uuid.uuid4()), "--print"],
        check=True, capture_output=True, text=True).stdout
    key = serialization.load_pem_private_key((chain / "leaf.key").read_bytes(), password=None)

    def sealed(header: str, payload: dict) -> str:
        text = header + "." + base64url(json.dumps(payload, separators=(",", ":")).encode())
        r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return text + "." + base64url(r.to_bytes(32, "big") + s.to_bytes(32, "big"))

    header, notification = opened(json.loads(sample)["signedPayload"])
    data = notification["data"]
    _, transaction = opened(data["signedTransactionInfo"])
    _, renewal = opened(data["signedRenewalInfo"])
    for file in range(files):
        run = uuid.uuid4().hex[:12]
        with open(directory / str(file), "wb") as out:
            for number in range(count):
                name = f"{run}{number:09d}"
                own = {"transactionId": name, "originalTransactionId": name}
                data["signedTransactionInfo"] = sealed(header, transaction | own)
                data["signedRenewalInfo"] = sealed(header, renewal | {"originalTransactionId": name})
                body = {"signedPayload": sealed(header, notification | {"notificationUUID": str(uuid.uuid4())})}
                written = json.dumps(body, separators=(",", ":")).encode()
                out.write(b"%010d" % len(written) + written)
    root = ssl.PEM_cert_to_DER_cert((chain / "root.pem").read_text())
    print(f"sha256:{hashlib.sha256(root).hexdigest()}")


main()
