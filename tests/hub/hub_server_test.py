#!/usr/bin/env python3
"""The hub as its clients meet it: files, ranges, wrong names, hostile folders, many clients.

hub_server_test.py FOLDER_OF_PROGRAMS
"""

import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from hub_case import PROGRAMS, TINY, HubCase, ServerProcess, export, main, write_llama

WEIGHTS = "model.safetensors"


class Answers(HubCase):
    @classmethod
    def make_root(cls):
        super().make_root()
        shutil.copytree(TINY, cls.root / "gpt" / "second")
        tokenizer = cls.root / "gpt" / "second" / "iter_0000100" / "tokenizer"
        tokenizer.mkdir()
        (tokenizer / "tokenizer.json").write_text("{}")
        (tokenizer / "merges.txt").write_text("a b\n")
        (tokenizer / "sub").mkdir()

    def test_files_are_those_of_an_export(self):
        for name in ("tiny", "second"):
            expected = export(self.root / "gpt" / name)
            listed = self.json(f"/api/models/gpt/{name}/tree/main")
            self.assertEqual({file["path"]: file["size"] for file in listed},
                             {name: len(data) for name, data in expected.items()})
            for file, data in expected.items():
                status, headers, body = self.file(file, f"gpt/{name}")
                self.assertEqual((status, body), (200, data), file)
                self.assertEqual(int(headers["X-Linked-Size"]), len(data))

    def test_any_range_is_that_part_of_the_file(self):
        expected = export(self.root / "gpt" / "tiny")[WEIGHTS]
        generator = random.Random(3)
        for _ in range(200):
            first = generator.randrange(len(expected))
            last = min(first + generator.choice([0, 1, 7, 100, 5000, 10**6]), len(expected) - 1)
            status, headers, body = self.file(WEIGHTS, headers={"Range": f"bytes={first}-{last}"})
            self.assertEqual((status, body), (206, expected[first:last + 1]))
            self.assertEqual(headers["Content-Range"], f"bytes {first}-{last}/{len(expected)}")
        status, _, body = self.file(WEIGHTS, headers={"Range": "bytes=-5"})
        self.assertEqual((status, body), (206, expected[-5:]))

    def test_a_range_outside_of_the_file_is_a_416(self):
        status, headers, _ = self.file("config.json", headers={"Range": "bytes=100000-"})
        self.assertEqual(status, 416)
        self.assertRegex(headers["Content-Range"], r"^bytes \*/\d+$")

    def test_a_part_of_another_version_is_not_sent(self):
        tag = self.file(WEIGHTS, method="HEAD")[1]["ETag"]
        ranged = {"Range": "bytes=8-"}
        self.assertEqual(self.file(WEIGHTS, headers=ranged | {"If-Range": tag})[0], 206)
        self.assertEqual(self.file(WEIGHTS, headers=ranged | {"If-Range": '"x"'})[0], 200)
        self.assertEqual(self.file(WEIGHTS, headers={"If-None-Match": tag})[0], 304)

    def test_head_says_what_get_sends(self):
        for name in (WEIGHTS, "config.json"):
            _, head, nothing = self.file(name, method="HEAD")
            _, got, body = self.file(name)
            self.assertEqual(nothing, b"")
            self.assertEqual(head.items(), got.items())
            self.assertEqual(int(head["Content-Length"]), len(body))
            self.assertRegex(head["X-Repo-Commit"], "^[0-9a-f]{40}$")

    def test_a_commit_is_a_revision(self):
        sha = self.json("/api/models/gpt/tiny")["sha"]
        self.assertEqual(self.json("/api/models/gpt/tiny/revision/iter_0000100")["sha"], sha)
        one = self.file(WEIGHTS, revision=sha)
        self.assertEqual(one[0], 200)
        self.assertEqual(one[2], self.file(WEIGHTS, revision="iter_0000100")[2])
        self.assertNotEqual(self.json("/api/models/gpt/second")["sha"], sha)
        refs = self.json("/api/models/gpt/tiny/refs")["branches"]
        self.assertEqual([(ref["name"], ref["targetCommit"]) for ref in refs],
                         [("main", sha), ("iter_0000100", sha)])
        self.assertEqual(self.json("/api/models/gpt/tiny/commits/main")[0]["id"], sha)

    def test_models_are_listed_and_searched(self):
        def ids(query=""):
            return [model["id"] for model in self.json("/api/models" + query)]
        self.assertEqual(ids(), ["gpt/second", "gpt/tiny"])
        self.assertEqual(ids("?search=tin&limit=5"), ["gpt/tiny"])
        self.assertEqual(ids("?author=other"), [])
        text = self.get("/")[2].decode()
        self.assertIn("gpt/tiny\n  iter_0000100  main\n", text)

    def test_paths_are_told_of_a_form_and_of_json(self):
        path = "/api/models/gpt/tiny/paths-info/main"
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for body, headers in (("paths=config.json&paths=none&expand=False", form),
                              ('{"paths": ["config.json", "none", 5]}',
                               {"Content-Type": "application/json"})):
            found = self.json(path, method="POST", body=body, headers=headers)
            self.assertEqual([file["path"] for file in found], ["config.json"])
        # Each file once, however often it is asked for.
        answer = self.json(path, method="POST", body="paths=config.json&" * 100000, headers=form)
        self.assertEqual(len(answer), 1)
        for body in ("[]", "{", "null", '{"paths": 5}', '[' * 10000):
            self.assertEqual(self.json(path, method="POST", body=body,
                                       headers={"Content-Type": "application/json"}), [])

    def test_requests_may_follow_one_another_on_a_connection(self):
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        for name in (WEIGHTS, "config.json", "none", WEIGHTS):
            client.request("GET", f"/gpt/tiny/resolve/main/{name}")
            answer = client.getresponse()
            self.assertEqual(answer.status, 404 if name == "none" else 200)
            answer.read()
        client.close()


class WrongRequests(HubCase):
    def test_each_name_that_is_not_there_has_its_error(self):
        self.assertIn("no such model", self.refused("/api/models/gpt/none", "RepoNotFound"))
        self.refused("/gpt/none/resolve/main/config.json", "RepoNotFound")
        self.refused("/gpt2/resolve/main/config.json", "RepoNotFound")
        self.refused("/api/models/gpt2", "RepoNotFound")
        self.refused("/api/datasets/gpt/tiny", "RepoNotFound")
        self.refused("/datasets/gpt/tiny/resolve/main/x", "RepoNotFound")
        for revision in ("iter_0000101", "refs/pr/1", "refs%2Fpr%2F1", "0" * 40, "MAIN", "iter_100"):
            self.refused(f"/api/models/gpt/tiny/revision/{revision}", "RevisionNotFound")
        for name in ("none", "config.json/", "sub/config.json", "Config.json", "model.safetensors%00"):
            status, headers, _ = self.file(name)
            if status == 400:  # control characters
                continue
            if name == "config.json/":
                self.assertEqual(status, 200)
                continue
            self.assertEqual((status, headers["X-Error-Code"]), (404, "EntryNotFound"))
            self.assertRegex(headers["X-Repo-Commit"], "^[0-9a-f]{40}$")
        self.refused("/api/models/gpt/tiny/tree/main/additional_chat_templates", "EntryNotFound")

    def test_no_path_leads_out_of_the_folder(self):
        secret = self.root.parent / "secret"
        secret.write_text("secret")
        for path in ("/gpt/tiny/resolve/main/../../../../secret",
                     "/gpt/tiny/resolve/main/%2e%2e/%2e%2e/secret",
                     "/gpt/tiny/resolve/main/..%2f..%2f..%2fsecret",
                     "/gpt/tiny/resolve/main/%252e%252e%252fsecret",
                     "/gpt/tiny/resolve/..%2f..%2f/secret", "/gpt/..%2f/resolve/main/secret",
                     "/../secret/resolve/main/x", "/gpt/tiny/resolve/main//etc/passwd",
                     "/gpt/tiny/resolve/main/iter_0000100%2fmp_rank_00_000%2fmodel_optim_rng.pt",
                     "/gpt/tiny/resolve//config.json", "//etc/passwd", "/etc/passwd",
                     "/gpt/tiny/resolve/main/%c0%ae%c0%ae/secret", "/gpt/tiny\\..\\secret"):
            answer = self.server.raw(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            self.assertRegex(answer.splitlines()[0], rb" (400|404) ", path)
            self.assertNotIn(b"secret\n", answer.split(b"\r\n\r\n", 1)[1])

    def test_methods_that_change_things_are_refused(self):
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"):
            self.assertEqual(self.get("/gpt/tiny/resolve/main/config.json", method=method)[0], 405)
        for path in ("/gpt/tiny/resolve/main/config.json", "/api/models/gpt/tiny", "/api/models"):
            status, _, _ = self.get(path, method="POST", body="a=b",
                                    headers={"Content-Type": "application/x-www-form-urlencoded"})
            self.assertIn(status, (200, 405))
        self.assertEqual(self.get("/api/models/gpt/tiny/paths-info/main", method="POST", body="x",
                                  headers={"Content-Type": "text/plain"})[0], 415)

    def test_pages_of_others_are_refused(self):
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"},
                        {"Origin": "null"}):
            for path in ("/", "/api/models", "/gpt/tiny/resolve/main/config.json"):
                self.assertEqual(self.get(path, headers=headers)[0], 403)

    def test_garbage_is_refused(self):
        generator = random.Random(7)
        for _ in range(50):
            self.server.raw(generator.randbytes(200) + b"\r\n\r\n")
        for line in (b"GET / HTTP/9.9", b"GET", b"GET /" + b"a" * 10000 + b" HTTP/1.1",
                     b"GET / HTTP/1.1\r\nHost: a\r\nHost: b"):
            self.assertRegex(self.server.raw(line + b"\r\n\r\n").splitlines()[0], rb" (4..|505) ")
        self.assertEqual(self.get("/health")[0], 200)

    def test_two_lengths_are_refused_and_the_connection_ends(self):
        hidden = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answer = self.server.raw(
            b"POST /api/models/gpt/tiny/paths-info/main HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 2\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + hidden)
        self.assertEqual(answer.count(b"HTTP/1.1 "), 1)
        self.assertIn(b" 400 ", answer.splitlines()[0])


class WithKey(HubCase):
    flags = ("--api-key", "hf_key")

    def test_only_its_holders_are_answered(self):
        paths = ("/", "/api/models", "/api/whoami-v2", "/gpt/tiny/resolve/main/config.json")
        for path in paths:
            for headers in ({}, {"Authorization": "Bearer hf_kex"}, {"Authorization": "hf_key"},
                            {"Authorization": "Bearer hf_key "}, {"Authorization": "Basic hf_key"}):
                status, answer, _ = self.get(path, headers=headers)
                # Blanks at the end of a header are none of its value.
                if headers.get("Authorization", "").endswith(" "):
                    continue
                self.assertEqual(status, 401, (path, headers))
                self.assertEqual(answer["X-Error-Message"],
                                 "Invalid credentials in Authorization header")
            self.assertEqual(self.get(path, headers={"Authorization": "Bearer hf_key"})[0], 200)
        self.assertEqual(self.get("/health")[0], 200)


class HostileFolders(HubCase):
    @classmethod
    def make_root(cls):
        super().make_root()
        tiny = cls.root / "gpt" / "tiny"
        outside = cls.root.parent / "outside"
        outside.mkdir()
        (outside / "secret").write_text("secret")

        def copy(name):
            shutil.copytree(tiny, cls.root / "bad" / name)
            return cls.root / "bad" / name / "iter_0000100"

        rank = "mp_rank_01_001"
        (copy("garbage") / rank / "model_optim_rng.pt").write_bytes(b"garbage" * 100)
        (copy("empty") / rank / "model_optim_rng.pt").write_bytes(b"")
        shutil.rmtree(copy("missing") / rank)
        pipe = copy("pipe") / rank / "model_optim_rng.pt"
        pipe.unlink()
        os.mkfifo(pipe)
        linked = copy("linked") / "tokenizer"
        linked.mkdir()
        (linked / "tokenizer.json").symlink_to(outside / "secret")
        linked = copy("linked_folder")
        shutil.move(linked, outside / "moved")
        linked.symlink_to(outside / "moved")
        dangling = copy("dangling") / "tokenizer"
        dangling.mkdir()
        (dangling / "tokenizer.json").symlink_to("nowhere")
        named = copy("named") / "tokenizer"
        named.mkdir()
        (named / WEIGHTS).write_text("not the weights")
        (copy("tracker").parent / "latest_checkpointed_iteration.txt").write_text("../../secret")
        shutil.rmtree(copy("gone"))

    def test_each_has_its_reason_and_the_others_are_served(self):
        for name, words in (("garbage", "model_optim_rng.pt"), ("empty", "model_optim_rng.pt"),
                            ("missing", "mp_rank_01_001"), ("pipe", "model_optim_rng.pt"),
                            ("linked", "expected a link to a file in the served folder"),
                            ("dangling", "leads nowhere"),
                            ("linked_folder", "leaves the served folder"),
                            ("named", "one with a name of the model's"),
                            ("tracker", "expected an iteration"), ("gone", "no such iteration")):
            revision = "main" if name in ("tracker", "gone") else "iter_0000100"
            for path in (f"/api/models/bad/{name}/revision/{revision}",
                         f"/bad/{name}/resolve/{revision}/config.json",
                         f"/bad/{name}/resolve/{revision}/tokenizer.json"):
                self.assertIn(words, self.refused(path, "RevisionNotFound"))
        self.assertEqual(self.file(WEIGHTS)[0], 200)
        self.assertEqual(len(self.json("/api/models")), 11)
        listed = self.get("/")[2].decode()
        self.assertIn("bad/tracker: ", listed.replace(str(self.root) + "/", ""))


class FlippedBits(HubCase):
    @classmethod
    def make_root(cls):
        """A byte of a stored file is another in each, in some of them one of a weight."""
        super().make_root()
        rank = pathlib.Path("iter_0000100", "mp_rank_00_000", "model_optim_rng.pt")
        original = (TINY / rank).read_bytes()
        generator = random.Random(2)
        for number in range(40):
            shutil.copytree(TINY, cls.root / "bad" / str(number))
            data = bytearray(original)
            data[generator.randrange(len(data))] ^= 1
            (cls.root / "bad" / str(number) / rank).write_bytes(data)

    def test_bytes_that_are_not_those_that_were_saved_are_not_sent(self):
        whole = export(TINY)[WEIGHTS]
        ends = 0
        for number in range(40):
            try:
                status, _, body = self.file(WEIGHTS, f"bad/{number}", "iter_0000100")
                self.assertIn(status, (200, 404))
                self.assertTrue(status == 404 or body == whole)
            except http.client.IncompleteRead as cut:
                ends += 1
                self.assertEqual(cut.partial, whole[:len(cut.partial)])
        self.assertGreater(ends, 0)
        self.assertIn("CRC-32: expected", self.server.log_text())


class Changes(HubCase):
    @classmethod
    def make_root(cls):
        super().make_root()
        write_llama(cls.root / "llama" / "large")

    def large(self):
        return self.root / "llama" / "large" / WEIGHTS

    def test_a_new_iteration_becomes_main_and_a_deleted_one_goes(self):
        run = self.root / "gpt" / "tiny"
        first = self.json("/api/models/gpt/tiny")["sha"]
        shutil.copytree(run / "iter_0000100", run / "iter_0000200")
        time.sleep(1.1)
        self.assertEqual(self.json("/api/models/gpt/tiny")["sha"], first)
        self.assertIn("above the tracker's",
                      self.refused("/gpt/tiny/resolve/iter_0000200/config.json", "RevisionNotFound"))
        (run / "latest_checkpointed_iteration.txt").write_text("200")
        second = self.json("/api/models/gpt/tiny")["sha"]
        self.assertNotEqual(second, first)
        self.assertEqual(self.file(WEIGHTS, revision="iter_0000200")[0], 200)
        shutil.rmtree(run / "iter_0000100")
        time.sleep(1.1)
        self.refused("/gpt/tiny/resolve/iter_0000100/config.json", "RevisionNotFound")
        self.refused(f"/gpt/tiny/resolve/{first}/config.json", "RevisionNotFound")

    def test_a_run_in_training_is_always_whole(self):
        run = self.root / "gpt" / "training"
        other = self.root.parent / "other"
        subprocess.run([PROGRAMS / "checkpoint_util", "--load-dir", TINY, "--save-dir", other,
                        "--target-params-dtype", "bf16", "--target-tensor-parallel-size", "1",
                        "--target-pipeline-parallel-size", "1"], check=True, capture_output=True)
        sources = [TINY / "iter_0000100", other / "iter_0000100"]
        expected = [export(TINY)[WEIGHTS], export(other)[WEIGHTS]]
        self.assertNotEqual(*map(len, expected))
        ended, seen = threading.Event(), []

        def save(iteration):
            source = sources[iteration % 2]
            for path in sorted(source.rglob("*.pt")):
                target = run / f"iter_{iteration:07}" / path.relative_to(source)
                target.parent.mkdir(parents=True)
                data = path.read_bytes()
                with target.open("wb") as file:
                    for at in range(0, len(data), len(data) // 4 + 1):
                        file.write(data[at:at + len(data) // 4 + 1])
                        file.flush()
                        time.sleep(0.02)
            tracker = run / "tracker"
            tracker.write_text(str(iteration))
            tracker.rename(run / "latest_checkpointed_iteration.txt")

        def download():
            while not ended.wait(0.005):
                status, _, body = self.get("/api/models/gpt/training")
                if status == 404:
                    continue
                # The commit of main may be deleted by now.
                sha = json.loads(body)["sha"]
                status, headers, body = self.file(WEIGHTS, "gpt/training", sha)
                if status == 404:
                    self.assertEqual(headers["X-Error-Code"], "RevisionNotFound")
                    continue
                self.assertIn(body, expected)
                seen.append(sha)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(download) for _ in range(4)]
            try:
                for iteration in range(1, 9):
                    save(iteration)
                    time.sleep(0.4)
                    shutil.rmtree(run / f"iter_{iteration - 3:07}", ignore_errors=True)
            finally:
                ended.set()
            for client in clients:
                client.result()
        self.assertGreater(len(set(seen)), 3)

    def begin(self):
        """A connection that has read the head and some bytes of a body that is far from its end."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", self.server.port))
        connection.sendall(f"GET /llama/large/resolve/main/{WEIGHTS} HTTP/1.1\r\n"
                           "Host: localhost\r\n\r\n".encode())
        data = b""
        while len(data) < 100_000:
            data += connection.recv(65536)
        return connection, data

    def finish(self, connection, data):
        parts = [data]
        while part := connection.recv(1 << 20):
            parts.append(part)
        connection.close()
        head, body = b"".join(parts).split(b"\r\n\r\n", 1)
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return length, body

    def test_a_deleted_or_truncated_file_never_gives_wrong_bytes(self):
        source = self.large().read_bytes()
        whole = export(self.large().parent)[WEIGHTS]
        for change in ("delete", "truncate", "replace"):
            connection, data = self.begin()
            if change == "truncate":
                os.truncate(self.large(), 1 << 20)
            else:
                self.large().unlink()
            if change == "replace":
                self.large().write_bytes(source[:1 << 20] + bytes(len(source) - (1 << 20)))
            # A client that waits has the connection closed, or all of it.
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            length, body = self.finish(connection, data)
            self.assertEqual(length, len(whole))
            got = body[:length]
            self.assertEqual(got, whole[:len(got)], change)
            if change == "truncate":
                self.assertLess(len(got), length)
                self.assertIn("the file was truncated", self.server.log_text())
            self.large().unlink(missing_ok=True)
            self.large().write_bytes(source)
            time.sleep(1.1)
        self.assertEqual(self.file(WEIGHTS, "llama/large")[2], whole)

    def test_the_tag_changes_with_the_file(self):
        tag = self.file(WEIGHTS, "llama/large", method="HEAD")[1]["ETag"]
        data = self.large().read_bytes()
        times = os.stat(self.large())
        self.large().write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        os.utime(self.large(), ns=(times.st_atime_ns, times.st_mtime_ns))
        time.sleep(1.1)
        self.assertNotEqual(self.file(WEIGHTS, "llama/large", method="HEAD")[1]["ETag"], tag)
        self.large().write_bytes(data)
        time.sleep(1.1)


class ManyClients(HubCase):
    # A client may have its last byte a little before its place is free: of 32 clients twice as many.
    limit = 70
    flags = ("--max-downloads", limit)

    @classmethod
    def make_root(cls):
        super().make_root()
        write_llama(cls.root / "llama" / "large")

    def test_32_at_once_get_the_same_bytes_in_bounded_memory(self):
        whole = export(self.root / "llama" / "large")[WEIGHTS]
        small = export(TINY)[WEIGHTS]

        def download(number):
            if number % 2:
                return self.file(WEIGHTS)[2] == small
            first = number * 1000
            status, _, body = self.file(WEIGHTS, "llama/large",
                                        headers={"Range": f"bytes={first}-{first + 12_000_000}"})
            return status == 206 and body == whole[first:first + 12_000_001]

        resident = []
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            for _ in range(8):
                self.assertTrue(all(pool.map(download, range(64))))
                resident.append(self.server.resident_kib())
        if self.server.is_sanitized():
            return
        self.assertLess(max(resident), 96 << 10)
        # As many buffers as downloads are there at once come and go.
        self.assertLess(max(resident[4:]) - max(resident[:4]), 24 << 10, resident)

    def test_more_than_the_limit_get_a_429(self):
        def begin():
            connection = self.server.connect()
            connection.sendall(f"GET /llama/large/resolve/main/{WEIGHTS} HTTP/1.1\r\n"
                               "Host: localhost\r\n\r\n".encode())
            return connection, connection.recv(100)

        time.sleep(1)  # until those of other tests are free
        taken = [begin() for _ in range(self.limit)]
        self.assertTrue(all(b" 200 " in data for _, data in taken))
        further, data = begin()
        self.assertIn(b" 429 ", data)
        further.close()
        # Small files have no limit of their own.
        self.assertEqual(self.file("config.json", "llama/large")[0], 200)
        for connection, _ in taken:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        for _ in range(600):
            if self.file(WEIGHTS, "llama/large", headers={"Range": "bytes=0-9"})[0] == 206:
                return
            time.sleep(0.1)
        self.fail("clients that went kept their places")


class SlowClients(HubCase):
    flags = ("--client-timeout", 1)

    @classmethod
    def make_root(cls):
        super().make_root()
        write_llama(cls.root / "llama" / "large")

    def test_one_that_does_not_read_is_let_go(self):
        slow = [self.server.connect() for _ in range(20)]
        for connection in slow:
            connection.sendall(f"GET /llama/large/resolve/main/{WEIGHTS} HTTP/1.1\r\n"
                               "Host: localhost\r\n\r\n".encode())
        self.assertEqual(self.file(WEIGHTS)[0], 200)
        for _ in range(300):
            if self.server.log_text().count(f"{WEIGHTS} 499 ") == len(slow):
                break
            time.sleep(0.1)
        self.assertEqual(self.server.log_text().count(f"{WEIGHTS} 499 "), len(slow))
        for connection in slow:
            connection.close()


class Ends(unittest.TestCase):
    def test_a_root_that_is_none_is_an_error(self):
        for root, words in (("/nowhere", "No such file"), (__file__, "expected a folder")):
            process = subprocess.run([PROGRAMS / "serve_checkpoints", root, "--port", "0"],
                                     capture_output=True, text=True)
            self.assertEqual(process.returncode, 1)
            self.assertIn(words, process.stderr)

    def test_a_key_of_nonsense_is_an_error(self):
        for text in ("", "two words", "\n", "x\x01"):
            with tempfile.NamedTemporaryFile("w") as key:
                key.write(text)
                key.flush()
                process = subprocess.run([PROGRAMS / "serve_checkpoints", TINY, "--port", "0",
                                          "--api-key-file", key.name], capture_output=True, text=True)
            self.assertEqual(process.returncode, 1)
            self.assertRegex(process.stderr, "expected (a key of visible ASCII|API keys)")

    def test_a_signal_ends_it_in_the_middle_of_a_download(self):
        server = ServerProcess(PROGRAMS / "serve_checkpoints", vocabulary=[str(TINY)])
        connection = server.connect()
        connection.sendall(b"GET /testdata/checkpoint/resolve/main/" + WEIGHTS.encode() +
                           b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertIn(b" 200 ", connection.recv(100))
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 10)
        connection.close()


if __name__ == "__main__":
    main()
