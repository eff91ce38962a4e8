#!/usr/bin/env python3
"""Many mixed requests of 64 clients at once: no wrong answer, no growth of memory.

server_soak_test.py STAND_IN_SERVER [REQUESTS]
"""

import concurrent.futures
import json
import os
import random
import sys

from server_process import ServerProcess

SERVER = os.path.abspath(sys.argv[1])
REQUESTS = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
CLIENTS = 64
ROUNDS = 10
WORDS = "In the beginning God created the heaven and the earth : héllo wörld 字 \n".split(" ")


def random_request(generator):
    """Any of the request's forms; what it is answered depends on it alone."""
    def prompt():
        return " ".join(generator.choices(WORDS, k=generator.randint(1, 40)))
    kind = generator.random()
    if kind < 0.05:
        return generator.choice([b"{", b'{"prompts": 5}', b'{"prompts": ["a"], "top_k": -1}',
                                 b'{"prompts": ["\xff"]}', b'{"prompt": "a"}'])
    if kind < 0.1:
        return {"prompts": [prompt()], "tokens_to_generate": generator.randint(1, 5),
                "beam_width": generator.randint(1, 4)}
    request = {"prompts": [prompt() for _ in range(generator.choice([1, 1, 1, 2, 8]))],
               "tokens_to_generate": generator.randint(0, 40), "logprobs": True,
               "random_seed": generator.randrange(2**62)}
    if kind < 0.4:
        request.update(top_k=1)
    elif kind < 0.6:
        request.update(top_p=0.9, top_p_decay=0.99, top_p_bound=0.5, temperature=0.7)
    if kind > 0.9:
        request.update(add_BOS=True, prompts=[""], no_log=True)
    return request


def random_openai_request(generator):
    """The same of OpenAI's form: a stream is asked for whole and in pieces."""
    request = {"prompt": [generator.choices(range(2000), k=generator.randint(1, 40))
                          for _ in range(generator.choice([1, 1, 4]))],
               "max_tokens": generator.randint(0, 40), "seed": generator.randrange(2**62),
               "echo": generator.random() < 0.5, "stream": generator.random() < 0.4}
    if generator.random() < 0.5:
        request["logprobs"] = generator.randint(0, 5)
    if generator.random() < 0.3:
        request["stop"] = generator.choices(["e", "the", " a", "in"], k=2)
    if generator.random() < 0.1:
        request["n"] = generator.choice([3, 1000])
    return request


def is_openai(request):
    return isinstance(request, dict) and "prompt" in request


def ask(server, request):
    """(status, answer), without what is new each time."""
    if not is_openai(request):
        return server.ask(request)
    status, answer = server.ask_openai(request)
    for part in answer if isinstance(answer, list) else [answer]:
        for key in ("id", "created"):
            part.pop(key, None)
    if isinstance(answer, list):  # how many tokens a piece has depends on the load
        texts = {}
        for part in answer:
            for choice in part["choices"]:
                text = texts.setdefault(choice["index"], ["", [], None])
                text[0] += choice["text"]
                text[1] += (choice["logprobs"] or {}).get("token_logprobs", [])
                text[2] = choice["finish_reason"]
        return status, texts
    return status, answer


def check_form(request, status, answer):
    if is_openai(request):
        assert status == (400 if request.get("n") == 1000 else 200), (request, status, answer)
        return
    if isinstance(request, bytes):
        assert status == 400 and list(answer) == ["message"], (request, status, answer)
        return
    assert status == 200, (request, status, answer)
    texts = request.get("beam_width") or len(request["prompts"])
    assert len(answer["text"]) == len(answer["segments"]) == texts, (request, answer)


def main():
    generator = random.Random(11)
    requests = [generator.choice([random_request, random_openai_request])(generator)
                for _ in range(REQUESTS // ROUNDS)]
    server = ServerProcess(SERVER, "--slots", 16)
    try:
        soak(server, requests)
    finally:
        code = server.stop()
    assert code == 0, server.log_text()


def soak(server, requests):
    alone = [ask(server, request) for request in requests]
    for request, (status, answer) in zip(requests, alone):
        check_form(request, status, answer)
    resident = []
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        for _ in range(ROUNDS):
            order = random.Random(len(resident)).sample(range(len(requests)), len(requests))
            together = pool.map(lambda i: (i, ask(server, requests[i])), order)
            for number, answer in together:
                assert answer == alone[number], (requests[number], alone[number], answer)
            resident.append(server.resident_kib())
    assert server.health()[1]["active"] == 0 and server.health()[1]["queue"] == 0
    # Threads, caches and buffers are there after the first half; the second must not add to them.
    growth = resident[-1] - resident[ROUNDS // 2 - 1]
    print(json.dumps({"requests": ROUNDS * len(requests), "resident_kib": resident}))
    assert growth < 4096 or server.is_sanitized(), f"memory grew by {growth} KiB: {resident}"


if __name__ == "__main__":
    main()
