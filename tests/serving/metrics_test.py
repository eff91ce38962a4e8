#!/usr/bin/env python3
"""What GET /metrics tells, by the parser of Prometheus's own Python client.

metrics_test.py STAND_IN_SERVER
Skipped where the package prometheus_client is not installed.
"""

import json
import os
import sys
import time
import unittest
import urllib.request

from server_process import ServerProcess

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SERVER = os.path.abspath(sys.argv[1])


class MetricsTest(unittest.TestCase):
    def setUp(self):
        self.server = ServerProcess(SERVER, "--step-microseconds", 2000)
        self.addCleanup(self.server.stop)

    def samples(self):
        """{name: {labels: value}}"""
        url = f"http://127.0.0.1:{self.server.port}/metrics"
        with urllib.request.urlopen(url) as response:
            self.assertTrue(response.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
            text = response.read().decode()
        samples = {}
        for family in text_string_to_metric_families(text):
            self.assertTrue(family.documentation)
            for sample in family.samples:
                labels = tuple(sorted(sample.labels.items()))
                samples.setdefault(sample.name, {})[labels] = sample.value
        return samples

    def test_what_was_asked_is_counted(self):
        self.server.ask({"prompts": ["Hello"], "tokens_to_generate": 5})
        stream = {"prompt": "Hello world", "max_tokens": 7, "stream": True}
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}/v1/completions",
                                         json.dumps(stream).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            response.read()
        self.server.ask(None, "GET", "/v1/completions")
        for path in ("/nothing", '/"{}', "/v1/nothing"):
            self.server.ask(None, "GET", path.replace('"', "%22"))
        for _ in range(1000):  # a stream is counted after its end
            samples = self.samples()
            counts = samples["meg_requests_total"]
            if counts.get((("path", "/v1/completions"), ("status", "200"))):
                break
            time.sleep(0.01)
        self.assertEqual(counts[("path", "/api"), ("status", "200")], 1)
        self.assertEqual(counts[("path", "/v1/completions"), ("status", "200")], 1)
        self.assertEqual(counts[("path", "/v1/completions"), ("status", "405")], 1)
        self.assertEqual(counts[("path", "other"), ("status", "404")], 3)
        self.assertEqual(samples["meg_request_prompt_tokens_total"][()], 5)
        self.assertEqual(samples["meg_request_generated_tokens_total"][()], 12)
        self.assertEqual(samples["meg_engine_generated_tokens_total"][()], 12)
        self.assertEqual(samples["meg_request_seconds_count"][()], 2)
        self.assertEqual(samples["meg_first_token_seconds_count"][()], 1)
        buckets = samples["meg_request_seconds_bucket"]
        self.assertEqual(sorted(buckets.values()), list(buckets.values()))
        self.assertEqual(buckets[("le", "+Inf"),], 2)
        self.assertGreater(samples["meg_request_seconds_sum"][()], 0.02)
        self.assertEqual(samples["meg_queue_requests"][()], 0)
        self.assertEqual(samples["meg_active_texts"][()], 0)
        self.assertGreater(samples["meg_cache_capacity_tokens"][()], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
