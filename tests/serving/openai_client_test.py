#!/usr/bin/env python3
"""The server as OpenAI's own Python client meets it.

openai_client_test.py STAND_IN_SERVER
Skipped where the package openai is not installed.
"""

import os
import pathlib
import socket
import sys
import tempfile
import threading
import time
import unittest

from server_process import ServerProcess

try:
    import httpx2 as httpx
    import openai
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SERVER = os.path.abspath(sys.argv[1])
GREEDY = {"model": "stand-in", "prompt": "Hello world", "temperature": 0}


def client_of(server, **options):
    options = {"api_key": "none", "max_retries": 0, **options}
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", **options)


class Served(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess(SERVER, *cls.flags)
        cls.client = client_of(cls.server)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log_text()

    def complete(self, **request):
        return self.client.completions.create(**{**GREEDY, **request})

    def megatron(self, **request):
        """The texts of the same greedy request in Megatron's form, prompts included."""
        status, answer = self.server.ask({"prompts": ["Hello world"], "top_k": 1, **request})
        self.assertEqual(status, 200, answer)
        return answer


class Completions(Served):
    def test_the_text_is_that_of_megatrons_route(self):
        answer = self.complete(max_tokens=12)
        self.assertEqual("Hello world" + answer.choices[0].text,
                         self.megatron(tokens_to_generate=12)["text"][0])
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual((answer.usage.prompt_tokens, answer.usage.completion_tokens,
                          answer.usage.total_tokens), (3, 12, 15))
        self.assertEqual(answer.object, "text_completion")
        self.assertLess(abs(answer.created - time.time()), 60)

    def test_without_max_tokens_there_are_16(self):
        self.assertEqual(self.complete().usage.completion_tokens, 16)

    def test_all_forms_of_a_prompt_mean_the_same(self):
        ids = self.server.ask({"prompt": "Hello world"}, "POST", "/tokenize")[1]["tokens"]
        alone = self.complete(max_tokens=5).choices[0].text
        for prompt, choices in (("Hello world", 1), (ids, 1), ([ids], 1), (["Hello world", "And"], 2),
                                ([ids, ids, [5]], 3)):
            answer = self.complete(prompt=prompt, max_tokens=5)
            self.assertEqual([choice.index for choice in answer.choices], list(range(choices)))
            self.assertEqual(answer.choices[0].text, alone, prompt)

    def test_an_empty_prompt_begins_a_document(self):
        eod = self.server.ask({"prompt": "<|endoftext|>"}, "POST", "/tokenize")[1]["tokens"]
        self.assertEqual(len(eod), 1)
        texts = [self.complete(prompt=prompt, max_tokens=5).choices[0].text for prompt in ("", [eod])]
        self.assertEqual(texts[0], texts[1])

    def test_choices_of_a_prompt_follow_one_another_and_differ(self):
        answer = self.complete(prompt=["Hello", "And"], n=3, temperature=1, seed=5, max_tokens=8)
        self.assertEqual([choice.index for choice in answer.choices], list(range(6)))
        self.assertEqual(len({choice.text for choice in answer.choices}), 6)
        again = self.complete(prompt=["Hello", "And"], n=3, temperature=1, seed=5, max_tokens=8)
        self.assertEqual([choice.text for choice in again.choices],
                         [choice.text for choice in answer.choices])

    def test_null_is_the_default(self):
        names = ("max_tokens", "temperature", "top_p", "n", "seed", "stop", "logprobs", "logit_bias",
                 "presence_penalty", "frequency_penalty", "stream", "suffix", "best_of", "user")
        answer = self.server.ask({"prompt": "Hello", "top_k": 1, **dict.fromkeys(names)}, "POST",
                                 "/v1/completions")
        self.assertEqual(answer[0], 200, answer)
        self.assertEqual(answer[1]["usage"]["completion_tokens"], 16)

    def test_echo_with_log_probabilities_is_what_lm_eval_reads(self):
        """The prompt, exactly one token more, and null for the first."""
        answer = self.complete(prompt=[[800, 2252, 830], [5, 6]], max_tokens=1, logprobs=1, echo=True)
        for choice, ids in zip(answer.choices, ((800, 2252, 830), (5, 6)), strict=True):
            scores = choice.logprobs
            self.assertEqual(len(scores.token_logprobs), len(ids) + 1)
            self.assertIsNone(scores.token_logprobs[0])
            self.assertIsNone(scores.top_logprobs[0])
            self.assertEqual("".join(scores.tokens), choice.text)
            for token, logprob, top in list(zip(scores.tokens, scores.token_logprobs,
                                                scores.top_logprobs))[1:]:
                self.assertEqual(logprob, top[token])
                self.assertEqual(logprob, max(top.values()))  # the stand-in's own is the best one
            self.assertEqual(scores.text_offset, [sum(map(len, scores.tokens[:i]))
                                                  for i in range(len(scores.tokens))])

    def test_the_scores_are_those_of_megatrons_route(self):
        scored = self.complete(max_tokens=4, logprobs=0, echo=True).choices[0].logprobs
        megatron = self.megatron(tokens_to_generate=4, logprobs=True)
        self.assertEqual(scored.token_logprobs[1:], megatron["logprobs"][0])
        alone = self.complete(max_tokens=4, logprobs=0).choices[0].logprobs
        self.assertEqual(alone.token_logprobs, scored.token_logprobs[-4:])
        self.assertEqual(alone.text_offset[0], 0)

    def test_a_prompt_alone_can_be_scored(self):
        answer = self.complete(max_tokens=0, logprobs=3, echo=True)
        self.assertEqual(answer.choices[0].text, "Hello world")
        self.assertEqual([len(top) for top in answer.choices[0].logprobs.top_logprobs[1:]], [3, 3])
        self.assertEqual(answer.usage.completion_tokens, 0)

    def test_a_part_of_a_character_is_named_by_its_bytes(self):
        scores = self.complete(prompt="h\u20ac", max_tokens=0, logprobs=0, echo=True).choices[0].logprobs
        parts = [token for token in scores.tokens if token.startswith("bytes:")]
        self.assertTrue(parts, scores.tokens)
        joined = b"".join(bytes.fromhex(part[6:].replace("\\x", "")) for part in parts)
        self.assertEqual(joined, "\u20ac".encode())

    def test_stop_strings_cut_wherever_they_stand(self):
        whole = self.complete(max_tokens=60).choices[0].text
        for begin in range(1, len(whole) - 3):
            stop = whole[begin:begin + 3]
            if "\ufffd" in stop:
                continue
            for wanted in (stop, ["no such text", stop], [whole[begin:begin + 4], stop]):
                choice = self.complete(max_tokens=60, stop=wanted).choices[0]
                self.assertEqual(choice.text, whole[:whole.find(stop)])
                self.assertEqual(choice.finish_reason, "stop")

    def test_a_stop_string_ends_its_own_text_alone(self):
        texts = [choice.text for choice in self.complete(prompt=["Hello", "And"], max_tokens=40).choices]
        stop = texts[0][10:14]
        self.assertNotIn(stop, texts[1])
        answer = self.complete(prompt=["Hello", "And"], max_tokens=40, stop=stop)
        self.assertEqual([choice.text for choice in answer.choices], [texts[0].split(stop)[0], texts[1]])
        self.assertEqual([choice.finish_reason for choice in answer.choices], ["stop", "length"])

    def test_log_probabilities_end_where_the_text_is_cut(self):
        whole = self.complete(max_tokens=30, logprobs=0).choices[0].logprobs
        stop = whole.tokens[10]
        cut = self.complete(max_tokens=30, logprobs=0, stop=stop).choices[0]
        count = len(cut.logprobs.tokens)
        self.assertEqual(cut.logprobs.tokens, whole.tokens[:count])
        self.assertTrue("".join(cut.logprobs.tokens).startswith(cut.text))
        self.assertEqual(len(cut.logprobs.token_logprobs), count)

    def test_what_makes_no_difference_is_ignored(self):
        plain = self.complete(max_tokens=5).choices[0].text
        for more in ({"user": "me"}, {"extra_body": {"store": True, "metadata": {}, "top_k": 1}},
                     {"best_of": 1}, {"suffix": ""}, {"extra_body": {"repetition_penalty": 1.0}},
                     {"extra_body": {"top_k": -1}}, {"top_p": 1}, {"logit_bias": {}}):
            self.assertEqual(self.complete(max_tokens=5, **more).choices[0].text, plain, more)


class Streams(Served):
    flags = ("--step-microseconds", 2000)

    def test_the_pieces_make_up_the_whole(self):
        for more in ({}, {"logprobs": 2}, {"echo": True, "logprobs": 0}, {"n": 3, "temperature": 1},
                     {"prompt": ["Hello", "And"]}):
            request = {"max_tokens": 25, "seed": 3, **more}
            whole = self.complete(**request)
            texts = [""] * len(whole.choices)
            tokens, reasons, chunks = [[] for _ in texts], [None] * len(texts), 0
            for chunk in self.complete(stream=True, **request):
                chunks += 1
                for choice in chunk.choices:
                    self.assertIsNone(reasons[choice.index])
                    texts[choice.index] += choice.text
                    reasons[choice.index] = choice.finish_reason
                    if choice.logprobs:
                        tokens[choice.index] += choice.logprobs.token_logprobs
            self.assertEqual(texts, [choice.text for choice in whole.choices])
            self.assertEqual(reasons, ["length"] * len(texts))
            self.assertGreater(chunks, 15)
            for choice, scores in zip(whole.choices, tokens):
                self.assertEqual(scores, choice.logprobs.token_logprobs if choice.logprobs else [])

    def test_no_part_of_a_stop_string_is_sent(self):
        whole = self.complete(max_tokens=40).choices[0].text
        for begin in range(5, len(whole) - 12, 7):
            stop = whole[begin:begin + 8]
            if "\ufffd" in stop:
                continue
            pieces = [chunk.choices[0] for chunk in self.complete(max_tokens=40, stop=stop, stream=True)]
            self.assertEqual("".join(piece.text for piece in pieces), whole[:whole.find(stop)])
            self.assertEqual(pieces[-1].finish_reason, "stop")

    def test_usage_comes_last_where_it_is_asked_for(self):
        chunks = list(self.complete(max_tokens=7, stream=True, stream_options={"include_usage": True}))
        self.assertEqual([chunk.usage for chunk in chunks[:-1]], [None] * (len(chunks) - 1))
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual((chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens), (3, 7))

    def test_a_client_that_goes_away_frees_its_place(self):
        stream = self.complete(max_tokens=1000, stream=True)
        next(iter(stream))
        self.assertEqual(self.server.health()[1]["active"], 1)
        stream.close()
        for _ in range(500):
            if self.server.health()[1]["active"] == 0 and " 499 " in self.server.log_text():
                return
            time.sleep(0.01)
        self.fail(self.server.health())

    def test_an_error_before_the_first_token_is_a_status(self):
        with self.assertRaises(openai.BadRequestError):
            self.complete(max_tokens=1024, stream=True)


class StreamsThatWait(Served):
    flags = ("--slots", 1, "--step-microseconds", 500)

    def test_no_score_of_a_prompt_is_missing_before_its_turn(self):
        request = {"prompt": ["Hello world", "And"], "n": 2, "echo": True, "logprobs": 1, "max_tokens": 5}
        whole = [choice.logprobs.token_logprobs for choice in self.complete(**request).choices]
        scores = [[] for _ in whole]
        for chunk in self.complete(stream=True, **request):
            for choice in chunk.choices:
                scores[choice.index] += choice.logprobs.token_logprobs if choice.logprobs else []
        self.assertEqual(scores, whole)


class Chat(Served):
    flags = ("--chat", "--step-microseconds", 1000)
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
                {"role": "user", "content": "Who?"}]
    prompt = "system: Be short.\nuser: Hello\nassistant: Hi\nuser: Who?\nassistant:"

    def chat(self, **request):
        return self.client.chat.completions.create(
            **{"model": "stand-in", "messages": self.messages, "temperature": 0, "max_tokens": 12, **request})

    def test_an_answer_is_what_follows_the_templates_text(self):
        answer = self.chat()
        plain = self.complete(prompt=self.prompt, max_tokens=12)
        message = answer.choices[0].message
        self.assertEqual((message.role, message.content), ("assistant", plain.choices[0].text))
        self.assertEqual(answer.usage, plain.usage)
        self.assertEqual(answer.object, "chat.completion")

    def test_a_stream_is_the_same_in_pieces(self):
        for more in ({}, {"stop": "e"}, {"n": 2, "temperature": 1, "seed": 5}):
            whole = self.chat(**more)
            texts, reasons = {}, {}
            for chunk in self.chat(stream=True, stream_options={"include_usage": True}, **more):
                for choice in chunk.choices:
                    if choice.index not in texts:
                        self.assertEqual(choice.delta.role, "assistant")
                    texts[choice.index] = texts.get(choice.index, "") + choice.delta.content
                    reasons[choice.index] = choice.finish_reason
            self.assertEqual(list(texts.values()), [choice.message.content for choice in whole.choices])
            self.assertEqual(list(reasons.values()), [choice.finish_reason for choice in whole.choices])
            self.assertEqual(chunk.usage, whole.usage)

    def test_log_probabilities_are_those_of_completions(self):
        scores = self.chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
        plain = self.complete(prompt=self.prompt, max_tokens=12, logprobs=3).choices[0].logprobs
        self.assertEqual([token.logprob for token in scores], plain.token_logprobs)
        self.assertEqual([token.token for token in scores], plain.tokens)
        for token, top in zip(scores, plain.top_logprobs):
            self.assertEqual({other.token: other.logprob for other in token.top_logprobs}, top)
            if not token.token.startswith("bytes:"):
                self.assertEqual(bytes(token.bytes).decode(), token.token)

    def test_without_max_tokens_all_positions_are_used(self):
        answer = self.chat(max_tokens=None, extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.total_tokens, 1024)

    def test_a_template_gets_its_own_variables(self):
        for more, end in (({"chat_template_kwargs": {"b": 1, "a": [None, {"z": 1, "y": 2.5}]}},
                           'b=1\na=[null,{"z":1,"y":2.5}]\nassistant:'),
                          ({"documents": [{"title": "t", "text": "x"}], "chat_template_kwargs": {"enable_thinking": False}},
                           'enable_thinking=false\ndocuments=[{"title":"t","text":"x"}]\nassistant:'),
                          ({"chat_template_kwargs": {}, "documents": None}, "assistant:"),
                          ({"add_generation_prompt": False}, "")):
            answer = self.chat(extra_body=more)
            plain = self.complete(prompt=self.prompt.removesuffix("assistant:") + end, max_tokens=12)
            self.assertEqual(answer.choices[0].message.content, plain.choices[0].text)
            self.assertEqual(answer.usage, plain.usage)

    def test_the_last_message_may_be_continued(self):
        for more in ({"continue_final_message": True},
                     {"continue_final_message": True, "add_generation_prompt": False}):
            answer = self.chat(messages=self.messages[:3], extra_body=more)
            plain = self.complete(prompt="system: Be short.\nuser: Hello\nassistant: Hi", max_tokens=12)
            self.assertEqual(answer.choices[0].message.content, plain.choices[0].text)

    def test_what_it_does_not_do_is_refused(self):
        for more, words in (({"chat_template_kwargs": {"messages": []}}, "must not have messages"),
                            ({"chat_template_kwargs": {"tokenize": False}}, "must not have tokenize"),
                            ({"chat_template_kwargs": [1]}, "must be an object"),
                            ({"chat_template_kwargs": {str(i): i for i in range(1001)}}, "at most 1000 keys"),
                            ({"documents": [], "user": {str(i): i for i in range(1001)}}, "at most 1000 keys"),
                            ({"documents": ["a"]}, "a list of objects"),
                            ({"documents": {"a": 1}}, "a list of objects"),
                            ({"add_generation_prompt": 1}, "true or false"),
                            ({"add_generation_prompt": True, "continue_final_message": True}, "cannot both be true"),
                            ({"chat_template": "{{ 1 }}"}, "not supported"),
                            ({"echo": True}, "not supported")):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.chat(extra_body=more)
            self.assertIn(words, caught.exception.message)
        for request, words in (({"messages": []}, "1 to 1024 messages"),
                               ({"messages": [{"role": "tool", "content": "x"}]}, "the role system"),
                               ({"messages": [{"role": "user", "content": 5}]}, "a text as content"),
                               ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
                                "a text as content"),
                               ({"messages": [{"role": "user", "content": "refuse"}]}, "are refused"),
                               ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
                               ({"response_format": {"type": "json_object"}}, "response_format"),
                               ({"top_logprobs": 3}, "needs logprobs true")):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.chat(**request)
            self.assertIn(words, caught.exception.message)
        self.chat(tools=[], response_format={"type": "text"})


class Errors(Served):
    flags = ("--slots", 1, "--max-queue", 1, "--step-microseconds", 5000, "--max-request-bytes", 100000)

    def refused(self, kind, words, **request):
        with self.assertRaises(kind) as caught:
            self.complete(**request)
        self.assertIn(words, caught.exception.message)
        return caught.exception

    def test_wrong_values_are_named(self):
        for more, param, words in (
                ({"temperature": -1}, "temperature", "from 0 to 100"),
                ({"top_p": 1.5}, "top_p", "at most 1"),
                ({"top_p": 0}, "top_p", "greater than 0"),
                ({"n": 0}, "n", "an integer from 1 to 128"),
                ({"n": 200}, "n", "an integer from 1 to 128"),
                ({"prompt": ["a"] * 100, "n": 2}, "prompt", "the maximum is 128"),
                ({"prompt": [[1, 1 << 40]]}, "prompt", "ids from 0 to 2256"),
                ({"prompt": [5, -1]}, "prompt", "found -1 at 1"),
                ({"prompt": [5, "a"]}, "prompt", 'found "a" at 1'),
                ({"prompt": 5}, "prompt", "a string"),
                ({"prompt": []}, "prompt", "at least one"),
                ({"logprobs": 21}, "logprobs", "from 0 to 20"),
                ({"logprobs": True}, "logprobs", "from 0 to 20"),
                ({"stop": ""}, "stop", "1 to 1024 bytes"),
                ({"stop": ["a"] * 65}, "stop", "the maximum is 64"),
                ({"stop": [5]}, "stop", "found 5"),
                ({"max_tokens": 2000}, "max_tokens", "at most 1024"),
                ({"max_tokens": -1}, "max_tokens", "greater than or equal to 0"),
                ({"logit_bias": {"99999": 1}}, "logit_bias", "ids from 0 to 2256"),
                ({"logit_bias": {"5": 101}}, "logit_bias", "from -100 to 100"),
                ({"logit_bias": {"5": 1, "05": 2}}, "logit_bias", "twice"),
                ({"presence_penalty": 3}, "presence_penalty", "from -2 to 2"),
                ({"stream_options": {"include_usage": True}}, "stream_options", "needs stream"),
                ({"suffix": "x"}, "suffix", "not supported"),
                ({"best_of": 3}, "best_of", "not supported"),
                ({"extra_body": {"min_p": 0.1}}, "min_p", "not supported"),
                ({"temperature": 1, "extra_body": {"top_k": 5, "top_p": 0.5}}, "top_k", "cannot both be set"),
                ({"extra_body": {"temprature": 1}}, None, "did you mean temperature?"),
                ({"extra_body": {"tokens_to_generate": 1}}, None, "max_tokens is its name here")):
            error = self.refused(openai.BadRequestError, words, **more)
            self.assertEqual((error.param, error.type), (param, "invalid_request_error"), more)

    def test_a_prompt_beyond_the_positions_is_told_the_limit(self):
        error = self.refused(openai.BadRequestError, "1024 positions", prompt=[[5] * 1025], max_tokens=1)
        self.assertIn("max_length=1024", error.message)
        self.assertEqual(error.code, "context_length_exceeded")

    def test_another_model_is_not_found(self):
        error = self.refused(openai.NotFoundError, "stand-in is", model="gpt-4")
        self.assertEqual(error.status_code, 404)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("gpt-4")
        with self.assertRaises(openai.NotFoundError):
            self.client.embeddings.create(model="stand-in", input="a")

    def test_log_probabilities_of_too_many_tokens_are_refused_first(self):
        before = self.server.health()[1]
        self.refused(openai.BadRequestError, "the maximum is 2097152",
                     prompt=[[5] * 100], n=128, max_tokens=900, logprobs=20)
        self.assertEqual(self.server.health()[1]["active"], before["active"])

    def test_too_large_is_413(self):
        with self.assertRaises(openai.APIStatusError) as caught:
            self.complete(prompt="a" * 200000)
        self.assertEqual(caught.exception.status_code, 413)
        self.assertIn("larger than 100000 bytes", caught.exception.message)

    def test_chat_needs_a_template(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="stand-in",
                                                messages=[{"role": "user", "content": "Hello"}])
        self.assertIn("no chat template", caught.exception.message)

    def test_a_full_queue_is_a_429_which_a_client_retries(self):
        slow = [self.complete(max_tokens=200, stream=True), ]
        next(iter(slow[0]))
        waiting = socket.create_connection(("127.0.0.1", self.server.port))
        body = b'{"prompt": "Hello", "max_tokens": 50}'
        waiting.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                        b"application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        while self.server.health()[1]["queue"] < 1:
            time.sleep(0.01)
        error = self.refused(openai.RateLimitError, "the queue is full")
        self.assertEqual(error.response.headers["retry-after"], "1")
        self.assertEqual(client_of(self.server, max_retries=5).completions.create(
            **GREEDY).usage.completion_tokens, 16)
        waiting.close()

    def test_a_client_may_give_up_waiting(self):
        with self.assertRaises(openai.APITimeoutError):
            client_of(self.server, timeout=0.2).completions.create(**GREEDY, max_tokens=900)
        for _ in range(500):
            if self.server.health()[1]["active"] == 0:
                return
            time.sleep(0.01)
        self.fail(self.server.health())


class Ends(unittest.TestCase):
    def test_a_stream_ends_with_the_reason_when_the_server_does(self):
        server = ServerProcess(SERVER, "--step-microseconds", 100000, "--grace-milliseconds", 1000)
        stream = iter(client_of(server).completions.create(**GREEDY, max_tokens=900, stream=True))
        next(stream)
        ended = threading.Thread(target=server.stop)
        ended.start()
        with self.assertRaises(openai.APIError) as caught:
            for _ in stream:
                pass
        self.assertIn("the server is shutting down", caught.exception.message)
        ended.join()
        self.assertEqual(server.process.returncode, 0)

    def test_a_request_that_takes_too_long_ends_its_stream(self):
        server = ServerProcess(SERVER, "--step-microseconds", 100000, "--request-timeout", 1)
        with self.assertRaises(openai.APIError) as caught:
            for _ in client_of(server).completions.create(**GREEDY, max_tokens=900, stream=True):
                pass
        self.assertIn("took longer than 1 s", caught.exception.message)
        self.assertEqual(server.stop(), 0)

    def test_keys_come_from_the_file_the_command_line_or_the_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("from-file\n\nsecond\n")
            for flags, environment, accepted, refused in (
                    (("--api-key-file", keys), {}, ("from-file", "second"), ("from-environment",)),
                    (("--api-key", "a", "b", "--api-key-file", keys), {"MEG_API_KEY": "c"},
                     ("a", "b", "second"), ("c",)),
                    ((), {"MEG_API_KEY": "from-environment"}, ("from-environment",), ("from-file",))):
                server = ServerProcess(SERVER, *flags, environment={**os.environ, **environment})
                for key in accepted:
                    self.assertEqual(client_of(server, api_key=key).models.list().data[0].id, "stand-in")
                for key in refused:
                    with self.assertRaises(openai.AuthenticationError) as caught:
                        client_of(server, api_key=key).completions.create(**GREEDY)
                    self.assertEqual(caught.exception.code, "invalid_api_key")
                self.assertEqual(server.stop(), 0)

    def test_a_unix_socket_serves_the_client_too(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "socket"
            server = ServerProcess(SERVER, "--host", f"unix:{path}")
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as http:
                client = openai.OpenAI(base_url="http://localhost/v1", api_key="none", http_client=http)
                self.assertEqual(client.completions.create(**GREEDY).usage.completion_tokens, 16)
            self.assertEqual(server.stop(), 0)
            self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
