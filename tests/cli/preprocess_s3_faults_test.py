#!/usr/bin/env python3
"""preprocess_data of an object whose store fails in a way that each case scripts."""
import re
import signal
import subprocess
import threading

import preprocess_case
from faulty_store import FaultyStore, fault
from preprocess_case import MIB, lines_of

ADDRESS = "s3://bucket/in.jsonl"


class Faults(FaultyStore):
    def setUp(self):
        super().setUp()
        # More than the first request, two more and a rest.
        self.put(lines_of([f"{i} " + "word " * 200 for i in range(20 * MIB // 1024)]).encode())

    def put(self, content):
        self.content = self.server.objects["/bucket/in.jsonl"] = content

    def run_it(self, *flags, answer=None, **environment):
        self.server.answer = answer
        self.server.requests.clear()
        return self.run_program("--input", ADDRESS, *flags, env={**self.environment, **environment})

    def expect(self):
        file = self.write("in.jsonl", self.content)
        self.assert_done(self.run_program("--input", file, prefix=self.path("expected")))

    def assert_fails(self, answer, pattern, **environment):
        self.assert_error(self.run_it(answer=answer, **environment), 1, f"{re.escape(ADDRESS)}: {pattern}")
        self.assertEqual(self.files(), [])

    def test_what_passes_is_tried_again(self):
        self.expect()
        for name, fail in {"500": lambda store: store.send(500, fault("InternalError")),
                           "503": lambda store: store.send(503, fault("SlowDown")),
                           "429": lambda store: store.send(429),
                           "timeout": lambda store: store.send(400, fault("RequestTimeout")),
                           "nothing": lambda store: setattr(store, "close_connection", True) or True,
                           "cut": lambda store: store.send_range(cut=100)}.items():
            with self.subTest(name):
                failed = set()

                def answer(store):
                    with store.server.lock:
                        is_first = store.begin not in failed
                        failed.add(store.begin)
                    return is_first and fail(store)

                self.assert_done(self.run_it(answer=answer))
                self.assertEqual(self.output(), self.output("expected"))

    def test_it_gives_up(self):
        self.assert_fails(lambda store: store.send(503, fault("SlowDown", Message="Reduce your\nrate")),
                          r"the store answered HTTP 503 SlowDown: \"Reduce your\\nrate\"", AWS_MAX_ATTEMPTS="3")
        self.assertEqual(len(self.server.requests), 3)
        self.assert_fails(lambda store: store.send_range(cut=1), ".*outstanding|.*transfer closed.*",
                          AWS_MAX_ATTEMPTS="2")

    def test_an_object_that_changes(self):
        self.assert_fails(lambda store: store.begin > 0 and store.send(412, fault("PreconditionFailed")),
                          "changed while it was read")
        self.assert_fails(lambda store: store.begin > 0 and store.send_range(etag='"2"'), "changed while it was read")
        later = [headers for headers in self.server.requests if headers["range"] != "bytes=0-65535"]
        self.assertTrue(all(headers["if-match"] == '"1"' for headers in later), later)

    def test_answers_that_are_none(self):
        def short(store):
            return store.begin > 0 and store.send_range(missing=1)

        def whole(store):  # whatever was asked for
            return store.send(200, self.content, ETag='"1"')

        self.assert_fails(short, "expected bytes .* found .*")
        self.assert_fails(whole, "expected an answer of at most .* bytes")
        self.assert_fails(lambda store: store.send(206, b"x"), "expected bytes .*")
        self.assert_fails(lambda store: store.send(206, b"x", Content_Range="bytes 0-0/99999999999999999999"),
                          "expected bytes .*")

    def test_a_bucket_elsewhere(self):
        for answer in (lambda store: store.send(301, fault("PermanentRedirect"), x_amz_bucket_region="eu-north-1"),
                       lambda store: store.send(400, fault("AuthorizationHeaderMalformed", Region="eu-north-1"))):
            self.assert_fails(answer, "the bucket is in region eu-north-1: expected it in AWS_REGION, found us-east-1")
        self.assert_fails(lambda store: store.send(307, Location="http://127.0.0.1:1/"),
                          "the store answered HTTP 307: http://127.0.0.1:1/")

    def test_what_is_denied(self):
        for status, code, pattern in ((403, "AccessDenied", "access denied"), (403, "", "access denied"),
                                      (400, "ExpiredToken", "the credentials have expired"),
                                      (403, "RequestTimeTooSkewed", "this machine's clock is wrong"),
                                      (403, "InvalidAccessKeyId", "the store does not know the access key")):
            self.assert_fails(lambda store: store.send(status, fault(code) if code else b""), pattern)

    def test_lists_that_are_none(self):
        for body, pattern in ((b"<html>", "expected a list of objects, found "), (b"", "expected a list of objects"),
                              (b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
                               "expected the continuation token"),
                              (b"<ListBucketResult/>", "no object matches this pattern")):
            self.server.answer = lambda store: store.send(200, body)
            result = self.run_program("--input", "s3://bucket/*.jsonl", env=self.environment)
            self.assert_error(result, 1, f"s3://bucket/.*: {pattern}")

    def test_session_tokens_are_signed(self):
        self.put(lines_of(["a"]).encode())
        self.assert_done(self.run_it(AWS_SESSION_TOKEN="the-token", AWS_REGION="eu-west-1"))
        self.assertTrue(self.server.requests)
        for headers in self.server.requests:
            self.assertEqual(headers["x-amz-security-token"], "the-token")
            self.assertIn("x-amz-security-token", headers["authorization"])
            self.assertIn("/eu-west-1/s3/", headers["authorization"])

    def test_resume_asks_only_for_what_is_left(self):
        middle = len(self.content) // 2
        flags = ("--resume", "--workers", "1")
        result = self.run_it(*flags, answer=lambda store: store.begin > middle and store.send(500),
                             AWS_MAX_ATTEMPTS="1")
        self.assert_error(result, 1, f"{ADDRESS}: the store answered HTTP 500")
        self.assert_done(self.run_it(*flags))
        begins = [int(re.search(r"\d+", headers["range"])[0]) for headers in self.server.requests]
        self.assertNotIn(8 * MIB, begins)  # which the second request of a new run begins with
        self.expect()
        self.assertEqual(self.output(), self.output("expected"))
        result = self.run_it(*flags, answer=lambda store: store.send_range(etag='"2"'))
        self.assert_error(result, 2, '.*its run had .*ETag "1", this one has .*ETag "2"')

    def test_an_interrupt_ends_the_wait_for_a_silent_store(self):
        is_silent, is_over = threading.Event(), threading.Event()
        self.addCleanup(is_over.set)

        def answer(store):
            if store.begin == 0:
                return False
            is_silent.set()
            is_over.wait()
            return True

        self.server.answer = answer
        process = subprocess.Popen(self.command("--input", ADDRESS), env=self.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(is_silent.wait(60))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), -signal.SIGINT)
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    preprocess_case.main()
