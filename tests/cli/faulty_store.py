"""A store that fails in a way that each case scripts."""
import http.server
import re
import threading

from preprocess_case import PreprocessData
from s3_environment import built_module, clean_environment


def fault(code, **more):
    fields = "".join(f"<{name}>{value}</{name}>" for name, value in {"Code": code, **more}.items())
    return f"<?xml version='1.0'?><Error>{fields}</Error>".encode()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as a store does, unless `server.answer` (a function of the handler) says True: that it has answered."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with self.server.lock:
            self.number = len(self.server.requests)
            self.server.requests.append({name.lower(): value for name, value in self.headers.items()})
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        self.begin, self.end = (int(found[1]), int(found[2]) + 1) if found else (0, 0)
        if self.server.answer is None or not self.server.answer(self):
            self.send_range()

    def send(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)
        return True

    def send_range(self, etag='"1"', cut=0, missing=0):
        """cut: bytes that are promised and never come; missing: that are not even promised."""
        content = self.server.objects.get(self.path)
        if content is None:
            return self.send(404, fault("NoSuchKey"))
        body = content[self.begin:self.end]
        where = f"bytes {self.begin}-{self.begin + len(body) - 1}/{len(content)}"
        self.send(206, body[:len(body) - cut - missing], Content_Length=len(body) - missing, Content_Range=where,
                  ETag=etag)
        self.close_connection = cut > 0
        return True

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """The program goes when it has seen enough."""


class FaultyStore(PreprocessData):
    def setUp(self):
        super().setUp()
        if built_module() is None:
            self.skipTest("built without libcurl")
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.lock = threading.Lock()
        self.server.requests = []
        self.server.answer = None
        self.server.objects = {}  # by /BUCKET/KEY
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        self.environment = {**clean_environment(self.folder), "AWS_ENDPOINT_URL": "http://127.0.0.1:{}".format(
            self.server.server_port), "AWS_ACCESS_KEY_ID": "the-key", "AWS_SECRET_ACCESS_KEY": "the-secret"}
