"""What lines may say, and those that are refused or left out."""
import json
import os
import re

from pack_dataset import pack_case
from pack_dataset.chat_templates import TEMPLATES, each


class Lines(pack_case.PackCase):
    def test_formats(self):
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "a b"}, {"role": "assistant", "content": "c d"}]
        names = {"system": "system", "user": "human", "assistant": "gpt"}
        shared = [{"from": names[m["role"]], "value": m["content"]} for m in messages]
        self.write("formats.jsonl", [
            {"messages": messages}, {"conversations": shared}, {"conversations": shared[1:], "system": "s", "id": 7},
            {"prompt": messages[:2], "completion": messages[2:]}, {"conversations": messages}])
        made = self.in_order("formats.jsonl", "--chat-template", "chatml")
        self.assertEqual(made, [self.judged(messages, TEMPLATES["chatml"])] * 5)
        self.write("pairs.jsonl", [{"prompt": "a b", "completion": "c d"}])
        self.assertEqual(self.in_order("pairs.jsonl", "--chat-template", "chatml"), [self.judged(messages[1:], TEMPLATES["chatml"])])

    def test_tools_and_parts(self):
        """What only some templates read, as they render it; others that would leave it out or print it are refused."""
        call = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome", "days": 2}}}
        tools = [{"type": "function", "function": {"name": "weather", "description": "Says it.", "parameters": {"type": "object"}}}]
        said = [{"role": "user", "content": [{"type": "text", "text": "How is "}, {"type": "text", "text": "Rome?"}]},
                {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "content": "sunny", "name": "weather"},
                {"role": "assistant", "content": "It is sunny."}]
        template = ("{% if tools %}{% for tool in tools %}<|system|>{{ tool | tojson }}\n{% endfor %}{% endif %}" + each(
            "<|{{ message.role }}|>{% if message.role == 'assistant' %}{% generation %}{% for call in message.tool_calls or [] %}"
            "{{ call.function.name }}({{ call.function.arguments | tojson }})\n{% endfor %}{{ message.content or '' }}</s>{% endgeneration %}"
            "{% elif message.content is string %}{{ message.content }}{% else %}"
            "{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}"))
        with open(self.path("t.jinja"), "w") as file:
            file.write(template)
        self.write("tools.jsonl", [{"messages": said, "tools": tools}, {"messages": said, "tools": json.dumps(tools)}, {"messages": said[2:]}])
        made = self.in_order("tools.jsonl", "--chat-template", self.path("t.jinja"))

        def judged(messages, tools):
            made = self.tokenizer.apply_chat_template(messages, tools=tools, chat_template=template, tokenize=True, return_dict=True,
                                                      return_assistant_tokens_mask=True)
            return made["input_ids"], made["assistant_masks"]
        self.assertEqual(made, [judged(said, tools)] * 2 + [judged(said[2:], None)])
        for name in ("chatml", "llama3", "mistral", "nemotron-h-aligned", "nemotron-nano-v2"):
            for messages, why in ((said[:1] + said[3:], "list of parts"), (said[1:], "tool calls")):
                self.write("refused.jsonl", [{"messages": messages}])
                done = self.run_pack("refused.jsonl", "--chat-template", name, out="failed")
                self.assertEqual(done.returncode, 1)
                self.assertIn(why, done.stderr)
        with open(self.path("t.jinja"), "w") as file:
            file.write(each("{{ message.role }}: {{ message.content }}\n"))
        self.write("refused.jsonl", [{"messages": said[:1] + said[3:]}])
        done = self.run_pack("refused.jsonl", "--chat-template", self.path("t.jinja"), out="failed")
        self.assertIn("message 0: the chat template does not read a list of parts as content", done.stderr)

    def test_odd_contents(self):
        user, answer = {"role": "user", "content": ""}, {"role": "assistant", "content": ""}
        self.write("empty.jsonl", [{"messages": [user, answer]}])
        self.assertEqual(self.in_order("empty.jsonl", "--chat-template", "chatml"), [self.judged([user, answer], TEMPLATES["chatml"])])
        for content, why in ((None, "found none"), (3, "found number"), ({}, "found object")):
            self.write("odd.jsonl", [{"messages": [{**user, "content": content}, answer]}])
            done = self.run_pack("odd.jsonl", "--chat-template", "chatml", out="failed")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f'message 0: ', done.stderr)
            self.assertIn(why, done.stderr)
        deep = "[" * 5000 + "]" * 5000
        for line in (json.dumps({"messages": [user, answer], "tools": deep}),
                     json.dumps({"messages": [user, answer], "meta": {f"key {i}": i for i in range(5000)}})):
            self.write("odd.jsonl", [line])
            done = self.run_pack("odd.jsonl", "--chat-template", "chatml", out="failed")
            self.assertEqual(done.returncode, 1)
            self.assertIn("expected at most 1000", done.stderr)

    def test_conversations_that_are_left_out(self):
        user, answer = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
        self.write("odd.jsonl", [{"messages": []}, {"messages": [user]}, {"messages": [user, answer]},
                                 {"messages": [{**user, "content": "word " * 50}, answer]}])
        counts = self.pack("odd.jsonl", "--chat-template", "chatml", length=20)
        self.assertEqual({key: counts[key] for key in ("conversations", "packed", "empty", "without_an_answer", "without_a_token_to_learn")},
                         {"conversations": 4, "packed": 1, "empty": 1, "without_an_answer": 1, "without_a_token_to_learn": 1})
        counts = self.pack("odd.jsonl", "--chat-template", "chatml", "--loss-on", "all", length=20)
        self.assertEqual((counts["packed"], counts["truncated"], counts["empty"]), (3, 1, 1))
        self.write("none.jsonl", [{"messages": [user]}])
        done = self.run_pack("none.jsonl", "--chat-template", "chatml", out="nothing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected a conversation to learn from", done.stderr)
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("nothing")], [])

    def test_bad_lines(self):
        user, answer = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
        bad = {
            '{"messages": [': 'expected',
            '{"text": "a"}': 'expected "messages", "conversations", or "prompt" and "completion"',
            '{"messages": {}}': 'expected a list of messages, found object',
            '{"messages": ["a"]}': 'message 0: expected an object, found string',
            '{"messages": [{"content": "a"}]}': 'expected "role" or "from"',
            '{"conversations": [{"from": "alien", "value": "a"}]}': 'found "alien"',
            '{"conversations": [{"from": "gpt"}]}': 'expected "value"',
            '{"prompt": "a"}': 'found no "completion"',
            '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null}]}': 'message 1: expected "content", found none',
            '{"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]}': '"weight": expected 0 or 1, found 0.5',
            '{"messages": [], "tools": 5}': '"tools": expected a list',
        }
        good = json.dumps({"messages": [user, answer]})
        for line, message in bad.items():
            with self.subTest(line=line):
                self.write("bad.jsonl", [good, line, good])
                done = self.run_pack("bad.jsonl", "--chat-template", "chatml", out="failed")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stderr.rstrip("\n").split("\n")[-1], "bad.jsonl: line 2, byte .*" + re.escape(message))
                self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("failed")], [])
        self.write("bad.jsonl", [good, *bad, good])
        counts = self.pack("bad.jsonl", "--chat-template", "chatml", "--on-error", "skip")
        self.assertEqual((counts["skipped_lines"], counts["packed"]), (len(bad), 2))
        self.write("bad.jsonl", list(bad))
        done = self.run_pack("bad.jsonl", "--chat-template", "chatml", "--on-error", "skip", out="failed")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertRegex(done.stderr, rf"; invalid lines skipped: {len(bad)}, the first: .*bad.jsonl: line 1, byte ")
