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
