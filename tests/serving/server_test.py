#!/usr/bin/env python3
"""The text generation server as its clients meet it: right and wrong requests, bad connections.

server_test.py STAND_IN_SERVER
"""

import concurrent.futures
import io
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from server_process import VOCABULARY, ServerProcess, read_to_end

SERVER = os.path.abspath(sys.argv[1])
TUTORIAL = ["curl", "-sS", "--fail", "-X", "PUT", "-H",
            "Content-Type: application/json; charset=UTF-8", "-d",
            '{"prompts":["Hello world"], "tokens_to_generate":1}']
PROMPT = {"prompts": ["Hello"], "tokens_to_generate": 2}
HOST = b"PUT /api HTTP/1.1\r\nHost: localhost\r\n"
PUT = HOST + b"Content-Type: application/json\r\n"

# What is wrong, and words that its sentence must have.
WRONG = [
    (b"", "not JSON"),
    (b"{", "not JSON: it ends at byte 1, before its value does"),
    (b'{"prompts": ["a"],}', "not JSON"),
    (b'{"prompts": ["\xff"]}', "not UTF-8: byte 14"),
    (b'{"prompts": ["\\ud800"]}', "not JSON"),
    (b'{"prompts": ["a"], "temperature": NaN}', "not JSON"),
    (b'{"prompts": ["a"], "temperature": 1e999}', "too large"),
    (b"[" * 1000, "not JSON"),
    (b"[" * 1000 + b"]" * 1000, "must be a JSON object"),
    (b"[" * 100000 + b"]" * 100000, "more than 1000 values inside each other"),
    (b"[]", "must be a JSON object"),
    (b'"prompts"', "must be a JSON object"),
    (b"null", "must be a JSON object"),
    ({}, "prompts is required"),
    ({"max_len": 5}, "max_len is no longer supported: use tokens_to_generate"),
    ({"sentences": ["a"]}, "sentences is no longer supported: use prompts"),
    ({"prompt": "a"}, "prompt is not a key of this request: use prompts"),
    ({"prompts": ["a"], "max_tokens": 5}, "use tokens_to_generate"),
    ({"prompts": ["a"], "seed": 5}, "use random_seed"),
    ({"prompts": ["a"], "n": 2}, "use a prompt several times"),
    ({"prompts": ["a"], "stop": "b"}, "use stop_on_eol, or POST /v1/completions"),
    ({"prompts": ["a"], "temprature": 1}, "did you mean temperature?"),
    ({"prompts": ["a"], "stream": True}, 'stream is not a key of this request: use POST /v1'),
    ({"prompts": "a"}, 'prompts must be a list of strings, found "a"'),
    ({"prompts": {"a": 1}}, "prompts must be a list of strings"),
    ({"prompts": []}, "prompts is empty"),
    ({"prompts": ["a"] * 129}, "the maximum is 128"),
    ({"prompts": ["a", 5]}, "found 5 at 1"),
    ({"prompts": [["a"]]}, "found a list of 1 at 0"),
    ({"prompts": [""]}, "empty prompts need add_BOS"),
    ({"prompts": ["a", ""], "add_BOS": False}, "empty prompts need add_BOS"),
    ({"prompts": ["a"], "add_BOS": 1}, "add_BOS must be true or false"),
    ({"prompts": ["a"], "tokens_to_generate": -1}, "tokens_to_generate must be an integer"),
    ({"prompts": ["a"], "tokens_to_generate": 1.5}, "tokens_to_generate must be an integer"),
    ({"prompts": ["a"], "tokens_to_generate": True}, "tokens_to_generate must be an integer"),
    ({"prompts": ["a"], "tokens_to_generate": "5"}, "tokens_to_generate must be an integer"),
    ({"prompts": ["a"], "tokens_to_generate": None}, "tokens_to_generate must be an integer"),
    ({"prompts": ["a"], "tokens_to_generate": 2**64}, "tokens_to_generate must be an integer"),
    ({"prompts": ["a"], "tokens_to_generate": 1025}, "this server generates at most 1024"),
    ({"prompts": ["a"], "tokens_to_generate": 1024}, "1025 together: the model has 1024"),
    ({"prompts": ["word " * 2000], "tokens_to_generate": 1}, "the model has 1024 positions"),
    ({"prompts": ["a"], "tokens_to_generate": 0}, "only makes sense with logprobs"),
    ({"prompts": ["a"], "logprobs": 1}, "logprobs must be true or false"),
    ({"prompts": ["a"], "temperature": 0}, "temperature must be greater than 0"),
    ({"prompts": ["a"], "temperature": -1}, "temperature must be greater than 0"),
    ({"prompts": ["a"], "temperature": 100.5}, "at most 100"),
    ({"prompts": ["a"], "temperature": "1"}, "temperature must be a number"),
    ({"prompts": ["a"], "top_k": -1}, "top_k must be an integer from 0 to 1000"),
    ({"prompts": ["a"], "top_k": 1001}, "top_k must be an integer from 0 to 1000"),
    ({"prompts": ["a"], "top_k": 1.0}, "top_k must be an integer from 0 to 1000"),
    ({"prompts": ["a"], "top_p": 1.1}, "top_p must be a number from 0 to 1"),
    ({"prompts": ["a"], "top_p": -0.1}, "top_p must be a number from 0 to 1"),
    ({"prompts": ["a"], "top_p": [0.5]}, "top_p must be a number"),
    ({"prompts": ["a"], "top_p": 0.5, "top_k": 5}, "top_k and top_p cannot both be set"),
    ({"prompts": ["a"], "top_p_decay": 0.5}, "top_p_decay needs top_p"),
    ({"prompts": ["a"], "top_p": 0.5, "top_p_decay": 2.0}, "top_p_decay must be"),
    ({"prompts": ["a"], "top_p_bound": 0.5}, "top_p_bound needs top_p"),
    ({"prompts": ["a"], "top_p": 0.5, "top_p_bound": 0.6}, "at most top_p (0.5)"),
    ({"prompts": ["a"], "top_p": 0.5, "top_p_bound": 0.0}, "top_p_bound must be"),
    ({"prompts": ["a"], "stop_on_double_eol": "x"}, "stop_on_double_eol must be true or false"),
    ({"prompts": ["a"], "stop_on_eol": None}, "stop_on_eol must be true or false"),
    ({"prompts": ["a"], "prevent_newline_after_colon": 0}, "must be true or false"),
    ({"prompts": ["a"], "random_seed": -1}, "random_seed must be an integer"),
    ({"prompts": ["a"], "random_seed": 0.5}, "random_seed must be an integer"),
    ({"prompts": ["a"], "no_log": "yes"}, "no_log must be true or false"),
    ({"prompts": ["a"], "beam_width": 0}, "beam_width must be an integer"),
    ({"prompts": ["a"], "beam_width": "2"}, "beam_width must be an integer"),
    ({"prompts": ["a", "b"], "beam_width": 2}, "beam search takes one prompt"),
    ({"prompts": ["a"], "beam_width": 2, "tokens_to_generate": 0, "logprobs": True},
     "beam search needs tokens_to_generate"),
    ({"prompts": ["a"], "beam_width": 2, "stop_token": "x"}, "stop_token must be an integer"),
    ({"prompts": ["a"], "beam_width": 2, "length_penalty": "x"}, "length_penalty must be a number"),
    ({"prompts": ["a"], "beam_width": 2, "length_penalty": 1e300}, "a number from -10 to 10"),
    ({"prompts": ["a"], "beam_width": 2, "length_penalty": -11}, "a number from -10 to 10"),
]


class ServedTest(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess(SERVER, *cls.flags)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log_text()

    def ask(self, body, expected=200, **options):
        status, answer = self.server.ask(body, **options)
        self.assertEqual(status, expected, answer)
        return answer

    def expect_alive(self):
        self.assertEqual(len(self.ask(PROMPT)["segments"][0]), 4)

    def wait_for(self, health):
        """Until the server's load is this, at least 30 s."""
        for _ in range(3000):
            _, found = self.server.health()
            if all(found[key] == value for key, value in health.items()):
                return
            time.sleep(0.01)
        self.fail(f"expected {health}, found {found}")


    def wait_for_log(self, words):
        for _ in range(1000):
            if words in self.server.log_text():
                return
            time.sleep(0.01)
        self.fail(f"expected {words} in {self.server.log_text()}")


class Answers(ServedTest):
    def test_the_tutorials_curl_gets_megatrons_answer(self):
        done = subprocess.run([*TUTORIAL, f"http://localhost:{self.server.port}/api"],
                              capture_output=True, check=True)
        found = re.fullmatch(rb'\{"logprobs":null,"segments":\[\["He","llo"," world",("[^"]+")\]\],'
                             rb'"text":\["Hello world([^"]+)"\]\}\n', done.stdout)
        self.assertIsNotNone(found, done.stdout)
        self.assertEqual(found[1], b'"' + found[2] + b'"')

    def test_post_is_taken_as_put(self):
        greedy = dict(PROMPT, top_k=1)
        self.assertEqual(self.ask(greedy, method="POST"), self.ask(greedy))

    def test_segments_make_up_the_text(self):
        answer = self.ask({"prompts": ["In the beginning", "And", "  spaces  "], "top_k": 1,
                           "tokens_to_generate": 3})
        self.assertEqual(["".join(part) for part in answer["segments"]], answer["text"])
        self.assertTrue(answer["text"][0].startswith("In the beginning"))

    def test_part_of_a_character_is_a_replacement_character(self):
        answer = self.ask({"prompts": ["héllo"], "tokens_to_generate": 1})
        self.assertIn("\ufffd", answer["segments"][0])
        self.assertTrue(answer["text"][0].startswith("héllo"))

    def test_without_a_count_64_tokens_are_made(self):
        short = self.ask({"prompts": ["Hello"], "tokens_to_generate": 1, "top_k": 1})
        whole = self.ask({"prompts": ["Hello"], "top_k": 1})
        self.assertEqual(len(whole["segments"][0]), len(short["segments"][0]) + 63)

    def test_logprobs_are_one_fewer_than_the_segments(self):
        for count in (0, 3):
            answer = self.ask({"prompts": ["Hello world", "And"], "tokens_to_generate": count,
                               "logprobs": True})
            for segments, logprobs in zip(answer["segments"], answer["logprobs"], strict=True):
                self.assertEqual(len(logprobs), len(segments) - 1)
                self.assertTrue(all(value < 0 for value in logprobs))

    def test_add_bos_begins_with_the_end_of_document(self):
        answer = self.ask({"prompts": ["", "Hello"], "tokens_to_generate": 1, "add_BOS": True})
        self.assertEqual([part[0] for part in answer["segments"]], ["<|endoftext|>"] * 2)

    def test_equal_seeds_give_equal_texts_and_others_do_not(self):
        def ask(seed):
            return self.ask({"prompts": ["Hello", "Hello"], "random_seed": seed})["text"]
        self.assertEqual(ask(7), ask(7))
        self.assertNotEqual(ask(7), ask(8))
        first, second = ask(7)
        self.assertNotEqual(first, second, "equal prompts of one request must differ")

    def test_requests_without_a_seed_differ(self):
        self.assertNotEqual(self.ask({"prompts": ["Hello"]}), self.ask({"prompts": ["Hello"]}))

    def test_a_beam_search_answers_with_scores(self):
        answer = self.ask({"prompts": ["Hello"], "tokens_to_generate": 2, "beam_width": 3,
                           "length_penalty": 0.5, "stop_token": 5})
        self.assertEqual(answer["scores"], [-0.75, -1.5, -2.25])
        self.assertEqual(answer["text"], ["Hello!!", 'Hello""', "Hello##"])
        self.assertEqual(sorted(answer), ["scores", "segments", "text"])

    def test_whole_numbers_are_taken_where_megatron_wants_a_point(self):
        self.ask(dict(PROMPT, top_p=1, temperature=1, top_p_decay=1, top_p_bound=1))

    def test_megatrons_own_clients_are_answered(self):
        """Its text_generation_cli.py by requests, and its page by jQuery."""
        for kind in ("application/json", "application/json; charset=utf-8"):
            for host in (f"localhost:{self.server.port}", f"127.0.0.1:{self.server.port}"):
                request = urllib.request.Request(
                    f"http://{host}/api", json.dumps(PROMPT).encode(), method="PUT",
                    headers={"Content-Type": kind, "Origin": f"http://{host}"})
                with urllib.request.urlopen(request) as response:
                    self.assertIn("text", json.load(response))

    def test_health_says_what_is_served(self):
        self.wait_for({"active": 0, "queue": 0})
        self.assertEqual(self.server.health(),
                         (200, {"active": 0, "beam_searches": 0, "model": "stand-in", "queue": 0,
                                "queued_texts": 0,
                                "status": "ok", "step_seconds": 0.0}))

    def test_the_log_has_a_line_for_each_request(self):
        self.ask(dict(PROMPT, prompts=["the one before"]))
        self.wait_for_log("the one before")
        before = '"the one before"\n'
        self.ask({"prompts": ["seen in the log\n"], "tokens_to_generate": 1})
        self.ask({"prompts": ["hidden from it"], "tokens_to_generate": 1, "no_log": True})
        self.ask({"prompts": 1}, 400)
        lines = []
        for _ in range(1000):  # a line is written after its answer
            if len(lines) == 3:
                break
            time.sleep(0.01)
            log = self.server.log_text()
            lines = log[log.find(before) + len(before):].splitlines()
        self.assertRegex(lines[0], r'^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d 127\.0\.0\.1:\d+ PUT /api 200 '
                                   r'[\d.]+ ms prompts 1 tokens \d+\+1 "seen in the log\\n"$')
        self.assertRegex(lines[1], r"PUT /api 200 [\d.]+ ms prompts 1 tokens \d+\+1$")
        self.assertRegex(lines[2], r"PUT /api 400 [\d.]+ ms$")


class WrongRequests(ServedTest):
    flags = ("--max-request-bytes", 1 << 20, "--client-timeout", 2)

    def test_each_gets_a_400_with_a_sentence(self):
        for body, words in WRONG:
            with self.subTest(body=body if len(str(body)) < 200 else str(body)[:200]):
                answer = self.ask(body, 400)
                self.assertEqual(list(answer), ["message"])
                self.assertIn(words, answer["message"])
                self.assertNotIn("\n", answer["message"])
        self.expect_alive()

    def test_pages_of_others_are_refused(self):
        for headers, words in (({"Host": "evil.example"}, 'the host "evil.example"'),
                               ({"Origin": "http://evil.example"}, 'pages of "http://evil.example"'),
                               ({"Origin": "null"}, 'pages of "null"')):
            for method, path in (("PUT", "/api"), ("GET", "/health"), ("GET", "/")):
                answer = self.ask(PROMPT, 403, method=method, path=path, headers=headers)
                self.assertIn("this server does not answer to " + words, answer["message"])
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            answer = self.ask(PROMPT, 415, headers={"Content-Type": kind})
            self.assertIn(f'Content-Type must be application/json, found "{kind}"', answer["message"])

    def test_no_page_of_others_holds_the_servers(self):
        self.assertIn(b"frame-ancestors 'none'", self.server.raw(b"GET / HTTP/1.0\r\n\r\n"))

    def test_other_paths_and_methods_are_refused(self):
        self.ask(None, 404, method="GET", path="/nothing")
        self.ask(None, 400, method="GET", path="/../etc/passwd")
        self.ask(None, 405, method="GET")
        self.ask(PROMPT, 405, path="/health")
        self.ask(PROMPT, 405, method="DELETE")

    def test_ten_megabytes_are_too_large(self):
        before = self.server.resident_kib()
        body = json.dumps({"prompts": ["a" * (10 << 20)]}).encode()
        self.assertIn("larger than 1048576 bytes", self.ask(body, 413)["message"])
        chunk = b"100000\r\n" + b"a" * (1 << 20) + b"\r\n"
        answer = self.server.raw(PUT + b"Transfer-Encoding: chunked\r\n\r\n" +
                                 chunk * 10 + b"0\r\n\r\n")
        self.assertIn(b" 413 ", answer.splitlines()[0])
        self.assertLess(self.server.resident_kib(), before + 8192)

    def test_a_body_without_length_is_refused_at_once(self):
        self.assertIn(b" 411 ", self.server.raw(PUT + b"\r\n").splitlines()[0])

    def test_wrong_lengths_are_refused(self):
        for length in (b"-5", b"five", b"5 5", b"", b"99999999999999999999999"):
            answer = self.server.raw(PUT + b"Content-Length: " + length +
                                     b"\r\n\r\n{}")
            self.assertRegex(answer.splitlines()[0], rb" (400|413|411) ", length)
        self.expect_alive()

    def test_a_form_is_refused(self):
        answer = self.server.raw(HOST + b"Content-Type: multipart/form-data; boundary=x\r\n"
                                 b"Content-Length: 2\r\n\r\n{}")
        self.assertIn(b" 415 ", answer.splitlines()[0])

    def test_no_line_takes_memory_without_limit(self):
        before = self.server.resident_kib()
        chunked = PUT + b"Transfer-Encoding: chunked\r\n\r\n"
        for line in (b"1" * (32 << 20), b"1;" + b"a" * (32 << 20), b"0\r\nX: " + b"a" * (32 << 20)):
            answer = self.server.raw(chunked + line)
            self.assertRegex(answer.splitlines()[0], rb" (400|431) ")
        if not self.server.is_sanitized():
            self.assertLess(self.server.resident_kib(), before + 8192)

    def test_ranges_are_ignored(self):
        one = self.server.raw(b"GET / HTTP/1.0\r\n\r\n")
        for ranges in (b"bytes=0-0", b"bytes=" + b"0-," * 2000 + b"0-", b"nonsense"):
            self.assertEqual(self.server.raw(b"GET / HTTP/1.0\r\nRange: " + ranges + b"\r\n\r\n"), one)

    def test_two_lengths_are_refused_and_the_connection_ends(self):
        body = json.dumps(PROMPT).encode()
        length = b"Content-Length: %d\r\n" % len(body)
        hidden = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for headers, status in ((length + b"Transfer-Encoding: chunked\r\n", b" 400 "),
                                (length + b"Content-Length: 0\r\n", b" 400 "),
                                (b"Transfer-Encoding: gzip\r\n", b" 501 "),
                                (length + b"Content-Encoding: br\r\n", b" 415 ")):
            answer = self.server.raw(PUT + headers + b"\r\n" + body + hidden)
            self.assertIn(status, answer.splitlines()[0])
            self.assertEqual(answer.count(b"HTTP/1.1 "), 1)
        answer = self.server.raw(PUT + length + length + b"Connection: close\r\n\r\n" + body)
        self.assertIn(b" 200 ", answer.splitlines()[0])

    def test_a_request_as_a_proxy_gets_it_is_answered(self):
        answer = self.server.raw(b"GET http://localhost:5000/health?x HTTP/1.0\r\n\r\n")
        self.assertIn(b'"status":"ok"', answer)

    def test_a_body_behind_a_get_is_not_the_next_request(self):
        hidden = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answer = self.server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" %
                                 (len(hidden), hidden))
        self.assertEqual(answer.count(b"HTTP/1.1 "), 1)

    def test_head_is_told_the_length_alone(self):
        page = self.server.raw(b"GET / HTTP/1.0\r\n\r\n")
        self.assertEqual(self.server.raw(b"HEAD / HTTP/1.0\r\n\r\n"), page[:page.find(b"\r\n\r\n") + 4])

    def test_curl_is_told_to_go_on_with_a_long_body(self):
        body = json.dumps(dict(PROMPT, prompts=["word " * 400] * 128)).encode()
        with tempfile.NamedTemporaryFile() as file:
            file.write(body)
            file.flush()
            for how in ([], ["-H", "Transfer-Encoding: chunked"]):
                done = subprocess.run(
                    ["curl", "-sS", "--fail", "-X", "PUT", "-H", "Content-Type: application/json",
                     "-H", "Expect: 100-continue", *how, "--data-binary", f"@{file.name}",
                     f"http://localhost:{self.server.port}/api"], capture_output=True, check=True)
                self.assertEqual(len(json.loads(done.stdout)["text"]), 128)

    def test_long_headers_and_paths_are_refused(self):
        many = b"".join(b"X-%d: %s\r\n" % (i, b"a" * 1000) for i in range(100))
        answer = self.server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")
        self.assertIn(b" 431 ", answer.splitlines()[0])
        self.server.raw(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n")
        self.expect_alive()

    def test_garbage_is_refused(self):
        generator = random.Random(5)
        for size in (1, 10, 1000, 100000):
            self.server.raw(generator.randbytes(size) + b"\r\n\r\n")
        self.server.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64)
        self.server.raw(b"\r\n" * 1000)
        self.server.raw(b"GET\r\n\r\n")
        self.expect_alive()

    def test_a_body_that_stops_half_way_is_answered_in_time(self):
        with self.server.connect() as connection:
            connection.sendall(PUT + b"Content-Length: 100\r\n\r\n{")
            self.assertIn(b" 408 ", read_to_end(connection).splitlines()[0])
        with self.server.connect() as connection:
            connection.sendall(PUT + b"Content-Length: 100\r\n\r\n{")
            connection.shutdown(socket.SHUT_WR)
            self.assertIn(b" 400 ", read_to_end(connection).splitlines()[0])
        self.expect_alive()

    def test_resets_at_every_point_do_no_harm(self):
        body = json.dumps(PROMPT).encode()
        whole = PUT + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        for end in range(len(whole) + 1):
            with self.server.connect() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                      b"\1\0\0\0\0\0\0\0")  # close() sends a reset
                connection.sendall(whole[:end])
        self.expect_alive()

    def test_requests_may_follow_one_another_on_a_connection(self):
        body = json.dumps(PROMPT).encode()
        one = PUT + b"Content-Length: %d\r\n" % len(body)
        with self.server.connect() as connection:
            connection.sendall((one + b"\r\n" + body) * 4 + one + b"Connection: close\r\n\r\n" + body)
            self.assertEqual(read_to_end(connection).count(b"HTTP/1.1 200 OK"), 5)


# Every route with a body, and a right one.
ROUTES = {"/v1/completions": {"prompt": "Hello", "max_tokens": 2},
          "/completions": {"prompt": "Hello", "max_tokens": 2},
          "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello"}]},
          "/tokenize": {"prompt": "Hello"}, "/detokenize": {"tokens": [1, 2]}}


class OpenAiRoutes(ServedTest):
    """What must hold for every route, and errors in the form of these."""
    flags = ("--max-request-bytes", 1 << 20, "--client-timeout", 2)

    def refused(self, status, words, body, path, method="POST", headers=None):
        found, answer = self.server.ask(body, method, path, headers=headers)
        self.assertEqual(found, status, (path, answer))
        self.assertEqual(list(answer), ["error"])
        self.assertEqual(sorted(answer["error"]), ["code", "message", "param", "type"])
        self.assertIn(words, answer["error"]["message"])
        self.assertNotIn("\n", answer["error"]["message"])

    def head(self, path, headers=b""):
        return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                .encode() + headers)

    def test_what_is_no_json_is_refused(self):
        for path in ROUTES:
            if path == "/v1/chat/completions":  # refused for its template before
                continue
            for body, words in WRONG[:11]:
                self.refused(400, words, body, path)
        self.expect_alive()

    def test_every_value_of_every_wrong_type_is_refused_or_ignored(self):
        values = [True, False, -1, 0, 1.5, 2**64, 1e300, "", "x" * 70, "\u0000", [], [[]], [None], {},
                  {"a": 1}, [1, "a"], [["a"]], [[1], "a"], {"5": "x"}, {"-1": 1}]
        keys = ["model", "prompt", "n", "max_tokens", "temperature", "top_p", "top_k", "seed", "stop",
                "logprobs", "logit_bias", "presence_penalty", "frequency_penalty", "ignore_eos",
                "stream_options", "echo", "suffix", "best_of", "tokens", "user", "messages",
                "return_token_strs", "documents", "chat_template_kwargs"]
        for path, right in ROUTES.items():
            for key in keys:
                for value in values:
                    status, answer = self.server.ask({**right, key: value}, "POST", path)
                    self.assertIn(status, (200, 400, 404), (path, key, value, answer))
                    if status != 200:
                        self.assertIsInstance(answer["error"]["message"], str)
        self.expect_alive()

    def test_values_inside_each_other_are_bounded(self):
        deep = b"[" * 400000 + b"]" * 400000
        for path, body in (("/v1/completions", b'{"prompt": "a", "stop": %s}'), ("/v1/completions", b'{"prompt": %s}'),
                           ("/tokenize", b'{"prompt": "a", "x": %s}'), ("/detokenize", b'{"tokens": %s}')):
            self.refused(400, "more than 1000 values inside each other", body % deep, path)
        self.refused(400, "at 0", b'{"prompt": [%s]}' % (deep[:900] + deep[-900:]), "/v1/completions")
        self.assertEqual(self.server.ask(b'{"prompts": ["[[["], "x": %s}' % deep)[0], 400)
        brackets = self.server.ask({"prompt": "[{\"" * 2000 + "\\"}, "POST", "/tokenize")
        self.assertEqual(brackets[0], 200)
        self.expect_alive()

    def test_a_wrong_prompt_of_several_is_named(self):
        for prompts, words in (([[1, 2], [3, 10**6]], "prompt 1 must have ids from 0 to"),
                               ([[1], [2], [5] * 1024], "prompt 2 has 1024 tokens: the model has 1024 positions"),
                               ([5] * 1024, "prompt has 1024 tokens: the model has 1024 positions")):
            self.refused(400, words, {"prompt": prompts}, "/v1/completions")
        self.refused(400, "prompt 1 has 1024 tokens and max_tokens is 1: the model has 1024 positions",
                     {"prompt": [[1], [5] * 1024], "max_tokens": 1}, "/v1/completions")

    def test_pages_of_others_and_other_types_are_refused(self):
        for path, right in ROUTES.items():
            self.refused(403, "does not answer to pages", right, path,
                         headers={"Origin": "http://evil.example"})
            self.refused(403, "does not answer to the host", right, path,
                         headers={"Host": "evil.example"})
            self.refused(415, "Content-Type must be", right, path, headers={"Content-Type": "text/plain"})
            self.refused(405, "this path takes POST", None, path, method="GET")
        for path in ("/v1/models", "/tokenizer_info"):
            self.refused(403, "does not answer to pages", None, path, "GET",
                         {"Origin": "http://evil.example"})
            self.refused(405, "this path takes GET", None, path, method="DELETE")

    def test_limits_of_bytes_and_time_hold(self):
        before = self.server.resident_kib()
        for path in ROUTES:
            self.refused(413, "larger than 1048576 bytes", {"prompt": "a" * (10 << 20)}, path)

        def answers(path):
            """To a body without a length, with two, and to a half of one."""
            lengths = (b"\r\n", b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"Content-Length: 9\r\n\r\n{")
            return [self.server.raw(self.head(path, rest)) for rest in lengths]

        # Each connection stays open for the client's time.
        with concurrent.futures.ThreadPoolExecutor(len(ROUTES)) as pool:
            for found in pool.map(answers, ROUTES):
                for answer, status in zip(found, (b" 411 ", b" 400 ", b" 408 ")):
                    self.assertIn(status, answer.splitlines()[0])
                self.assertIn(b'{"error":', found[-1])
        if not self.server.is_sanitized():
            self.assertLess(self.server.resident_kib(), before + 8192)

    def test_many_ids_and_lists_take_memory_in_proportion(self):
        before = self.server.resident_kib()
        for body, words in ((b'{"prompt":[' + b"1," * 500000 + b"1]}", "1024 positions"),
                            (b'{"prompt":[' + b"[]," * 300000 + b"[]]}", "the maximum is 128"),
                            (b'{"prompt":"a","stop":[' + b'"",' * 300000 + b'""]}', "the maximum is 64"),
                            (b'{"prompt":' + b"[" * 500000 + b"]" * 500000 + b"}", "inside each other")):
            self.refused(400, words, body, "/v1/completions")
        if not self.server.is_sanitized():
            self.assertLess(self.server.resident_kib(), before + 65536)

    def test_resets_at_every_point_of_a_stream_do_no_harm(self):
        body = json.dumps({"prompt": "Hello", "max_tokens": 900, "ignore_eos": True,
                           "stream": True}).encode()
        whole = self.head("/v1/completions", b"Content-Length: %d\r\n" % len(body)) + b"\r\n" + body
        for size in (1, 100, 300, 1000, 3000):
            for _ in range(10):
                with self.server.connect() as connection:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    connection.sendall(whole)
                    received = 0
                    while received < size:
                        part = connection.recv(size - received)
                        self.assertTrue(part)
                        received += len(part)
        self.wait_for({"active": 0, "queue": 0})
        self.expect_alive()

    def test_a_stream_may_be_followed_by_a_request(self):
        body = json.dumps({"prompt": "Hello", "max_tokens": 3, "stream": True}).encode()
        one = self.head("/v1/completions", b"Content-Length: %d\r\n" % len(body))
        with self.server.connect() as connection:
            connection.sendall((one + b"\r\n" + body) * 2 + one + b"Connection: close\r\n\r\n" + body)
            answer = read_to_end(connection)
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK"), 3)
        self.assertEqual(answer.count(b"data: [DONE]"), 3)

    def test_a_client_that_does_not_read_ends_its_stream(self):
        body = json.dumps({"prompt": ["Hello"] * 16, "n": 8, "max_tokens": 900, "logprobs": 5,
                           "stream": True}).encode()
        with self.server.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(self.head("/v1/completions", b"Content-Length: %d\r\n" % len(body)) +
                               b"\r\n" + body)
            self.wait_for_log("POST /v1/completions 499 ")
        self.wait_for({"active": 0, "queue": 0})


class SlowClients(ServedTest):
    flags = ("--max-connections", 20, "--client-timeout", 90)

    def test_they_do_not_keep_others_waiting(self):
        slow = [self.server.connect() for _ in range(60)]
        for number, connection in enumerate(slow):
            try:
                connection.sendall((PUT + b"Content-Le")[:number])
            except OSError:  # gave way already
                pass
        start = time.monotonic()
        for _ in range(20):
            self.expect_alive()
        self.assertLess(time.monotonic() - start, 60)  # of the 90 s that the slow ones have
        for connection in slow:
            connection.close()


class FullQueue(ServedTest):
    flags = ("--slots", 2, "--step-microseconds", 20000, "--max-queue", 2, "--request-timeout", 3)

    def test_further_requests_get_a_503_at_once(self):
        def ask(_):
            return self.server.ask({"prompts": ["Hello"], "tokens_to_generate": 50, "top_k": 1})
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(ask, range(12)))
        statuses = sorted(status for status, _ in answers)
        self.assertEqual(set(statuses), {200, 503})
        self.assertGreaterEqual(statuses.count(200), 2)
        self.assertIn("the queue is full",
                      next(answer for status, answer in answers if status == 503)["message"])
        self.wait_for({"active": 0, "queue": 0})

    def test_a_client_that_hangs_up_frees_its_place(self):
        body = json.dumps({"prompts": ["Hello"] * 6, "tokens_to_generate": 1000}).encode()
        with self.server.connect() as connection:
            connection.sendall(PUT + b"Content-Length: %d\r\n\r\n%s" %
                               (len(body), body))
            self.wait_for({"active": 2, "queue": 1})
        self.wait_for({"active": 0, "queue": 0})
        self.wait_for_log(" 499 ")

    def test_a_request_that_takes_too_long_is_cancelled(self):
        answer = self.ask({"prompts": ["Hello"], "tokens_to_generate": 1000}, 503)
        self.assertEqual(answer["message"], "the request took longer than 3 s")
        self.wait_for({"active": 0})


class BeamSearches(ServedTest):
    """A search that would take 1024 steps of 10 ms."""
    flags = ("--slots", 2, "--step-microseconds", 10000, "--request-timeout", 4)
    search = {"prompts": ["Hello"], "tokens_to_generate": 1000, "beam_width": 128}

    def start_search(self):
        body = json.dumps(self.search).encode()
        connection = self.server.connect()
        connection.sendall(PUT + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.wait_for({"active": 1, "beam_searches": 1})
        return connection

    def test_others_are_answered_meanwhile(self):
        with self.start_search(), self.server.connect() as waiting:
            body = json.dumps(self.search).encode()
            waiting.sendall(PUT + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            self.wait_for({"beam_searches": 1, "queue": 1})
            for _ in range(5):
                self.expect_alive()
            self.wait_for({"active": 1, "beam_searches": 1, "queue": 1, "status": "ok"})
        self.wait_for({"active": 0, "queue": 0})

    def test_a_client_that_hangs_up_ends_its_search(self):
        self.start_search().close()
        self.wait_for({"active": 0, "beam_searches": 0})
        self.wait_for_log(" 499 ")

    def test_one_that_takes_too_long_is_cancelled(self):
        answer = self.ask(self.search, 503)
        self.assertEqual(answer["message"], "the request took longer than 4 s")
        self.wait_for({"active": 0})

    def test_one_that_fails_is_a_500(self):
        answer = self.ask(dict(self.search, stop_token=77), 500)
        self.assertEqual(answer["message"], "text 0: the search failed")
        self.expect_alive()


class SlowSteps(ServedTest):
    flags = ("--step-microseconds", 4000000, "--request-timeout", 1)

    def test_health_says_that_nothing_can_be_answered_in_time(self):
        self.ask(PROMPT, 503)
        self.wait_for({"active": 1, "status": "stalled"})  # the step began after the request
        status, health = self.server.health()
        self.assertEqual((status, health["status"]), (503, "stalled"))
        self.assertGreaterEqual(health["step_seconds"], 1)
        self.wait_for({"active": 0, "status": "ok"})


class Ends(unittest.TestCase):
    def test_a_signal_ends_a_beam_search_after_its_grace(self):
        server = ServerProcess(SERVER, "--step-microseconds", 100000, "--grace-milliseconds", 1000)
        body = json.dumps(BeamSearches.search).encode()
        with server.connect() as connection:
            connection.sendall(PUT + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            while server.health()[1]["beam_searches"] == 0:
                time.sleep(0.01)
            begin = time.monotonic()
            self.assertEqual(server.stop(), 0)  # within a minute, of the 100 s that it would take
            self.assertGreater(time.monotonic() - begin, 0.9)
            self.assertIn(b" 503 ", read_to_end(connection).splitlines()[0])

    def test_a_port_in_use_is_an_error_at_the_start(self):
        server = ServerProcess(SERVER)
        second = subprocess.run([SERVER, *VOCABULARY, "--port", str(server.port)],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(second.returncode, 1)
        self.assertRegex(second.stderr, r"^error: cannot listen on 127\.0\.0\.1:\d+: Address "
                                        r"already in use\n$")
        self.assertEqual(server.stop(), 0)

    def test_it_answers_to_the_names_that_it_is_given(self):
        server = ServerProcess(SERVER, "--allowed-hosts", "node7", "llm.example.org")
        for host, origin, status in (("node7:80", "http://node7:80", 200), ("node8", "", 403),
                                     ("127.0.0.1", "https://llm.example.org", 200),
                                     ("llm.example.org", "https://example.org", 403)):
            headers = {"Host": host, **({"Origin": origin} if origin else {})}
            self.assertEqual(server.ask(PROMPT, headers=headers)[0], status, host)
        self.assertEqual(server.stop(), 0)

    def test_wrong_flags_are_refused_with_a_hint(self):
        for flags, words in ((("--allowed-hosts", "http://node17:5000"), "leave out http://"),
                             (("--allowed-hosts", "a b"), "expected a host name such as node17"),
                             (("--cors-allow-origin", "lab.example"), "https://lab.example"),
                             (("--cors-allow-origin", "https://lab.example/x"), "without a path"),
                             (("--api-key", "not visible"), "visible ASCII characters"),
                             (("--api-key-file", os.devnull), "found none"),
                             (("--api-key-file", "/nothing"), "No such file"),
                             (("--host", "unix:"), "expected a path"),
                             (("--host", f"unix:{os.devnull}"), "the file is not a socket")):
            done = subprocess.run([SERVER, *VOCABULARY, "--port", "0", *flags], capture_output=True,
                                  text=True, timeout=60)
            self.assertIn(done.returncode, (1, 2), flags)
            self.assertRegex(done.stderr, r"^error: [^\n]*" + re.escape(words))
            self.assertNotIn("not visible", done.stderr)

    def test_it_warns_of_an_address_that_everyone_can_use(self):
        for flags, warned in ((("--host", "0.0.0.0"), True), ((), False),
                              (("--host", "0.0.0.0", "--api-key", "x"), False)):
            process = subprocess.Popen([SERVER, *VOCABULARY, "--port", "0", *flags], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.stdout.readline()
            process.terminate()
            _, errors = process.communicate(timeout=60)
            self.assertEqual("warning: everyone who can reach http://0.0.0.0:" in errors, warned)

    def test_a_key_guards_all_but_the_page_and_the_health(self):
        server = ServerProcess(SERVER, "--api-key", "secret")
        for method, path in (("PUT", "/api"), ("POST", "/v1/completions"), ("POST", "/tokenize"),
                             ("GET", "/v1/models"), ("GET", "/tokenizer_info"), ("GET", "/nothing")):
            for given in ({}, {"Authorization": "Bearer secre"}, {"Authorization": "Basic secret"}):
                status, answer = server.ask(PROMPT, method, path, headers=given)
                self.assertEqual(status, 401, (path, answer))
                self.assertEqual("error" in answer, "message" not in answer)
        self.assertEqual(server.ask(PROMPT, headers={"Authorization": "Bearer secret"})[0], 200)
        self.assertEqual(server.health()[0], 200)
        self.assertIn(b" 200 ", server.raw(b"GET / HTTP/1.0\r\n\r\n").splitlines()[0])
        self.assertEqual(server.stop(), 0)
        self.assertNotIn("secret", server.text)

    def test_it_listens_on_this_machine_alone(self):
        server = ServerProcess(SERVER)
        addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None,
                                                               socket.AF_INET)}
        for address in addresses - {"127.0.0.1"}:
            if not address.startswith("127."):
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection((address, server.port), timeout=5)
        self.assertEqual(server.stop(), 0)

    def test_signals_end_it_with_what_runs_finished(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = ServerProcess(SERVER, "--slots", 2, "--step-microseconds", 10000)
            idle = server.connect()

            def ask(_):
                return server.ask({"prompts": ["Hello"], "tokens_to_generate": 200, "top_k": 1})
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                answers = [pool.submit(ask, i) for i in range(4)]
                while not {"active": 2, "queue": 2}.items() <= server.health()[1].items():
                    time.sleep(0.01)
                self.assertEqual(server.stop(number), 0)
                statuses = sorted(answer.result()[0] for answer in answers)
            self.assertEqual(statuses, [200, 200, 503, 503])
            idle.close()

    def test_a_step_that_fails_is_a_500_and_not_the_end(self):
        server = ServerProcess(SERVER, "--failing-step", 1)
        self.assertEqual(server.ask(PROMPT), (500, {"message": "the step failed"}))
        self.assertEqual(server.ask(PROMPT)[0], 200)
        self.assertEqual(server.stop(), 0)


def run_class(tests):
    """What one class of tests comes to, and what it has to say."""
    out = io.StringIO()
    return unittest.TextTestRunner(stream=out).run(tests).wasSuccessful(), out.getvalue()


def run_classes():
    """All classes at once: each has servers of its own, and what it does is wait for their timers."""
    classes = list(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    with concurrent.futures.ThreadPoolExecutor(len(classes)) as pool:
        results = list(pool.map(run_class, classes))
    print("\n".join(text for _, text in results), file=sys.stderr)
    return 0 if all(successful for successful, _ in results) else 1


if __name__ == "__main__":
    if len(sys.argv) > 2:
        unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
    sys.exit(run_classes())
