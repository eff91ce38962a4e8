#!/usr/bin/env python3
"""text_generation_cli through pipes, as a user types.

text_generation_cli_test.py CLI STAND_IN_SERVER
"""

import json
import os
import re
import socket
import subprocess
import sys
import unittest

from server_process import ServerProcess

CLI, SERVER = (os.path.abspath(path) for path in sys.argv[1:3])
ASK = "Enter prompt: Enter number of tokens to generate: "


class CliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess(SERVER, "--top_k", 1)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def run_cli(self, typed, code=0, address=None):
        done = subprocess.run([CLI, address or f"localhost:{self.server.port}"], input=typed,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_it_prints_the_text_and_asks_again_until_stop(self):
        _, answer = self.server.ask({"prompts": ["Hello world"], "tokens_to_generate": 5})
        done = self.run_cli("Hello world\n5\nHello world\n5\nstop\nHello\n5\n")
        text = re.sub(r"[\0-\x08\x0b-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}",
                      answer["text"][0])
        one = ASK + "Megatron Response: \n" + text + "\n"
        self.assertEqual(done.stdout, one * 2 + "Enter prompt: \n")
        self.assertEqual(done.stderr, "")

    def test_the_end_of_input_ends_it(self):
        self.assertEqual(self.run_cli("").stdout, "Enter prompt: \n")
        self.assertEqual(self.run_cli("Hello\n").stdout, ASK + "\n")

    def test_the_servers_errors_are_printed_and_it_goes_on(self):
        done = self.run_cli("\n5\nHello\n-1\nHello\nfive\nHello\n1\n")
        self.assertIn(ASK + "Error 400: empty prompts need add_BOS true\n", done.stdout)
        self.assertIn("Error 400: tokens_to_generate must be an integer", done.stdout)
        self.assertIn('Error: expected a number of tokens, found "five"\n', done.stdout)
        self.assertIn("Megatron Response: \nHello", done.stdout)

    def test_an_address_may_be_a_url(self):
        for url in ("http://localhost:{}", "http://127.0.0.1:{}/", "http://localhost:{}/api"):
            done = self.run_cli("Hello\n1\n", address=url.format(self.server.port))
            self.assertIn("Megatron Response: \nHello", done.stdout)

    def test_a_server_that_is_not_there_is_an_error_before_the_first_question(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{unused.getsockname()[1]}"
            done = self.run_cli("Hello\n5\n", 1, address)
            self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, rf"^error: {address}: no server answers there \(.*\)\n$")

    def test_an_address_without_a_port_is_wrong_usage(self):
        for address in ("localhost", "localhost:", ":5000", "localhost:x", "localhost:70000",
                        "https://localhost:5000", "http://localhost", "localhost:5000/"):
            self.assertIn("expected HOST:PORT", self.run_cli("", 2, address).stderr)

    def test_a_line_may_end_in_cr_lf_and_begin_with_a_mark(self):
        wanted = self.run_cli("Hello\n5\nstop\n").stdout
        done = self.run_cli("\ufeffHello\r\n5\r\nstop\r\nHello\r\n")
        self.assertEqual(done.stdout, wanted)
        self.assertIn("note: standard input: lines end in CR LF", done.stderr)
        self.assertIn("note: standard input: begins with a byte order mark", done.stderr)

    def sent_without_end(self, begin, piece, answers_health):
        """The error for a server whose answer to /api (or to /health) has no end; the most memory
        that it took, in MiB."""
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            process = subprocess.Popen([CLI, f"127.0.0.1:{listening.getsockname()[1]}"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            process.stdin.write(b"Hello\n5\n")
            process.stdin.flush()
            if answers_health:
                with listening.accept()[0] as connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 404 NOT FOUND\r\n\r\n")
            most = 0
            with listening.accept()[0] as connection:
                connection.recv(65536)
                try:
                    connection.sendall(begin)
                    for _ in range(2 ** 30 // len(piece) if piece else 0):
                        connection.sendall(piece)
                        with open(f"/proc/{process.pid}/status") as status:
                            for line in status:
                                if line.startswith("VmHWM"):
                                    most = max(most, int(line.split()[1]) >> 10)
                except OSError:
                    pass  # the client has left
            error = process.communicate()[1].decode()
            self.assertEqual(process.returncode, 1, error)
            return error, most

    def test_an_answer_without_end_takes_no_memory_without_end(self):
        head = b"HTTP/1.1 200 OK\r\n"
        many = b"X-Header: value\r\n" * 4096
        for begin, piece, words in (
                (head, many, "headers of at most 64 KiB"),
                (head + b"X: ", b"x" * 65536, "headers of at most 64 KiB"),
                (b"", b"x" * 65536, "headers of at most 64 KiB"),
                (head + b"\r\n", b"x" * 65536, "a body of at most 65536 KiB"),
                (head + b"Content-Length: 68719476736\r\n\r\n", b"x" * 65536,
                 "a body of at most 65536 KiB"),
                (head + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 +
                 b"\r\n", "Transfer-Encoding: chunked")):
            for answers_health in (True, False):
                error, most = self.sent_without_end(begin, piece, answers_health)
                self.assertIn(words, error)
                self.assertLess(most, 300)

    def test_an_answer_that_ends_early_is_an_error(self):
        for answer, words in ((b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
                               "expected an answer of 100 bytes, found 3"),
                              (b"SSH-2.0-OpenSSH_9.6\r\n", "expected an answer in HTTP, found")):
            self.assertIn(words, self.sent_without_end(answer, b"", True)[0])

    def answered(self, status, body):
        """What is printed where a server gives this answer, having no other path than /api."""
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            process = subprocess.Popen([CLI, f"127.0.0.1:{listening.getsockname()[1]}"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            process.stdin.write(b"Hello\n5\n")
            process.stdin.flush()
            for line, answer in ((b"404 NOT FOUND", b""), (status, body)):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n"
                                       b"\r\n%s" % (line, len(answer), answer))
            return process.communicate(b"stop\n")[0]

    def test_megatrons_own_error_form_is_understood(self):
        self.assertIn(b"Error 400: prompts argument required\n",
                      self.answered(b"400 BAD REQUEST", b'"prompts argument required"\n'))

    def test_nothing_that_is_printed_controls_the_terminal(self):
        text = "a\x1b]0;title\x07\r\x9b31mb\tc\n日本"
        shown = rb"a\x1b]0;title\x07\x0d\xc2\x9b31mb" + "\tc\n日本\n".encode()
        self.assertIn(b"Megatron Response: \n" + shown,
                      self.answered(b"200 OK", json.dumps({"text": [text]}).encode()))
        for body in (json.dumps({"message": text}), json.dumps(text)):
            self.assertIn(b"Error 400: " + shown, self.answered(b"400 BAD REQUEST", body.encode()))
        self.assertNotIn(b"\x1b", self.answered(b"200 OK", b"\x1b[2J"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
