#!/usr/bin/env python3
"""A text generation server under load beside the same texts made offline.

server_bench.py SERVER FLAGS ...                     what the server is: a program and its flags
  [--clients 64] [--requests 640] [--tokens 64] [--seconds 10] [--soak N] [--beside N] [--generate GENERATE] [--stream]

First GENERATE makes all texts offline with the same flags, as one batch after another (without it,
that part is left out; a stand-in has none), and the server's texts are compared with them. Then 64
clients ask for them at once, each one prompt at a time: tokens/s, p50 and p99. Then `wrk` asks for
the same prompt for some seconds. --soak: so many mixed requests of 64 clients, and what memory the
server has at the end of each tenth. --beside: what a request for one token takes while another client
has N prompts of some 1000 tokens scored. --stream: the clients ask /v1/completions for streams instead of
PUT /api, and the times to first tokens are told, too.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "serving"))
from server_process import ServerProcess  # noqa: E402

WORDS = "time people way water words day part sound work place years live back give most very".split()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=640)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--soak", type=int, default=0)
    parser.add_argument("--beside", type=int, default=0)
    parser.add_argument("--batch", type=int, default=16, help="texts at a time, on both sides")
    parser.add_argument("--batch-flag", default="--max-batch-size")
    parser.add_argument("--generate")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("server")
    return parser.parse_known_args()


def make_prompts(count):
    generator = random.Random(3)
    return [" ".join(generator.choices(WORDS, k=generator.randint(4, 24))) for _ in range(count)]


def offline(arguments, flags, prompts):
    """Texts after the prompts and tokens/s."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "prompts.jsonl"
        path.write_text("".join(json.dumps({"text": prompt}) + "\n" for prompt in prompts))
        done = subprocess.run(
            [arguments.generate, *flags, "--prompt-file", str(path), "--tokens-to-generate",
             str(arguments.tokens), "--greedy", "--micro-batch-size", str(arguments.batch)],
            capture_output=True, text=True, check=True)
    speed = float(re.search(r"([\d.]+) tokens/s", done.stderr).group(1))
    return [json.loads(line)["text"] for line in done.stdout.splitlines()], speed


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def new_tokens(server):
    """That it has made so far, by its log."""
    return sum(map(int, re.findall(r" 200 .* tokens \d+\+(\d+) ", server.log_text())))


def read_stream(server, arguments, prompt):
    """(seconds until each part came, prompt and text)"""
    start = time.monotonic()
    body = json.dumps({"prompt": prompt, "max_tokens": arguments.tokens, "temperature": 0, "stream": True})
    with server.connect(3600) as connection:
        connection.sendall((f"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
                            f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        parts, times = [], []
        while part := connection.recv(65536):
            times.append(time.monotonic() - start)
            parts.append(part)
    answer = b"".join(parts).decode()  # read when all has come: its cost is not the server's
    assert answer.startswith("HTTP/1.1 200") and answer.endswith("data: [DONE]\n\n"), answer[-1000:]
    events = [json.loads(line[6:]) for line in answer.splitlines()
              if line.startswith("data: {")]
    return times, prompt + "".join(event["choices"][0]["text"] for event in events)


def load(server, arguments, prompts):
    firsts = []

    def ask(prompt):
        if arguments.stream:
            times, text = read_stream(server, arguments, prompt)
            firsts.append(times[0])
            return times[-1], text
        start = time.monotonic()
        status, answer = server.ask({"prompts": [prompt], "tokens_to_generate": arguments.tokens,
                                     "top_k": 1}, timeout=3600)
        assert status == 200, answer
        return time.monotonic() - start, answer["text"][0]
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.clients) as pool:
        answers = list(pool.map(ask, prompts))
    seconds = time.monotonic() - start
    if firsts:
        print(f"first tokens: p50 {statistics.median(firsts) * 1e3:.0f} ms, least {min(firsts) * 1e3:.1f} ms")
    return answers, seconds


def first_token(server, arguments):
    """One client with prompts of one token: its first token beside a step, the time to each further one."""
    runs = [read_stream(server, arguments, "Hello")[0] for _ in range(20)]
    first = statistics.median(times[0] for times in runs)
    step = statistics.median(b - a for times in runs for a, b in zip(times, times[1:-1]))
    print(f"alone: first token {first * 1e3:.2f} ms, a step {step * 1e3:.2f} ms ({first / step:.2f} x)")


def run_wrk(server, arguments):
    if shutil.which("wrk") is None:
        print("wrk: not installed")
        return
    body = json.dumps({"prompts": ["Hello world"], "tokens_to_generate": arguments.tokens, "top_k": 1})
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(f"wrk.method = 'PUT'\nwrk.body = '{body}'\n"
                     "wrk.headers['Content-Type'] = 'application/json'\n")
        script.flush()
        done = subprocess.run(
            ["wrk", "-t2", f"-c{arguments.clients}", f"-d{arguments.seconds}s", "--timeout", "60s",
             "--latency", "-s", script.name, f"http://127.0.0.1:{server.port}/api"],
            capture_output=True, text=True, check=True)
    assert "Non-2xx" not in done.stdout, done.stdout
    print(done.stdout)


def soak(server, arguments):
    generator = random.Random(7)
    requests = [{"prompts": [prompt], "tokens_to_generate": generator.randint(1, 16),
                 "random_seed": number} for number, prompt in enumerate(make_prompts(200))]
    alone = [server.ask(request) for request in requests]
    resident = []
    with concurrent.futures.ThreadPoolExecutor(arguments.clients) as pool:
        for _ in range(10):
            order = generator.choices(range(len(requests)), k=arguments.soak // 10)
            for number, answer in pool.map(lambda i: (i, server.ask(requests[i], timeout=3600)), order):
                assert answer == alone[number], (requests[number], answer)
            resident.append(server.resident_kib() // 1024)
    print(f"soak: {arguments.soak} requests, every answer as alone, resident MiB {resident}")


def beside(server, arguments):
    one = {"prompts": ["Hello"], "tokens_to_generate": 1, "top_k": 1}
    # No two begin alike, as a shared beginning would be read once.
    scored = {"prompts": [" ".join([str(number), *["time people way water"] * 248])
                          for number in range(arguments.beside)],
              "tokens_to_generate": 0, "logprobs": True}

    def timed(request):
        start = time.monotonic()
        status, answer = server.ask(request, timeout=3600)
        assert status == 200, answer
        return time.monotonic() - start
    alone = statistics.median(timed(one) for _ in range(10))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(timed, scored)
        time.sleep(0.5)
        times = []
        while not running.done():
            times.append(timed(one))
    print(f"beside {arguments.beside} scored prompts ({running.result():.1f} s): one token takes "
          f"{statistics.median(times):.3f} s, at most {max(times):.3f} s; alone {alone:.3f} s")


def main():
    arguments, flags = parse_arguments()
    prompts = make_prompts(arguments.requests)
    texts, offline_speed = (offline(arguments, flags, prompts) if arguments.generate
                            else (None, None))
    server = ServerProcess(arguments.server, *flags, arguments.batch_flag, arguments.batch,
                           vocabulary=[])
    try:
        load(server, arguments, prompts[:arguments.clients])  # caches and pages
        before = new_tokens(server)
        answers, seconds = load(server, arguments, prompts)
        if texts is not None:
            assert [answer[1] for answer in answers] == [a + b for a, b in zip(prompts, texts)]
            print(f"offline: {offline_speed:.0f} tokens/s; the texts are equal")
        times = [answer[0] for answer in answers]
        speed = (new_tokens(server) - before) / seconds
        p50, p99 = statistics.median(times), percentile(times, 0.99)
        share = f", {100 * speed / offline_speed:.0f} % of offline" if offline_speed else ""
        print(f"server: {arguments.clients} clients, {len(prompts)} requests, {speed:.0f} tokens/s{share}, "
              f"p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms ({p99 / p50:.2f} x)")
        if arguments.stream:
            first_token(server, arguments)
        run_wrk(server, arguments)
        if arguments.beside:
            beside(server, arguments)
        if arguments.soak:
            soak(server, arguments)
    finally:
        code = server.stop()
    assert code == 0, server.log_text()[-2000:]


if __name__ == "__main__":
    main()
