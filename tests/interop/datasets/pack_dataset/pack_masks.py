"""Tokens and loss masks, by transformers."""
import json

from pack_dataset import pack_case
from pack_dataset.chat_templates import E, G, ONLY_MARKED, PROMPT, TEMPLATES, each


class Masks(pack_case.PackCase):
    def test_templates_with_marks(self):
        self.assertEqual(len(TEMPLATES), 22)
        for name, template in TEMPLATES.items():
            with self.subTest(name=name):
                with open(self.path("t.jinja"), "w") as file:
                    file.write(template)
                made = self.in_order("chats.jsonl", "--chat-template", self.path("t.jinja"))
                self.assertEqual(made, [self.judged(messages, template) for messages in self.conversations])

    def test_templates_without_marks(self):
        for name, template in TEMPLATES.items():
            with self.subTest(name=name):
                plain = template.replace(G, "").replace(E, "")
                with open(self.path("t.jinja"), "w") as file:
                    file.write(plain)
                made = self.in_order("chats.jsonl", "--chat-template", self.path("t.jinja"))
                self.assertEqual(made, [self.judged_by_beginnings(messages, plain) for messages in self.conversations])
                if name not in ONLY_MARKED:
                    self.assertEqual(made, [self.judged(messages, template) for messages in self.conversations])
        made = self.in_order("chats.jsonl", "--chat-template", self.path("t.jinja"), "--loss-on", "last")
        self.assertEqual(made, [self.judged_by_beginnings(messages, plain, True) for messages in self.conversations])

    def test_built_in_templates(self):
        for builtin, name in (("chatml", "chatml"), ("nemotron-h-aligned", "nemotron h"), ("nemotron-nano-v2", "nemotron nano")):
            with self.subTest(name=name):
                made = self.in_order("chats.jsonl", "--chat-template", builtin)
                self.assertEqual(made, [self.judged(messages, TEMPLATES[name]) for messages in self.conversations])
        for builtin in ("llama3", "mistral"):
            made = self.in_order("chats.jsonl", "--chat-template", builtin)
            name = {"llama3": "llama 3", "mistral": "llama 2"}[builtin]
            for (ids, mask), messages in zip(made, self.conversations):
                judged = self.judged(messages, TEMPLATES[name].replace("{{ bos_token }}", "{{ '<|begin_of_text|>' }}"))
                if builtin == "llama3":
                    self.assertEqual((ids, mask), judged)
                elif messages[0]["role"] != "system" and len(messages) == 2:
                    spoken = self.tokenizer.decode([i for i, m in zip(ids, mask) if m])
                    self.assertEqual(spoken, " " + messages[1]["content"].strip() + "</s>")

    def test_template_of_the_tokenizer(self):
        config = self.path("tokenizer/tokenizer_config.json")
        with open(config) as file:
            before = file.read()
        try:
            with open(config, "w") as file:
                json.dump({**json.loads(before), "chat_template": TEMPLATES["llama 2"]}, file)
            self.assertEqual(self.in_order("chats.jsonl"), [self.judged(m, TEMPLATES["llama 2"]) for m in self.conversations])
        finally:
            with open(config, "w") as file:
                file.write(before)
        done = self.run_pack("chats.jsonl")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected a chat template", done.stderr)

    def test_answers_that_do_not_count(self):
        """OpenAI's weights, and answers in a prompt, with marked templates and without."""
        said = [{"role": r, "content": c} for r, c in (("user", "a"), ("assistant", "b b"), ("user", "c"), ("assistant", "d d"))]
        weighted = [dict(one) for one in said]
        weighted[1]["weight"] = 0
        weighted[3]["weight"] = 1
        self.write("weights.jsonl", [{"messages": weighted}, {"prompt": said[:3], "completion": said[3:]}, {"messages": said}])
        for name in ("two blocks", "zephyr"):
            for template in (TEMPLATES[name], TEMPLATES[name].replace(G, "").replace(E, "")):
                with open(self.path("t.jinja"), "w") as file:
                    file.write(template)
                learned = [self.tokenizer.decode([i for i, m in zip(ids, mask) if m])
                           for ids, mask in self.in_order("weights.jsonl", "--chat-template", self.path("t.jinja"))]
                last = self.in_order("weights.jsonl", "--chat-template", self.path("t.jinja"), "--loss-on", "last")
                self.assertEqual(len(set(learned[:2])), 1)
                self.assertIn("d d", learned[0])
                self.assertNotIn("b b", learned[0])
                self.assertIn("b b", learned[2])
                self.assertEqual({self.tokenizer.decode([i for i, m in zip(ids, mask) if m]) for ids, mask in last}, {learned[0]})

    def test_refuses_answers_that_are_no_part_of_the_text(self):
        """A template that leaves out of earlier answers what it keeps in the last one."""
        template = each("{{ message.role }}:{% if loop.last %}{{ message.content }}{% else %}{{ message.content.split('!')[-1] }}{% endif %};",
                        end=PROMPT % "assistant:")
        with open(self.path("t.jinja"), "w") as file:
            file.write(template)
        said = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "think! a"}]
        self.write("thinking.jsonl", [{"messages": said * 2}])
        done = self.run_pack("thinking.jsonl", "--chat-template", self.path("t.jinja"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("message 1: the chat template's text of the messages up to it is no beginning", done.stderr)
        self.write("last.jsonl", [{"messages": said}])
        self.assertEqual(len(self.in_order("last.jsonl", "--chat-template", self.path("t.jinja"))), 1)
