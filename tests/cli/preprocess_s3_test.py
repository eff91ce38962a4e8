#!/usr/bin/env python3
"""preprocess_data of objects in a store that moto plays: the datasets are those of the same files on this machine."""
import gzip
import json
import lzma
import os
import random
import subprocess
import sys

import preprocess_case
from moto_store import BUCKET, MotoStore
from preprocess_case import lines_of

try:
    import pyarrow as pa
    import pyarrow.parquet
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def texts_of(count, words=40):
    draw = random.Random(5)
    return [" ".join(draw.choices(["a", "word", "\u00e9t\u00e9", "lines\n", "\u4e2d"], k=draw.randrange(words)))
            for _ in range(count)]


class Store(MotoStore):
    def run_both(self, address, path, *flags):
        self.assert_done(self.run_program("--input", path, *flags, prefix=self.path("expected")))
        self.assert_done(self.run_program("--input", address, *flags, env=self.environment))
        self.assertEqual(self.output(), self.output("expected"))

    def test_all_formats(self):
        texts = texts_of(3000)
        lines = lines_of(texts).encode()
        csv = "text\n" + "".join('"{}"\n'.format(text.replace('"', '""')) for text in texts)
        for name, content in {"in.jsonl": lines, "array.json": json.dumps([{"text": text} for text in texts]),
                              "in.csv": csv, "in.txt": "\n".join(texts), "in.jsonl.gz": gzip.compress(lines),
                              "in.jsonl.xz": lzma.compress(lines), "empty.jsonl": "", "short.jsonl": lines_of(["a"]),
                              "in.jsonl.zst": pa.compress(lines, codec="zstd", asbytes=True)}.items():
            with self.subTest(name):
                self.run_both(*self.put("formats/" + name, content))

    def test_parquet(self):
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(pa.table({"text": texts_of(5000)}), sink, row_group_size=700)
        pair = self.put("in.parquet", sink.getvalue().to_pybytes())
        self.run_both(*pair)
        self.run_both(*pair, "--shard", "1/3", *("--output-prefix", self.path("ignored")))

    def test_an_object_of_many_requests(self):
        lines = lines_of(texts_of(4000, 1500))
        self.assertGreater(len(lines), 8 * preprocess_case.MIB)
        address, path = self.put("large.jsonl", lines)
        self.run_both(address, path, "--provenance", "--workers", "3")
        self.assertEqual(len(self.files("*.provenance")), 2)
        self.run_both(*self.put("large.jsonl.gz", gzip.compress(lines.encode(), 1)))

    def test_names_of_any_letters(self):
        for key in ("a b+c&d=e.jsonl", "day=2024-01-01/\u00e9~!*'().jsonl", "a%2Fb.jsonl", "a//b/../c.jsonl",
                    "x?y.jsonl"):
            with self.subTest(key):
                self.run_both(*self.put(key, lines_of([key])))

    def test_a_tokenizer_is_trained_of_objects(self):
        trained = []
        for source in self.put("corpus.jsonl", lines_of(texts_of(200))):
            folder = self.path(f"trained{len(trained)}")
            program = os.path.join(os.path.dirname(preprocess_case.PROGRAM), "train_tokenizer")
            subprocess.run([program, "--input", source, "--vocab-size", "300", "--output-dir", folder],
                           check=True, capture_output=True, env=self.environment)
            with open(os.path.join(folder, "merges.txt"), "rb") as file:
                trained.append(file.read())
        self.assertEqual(*trained)

    def test_folders_and_patterns_in_order(self):
        names = ["b10.jsonl", "b2.jsonl", "a.jsonl", "c.txt", ".hidden", "sub/b1.jsonl"]
        for name in names:
            self.put("tree/" + name, lines_of([name]) if name != "c.txt" else name)
        self.s3.put_object(Bucket=BUCKET, Key="tree/", Body=b"")
        for asked, expected in {"tree": ["a.jsonl", "b10.jsonl", "b2.jsonl", "c.txt"], "tree/": None,
                                "tree/b*.jsonl": ["b10.jsonl", "b2.jsonl"], "tree/[!a]?.jsonl": ["b2.jsonl"],
                                "tree/*/*": ["b1.jsonl"]}.items():
            expected = expected or ["a.jsonl", "b10.jsonl", "b2.jsonl", "c.txt"]
            with self.subTest(asked):
                self.assert_done(self.run_program("--input", *(self.path(name) for name in expected),
                                                  prefix=self.path("expected")))
                self.assert_done(self.run_program("--input", f"s3://{BUCKET}/{asked}", env=self.environment))
                self.assertEqual(self.output(), self.output("expected"))

    def test_more_objects_than_one_answer_lists(self):
        for i in range(1005):
            self.s3.put_object(Bucket=BUCKET, Key=f"many/{i:04}.txt", Body=b"%d" % i)
        self.assert_done(self.run_program("--input", f"s3://{BUCKET}/many", env=self.environment))
        self.assertEqual(len(self.documents()), 1005)

    def test_shards_are_those_of_files(self):
        pairs = [self.put(f"shards/{i}.jsonl", lines_of(texts_of(100 + 70 * i))) for i in range(3)]
        pairs.append(self.put("shards/z.jsonl.gz", gzip.compress(lines_of(texts_of(90)).encode())))
        for shard in range(5):
            for side, inputs in enumerate(zip(*pairs)):
                self.assert_done(self.run_program("--input", *inputs, "--shard", f"{shard}/5", "--provenance",
                                                  prefix=self.path("expected" if side else "out"),
                                                  env=self.environment))
            name = f"_shard{shard:05}of00005"
            self.assertEqual(self.output("out" + name), self.output("expected" + name))

    def test_credentials_of_files(self):
        address, path = self.put("a.jsonl", lines_of(["a"]))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
            self.environment.pop(name)
        self.assert_error(self.run_program("--input", address, env=self.environment), 1, "no credentials: expected ")
        os.mkdir(self.path(".aws"))
        self.write(".aws/credentials", "[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n"
                   f"\n[ours]\naws_access_key_id={self.access_key}\n# aws_secret_access_key = no\n"
                   f"AWS_SECRET_ACCESS_KEY = {self.secret_key} \n[process]\ncredential_process = /bin/false\n")
        self.write(".aws/config", f"[default]\nendpoint_url = {self.endpoint}\ns3 =\n  endpoint_url = http://nowhere\n"
                   f"[profile ours]\nendpoint_url = {self.endpoint}/\nregion = eu-west-3\n"
                   "[profile role]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = ours\n")
        for profile, error in {"": "does not know the access key",
                               "other": "AWS_PROFILE: expected a profile of .*other",
                               "role": "profile role: role_arn: .*not supported",
                               "process": "profile process: credential_process: .*not supported"}.items():
            result = self.run_program("--input", address, env={**self.environment, "AWS_PROFILE": profile})
            self.assert_error(result, 1, f".*{error}")
        self.environment["AWS_PROFILE"] = "ours"
        self.run_both(address, path)

    def test_what_is_wrong_is_one_line_without_secrets(self):
        address, _ = self.put("a.jsonl", lines_of(["a"]))
        wrong = {"AWS_SECRET_ACCESS_KEY": "another-secret"}
        for inputs, change, exit_code, pattern in (
                (address + "x", {}, 1, f"{address}x: no such object, and none in a folder of this name"),
                ("s3://no-such-bucket/a", {}, 1, "s3://no-such-bucket/a/?: no such bucket"),
                (f"s3://{BUCKET}/*.none", {}, 1, f".*/\\*.none: no object matches this pattern"),
                (f"s3://{BUCKET}", {}, 2, f"s3://{BUCKET}: expected s3://BUCKET/KEY"),
                (address, wrong, 1, f"{address}: the secret key does not belong to the access key .*HTTP 403"),
                (address, {"AWS_SECRET_ACCESS_KEY": ""}, 2,
                 "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: expected both"),
                (address, {"AWS_ENDPOINT_URL_S3": "127.0.0.1"}, 2, "endpoint: expected http:// or https://, found"),
                (address, {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "2"}, 1,
                 f"{address}: .*(onnect|refused)"),
                (address, {"AWS_MAX_ATTEMPTS": "none"}, 2, "AWS_MAX_ATTEMPTS: expected a number")):
            with self.subTest(pattern):
                result = self.run_program("--input", inputs, env={**self.environment, **change})
                self.assert_error(result, exit_code, pattern)
                self.assertEqual(result.stderr.count("error:"), 1)
                for secret in (self.secret_key, "another-secret"):
                    self.assertNotIn(secret, result.stderr + result.stdout)
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    preprocess_case.main()
