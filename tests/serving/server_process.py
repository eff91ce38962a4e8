"""A text generation server as a process of its own, and how tests talk to it."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "testdata" / "tokenizer"
VOCABULARY = ["--vocab-file", str(TOKENIZER / "vocab.json"),
              "--merge-file", str(TOKENIZER / "merges.txt")]


class ServerProcess:
    """Starts `command` with a free port; what it writes on standard error goes to a file."""

    def __init__(self, command, *flags, vocabulary=VOCABULARY, environment=None):
        self.folder = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self.folder.name) / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen([command, *vocabulary, "--port", "0", *map(str, flags)],
                                            stdout=subprocess.PIPE, stderr=log, text=True,
                                            env=environment or os.environ)
        line = self.process.stdout.readline()
        found = re.search(r"(?:http://127\.0\.0\.1:|unix:/.*)(\d*)$", line.strip())
        if found is None:
            self.process.wait(timeout=60)
            raise RuntimeError(f"the server did not start: {line}{self.log_text()}")
        self.port = int(found.group(1) or 0)

    def log_text(self):
        if self.log.exists():
            self.text = self.log.read_text()
        return self.text

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))

    def is_sanitized(self):
        """Whether a sanitizer keeps memory of its own."""
        maps = pathlib.Path(f"/proc/{self.process.pid}/maps").read_text()
        return "libtsan" in maps or "libasan" in maps

    def stop(self, number=signal.SIGTERM):
        """The exit code after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.log_text()
        self.folder.cleanup()
        return code

    def connect(self, timeout=60):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def raw(self, data, timeout=60):
        """All that comes back for these bytes until the server closes the connection."""
        with self.connect(timeout) as connection:
            try:
                connection.sendall(data)
            except (BrokenPipeError, ConnectionResetError):  # was answered before all of it came
                pass
            return read_to_end(connection)

    def ask(self, body, method="PUT", path="/api", timeout=120, headers=None):
        """(status, answer) for a body: bytes as they are, else as JSON."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            client.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            response = client.getresponse()
            return response.status, json.loads(response.read())
        finally:
            client.close()

    def ask_openai(self, request):
        """(status, answer) of /v1/completions; of a stream the list of its events."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            client.request("POST", "/v1/completions", json.dumps(request).encode(),
                           {"Content-Type": "application/json"})
            response = client.getresponse()
            body = response.read()
            if not response.getheader("Content-Type").startswith("text/event-stream"):
                return response.status, json.loads(body)
            events = body.decode().split("\n\n")
            assert events[-2:] == ["data: [DONE]", ""], events[-2:]
            return response.status, [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
        finally:
            client.close()

    def health(self):
        return self.ask(None, "GET", "/health")


def read_to_end(connection):
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)
