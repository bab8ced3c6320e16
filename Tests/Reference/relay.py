"""A real daemon on a real PostgreSQL, a receiver that keeps what it gets, and what of it can be seen from outside."""

import http.client
import http.server
import json
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Harness"))

from cluster import Cluster  # noqa: E402
from ports import free_port  # noqa: E402
from processes import BenchError, Process, Scratch, run, wait_until  # noqa: E402
from webhooks import RC_ANONYMOUS, SOURCES, TOKEN, WHSEC  # noqa: E402

DATABASE = "posthouse"


class Receiver(http.server.ThreadingHTTPServer):
    """Accepts everything; notes how often each message came."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.got: dict[str, dict] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got[self.headers["webhook-id"]] = json.loads(body)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Relay:
    def __init__(self, scratch: Scratch, binary: pathlib.Path):
        self.cluster, self.binary = Cluster(scratch), binary
        self.file = scratch.path / "reference.toml"
        self.receiver = Receiver()
        self.port = free_port()
        token, signing = scratch.path / "token", scratch.path / "signing"
        token.write_text(TOKEN + "\n")
        signing.write_text(WHSEC + "\n")
        tables = [f'[server]\nlisten = "127.0.0.1:{self.port}"\n'
                  f'[database]\nurl = "{self.cluster.url(self.cluster.fresh_database(DATABASE))}"']
        for name, (kind, more) in SOURCES.items():
            secret = signing if kind == "sessions" else token
            tables.append(f'[[source]]\nname = "{name}"\nkind = "{kind}"\nsecret = {{ file = "{secret}" }}\n{more}')
        tables.append(f'[[integration]]\nname = "all"\nurl = "{self.receiver.url}"\nevents = ["*"]\n'
                      f'allow_private = true\nsecret = {{ file = "{signing}" }}')
        tables.append(f'[[api_token]]\nname = "all"\ntoken = {{ file = "{token}" }}\nscopes = ["read", "write"]')
        self.file.write_text("\n".join(tables) + "\n")
        state = scratch.path / "posthouse.state"
        state.mkdir()
        self.process = Process(scratch, "posthouse", [str(binary), "serve", "--config", str(self.file)],
                               environment={"SWIFT_BACKTRACE": "enable=no", "STATE_DIRECTORY": str(state)})
        self.connection: http.client.HTTPConnection | None = None
        wait_until("the daemon's start", self.is_ready, 180)
        self.psql = self.cluster.session(DATABASE)

    def is_ready(self) -> bool:
        if not self.process.is_running():
            raise BenchError(f"posthouse serve ended at its start:\n{self.process.last_words()}")
        try:
            return self.ask("GET", "/readyz", {}, b"")[0] == 200
        except OSError:
            return False

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            self.connection.request(method, path, body or None, headers)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise

    def ask_again(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """What is answered 503 because its 8 s are over comes again, as from any source: the machine may have stood
        still."""
        for _ in range(3):
            began = time.monotonic()
            status, answer = self.ask(method, path, headers, body)
            if status != 503 or time.monotonic() - began < 7:
                break
        return status, answer

    def read(self, path: str) -> dict:
        status, body = self.ask_again("GET", path, {"Authorization": f"Bearer {TOKEN}"}, b"")
        if status != 200:
            raise BenchError(f"{path} was answered {status}: {body[:200]!r}")
        return json.loads(body)

    def erase(self, user: str) -> None:
        run([str(self.binary), "erase", "--config", str(self.file), "--user", user], 300)

    # MARK: What the ledger says of one history

    def rows(self, sql: str) -> list[list]:
        return json.loads(self.psql.ask(f"SELECT coalesce(json_agg(r), '[]') FROM ({sql}) r") or "[]")

    def time_of_call(self, tag: str) -> int:
        """When the ledger says that the newest call of a history happened."""
        return int(self.psql.number(
            f"SELECT occurred_at_ms FROM events WHERE holder LIKE '%-{tag}' ORDER BY id DESC LIMIT 1"))

    def access(self, tag: str) -> set[tuple[str, str]]:
        rows = self.rows(f"""SELECT source || '/' || environment || '/' || key AS purchase, holder
            FROM entitlements JOIN purchases ON id = purchase WHERE active AND key LIKE '%-{tag}'""")
        return {(plain(row["purchase"], tag), plain(row["holder"], tag)) for row in rows}

    def transfers(self, tag: str) -> dict[tuple[str, str, str], list[int]]:
        rows = self.rows(f"""SELECT source || '/' || environment || '/' || key AS purchase, from_holder, to_holder,
            array_agg(ordinal ORDER BY ordinal) AS ordinals FROM transfers t JOIN purchases p ON p.id = t.purchase
            WHERE key LIKE '%-{tag}' GROUP BY 1, 2, 3""")
        return {(plain(row["purchase"], tag), plain(row["from_holder"], tag), plain(row["to_holder"], tag)):
                row["ordinals"] for row in rows}

    def links(self, tag: str) -> dict[tuple[str, str], str]:
        rows = self.rows(f"""SELECT source || '/' || environment AS scope, anonymous_user_id, user_id
            FROM holder_links WHERE user_id IS NOT NULL AND anonymous_user_id LIKE '%-{tag}'""")
        return {(row["scope"], plain(row["anonymous_user_id"], tag)): plain(row["user_id"], tag) for row in rows}

    def products(self, tag: str) -> dict[str, str]:
        rows = self.rows(f"""SELECT source || '/' || environment || '/' || key AS purchase, product
            FROM purchases WHERE product IS NOT NULL AND key LIKE '%-{tag}'""")
        return {plain(row["purchase"], tag): row["product"] for row in rows}

    def messages(self, tag: str) -> list[dict]:
        return self.rows(f"""SELECT replace(coalesce(m.key, e.key)::text, '-', '') AS key, m.type, m.event, e.type AS event_type,
            replace(t.id::text, '-', '') AS transfer, t.from_holder, t.to_holder
            FROM messages m JOIN events e ON e.id = m.event LEFT JOIN transfers t ON t.id = m.transfer
            WHERE e.holder LIKE '%-{tag}'""")

    def events(self, tag: str) -> list[dict]:
        return self.rows(f"""SELECT id, type, stray OR EXISTS (SELECT FROM entitlements n
            WHERE n.holder = e.holder AND n.purchase = e.purchase) AS findable FROM events e WHERE holder LIKE '%-{tag}'""")

    def drain(self) -> None:
        """Returns when every delivery is settled; each that is settled makes the wait longer again."""
        left, moved = None, time.monotonic()
        while (now := int(self.psql.number("SELECT count(*) FROM deliveries"))) > 0:
            if now != left:
                left, moved = now, time.monotonic()
            if time.monotonic() - moved > 180:
                raise BenchError(f"{now} deliveries are not settled: {self.process.last_words()}")
            time.sleep(0.05)


def plain(text: str, tag: str) -> str:
    """Without what histories are kept apart by."""
    return text.removesuffix(f"-{tag}").replace(RC_ANONYMOUS, "")
