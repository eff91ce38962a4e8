#!/usr/bin/env python3
"""pack_dataset's tokens and masks against transformers', its files against megatron-core and pyarrow.

pack_dataset_test.py BIN TESTDATA/tokenizer [unittest arguments]
"""
import collections
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy

try:
    import pyarrow.parquet
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.utils.chat_template_utils import render_jinja_template
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = TOKENIZER = ""

SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
           "<|eot_id|>", "[INST]", "[/INST]", "<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<|system|>", "<|user|>",
           "<|assistant|>", "<|end|>", "<start_of_turn>", "<end_of_turn>", "<bos>"]


def each(body, start="", end=""):
    return start + "{% for message in messages %}" + body + "{% endfor %}" + end


def by_role(user, assistant, system=None):
    return ("{% if message.role == 'assistant' %}" + assistant + "{% elif message.role == 'system' %}" +
            (user if system is None else system) + "{% else %}" + user + "{% endif %}")


# In the manner of public models' templates, with marks around what the assistant says.
G, E = "{% generation %}", "{% endgeneration %}"
PROMPT = "{%% if add_generation_prompt %%}%s{%% endif %%}"
TEMPLATES = {
    "chatml": each("<|im_start|>{{ message.role }}\n" + by_role(
        "{{ message.content }}<|im_end|>\n", G + "{{ message.content }}<|im_end|>" + E + "{{ '\n' }}"),
        end=PROMPT % "{{ '<|im_start|>assistant\n' }}"),
    "chatml, line end learned": each("<|im_start|>{{ message.role }}\n" + by_role(
        "{{ message.content }}<|im_end|>\n", G + "{{ message.content }}<|im_end|>{{ '\n' }}" + E),
        end=PROMPT % "{{ '<|im_start|>assistant\n' }}"),
    "default system": each("<|im_start|>{{ message.role + '\n' }}" + by_role(
        "{{ message.content }}<|im_end|>{{ '\n' }}", G + "{{ message.content + '<|im_end|>\n' }}" + E),
        start="{% if messages[0].role != 'system' %}<|im_start|>system\nYou are kind.<|im_end|>{{ '\n' }}{% endif %}",
        end=PROMPT % "<|im_start|>assistant{{ '\n' }}"),
    "llama 3": each("<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n" + by_role(
        "{{ message.content | trim }}<|eot_id|>", G + "{{ message.content | trim }}<|eot_id|>" + E), start="{{ bos_token }}",
        end=PROMPT % "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"),
    "llama 2": each(by_role("{{ bos_token }}[INST] {{ message.content | trim }} [/INST]",
                            G + "{{ ' ' ~ message.content | trim ~ ' ' ~ eos_token }}" + E, "<<SYS>>{{ message.content }}<</SYS>>")),
    "mistral": each(by_role("[INST] {{ message.content }} [/INST]", G + "{{ message.content }}{{ eos_token }}" + E,
                            "{{ message.content }}\n\n"), start="{{ bos_token }}"),
    "mistral, no space": each(by_role("[INST]{{ message.content }}[/INST]", G + "{{ message.content + eos_token }}" + E),
                              start="{{ bos_token }}"),
    "zephyr": each(by_role("<|user|>\n{{ message.content + eos_token }}{{ '\n' }}",
                           "<|assistant|>\n" + G + "{{ message.content + eos_token + '\n' }}" + E,
                           "<|system|>\n{{ message.content + eos_token }}{{ '\n' }}"), end=PROMPT % "{{ '<|assistant|>\n' }}"),
    "phi 3": each("{{ '<|' + message.role + '|>\n' }}" + by_role(
        "{{ message.content + '<|end|>\n' }}", G + "{{ message.content + '<|end|>\n' }}" + E),
        end=PROMPT % "{{ '<|assistant|>\n' }}"),
    "gemma": each(by_role("<start_of_turn>{{ message.role }}\n{{ message.content | trim }}<end_of_turn>{{ '\n' }}",
                          "<start_of_turn>model\n" + G + "{{ message.content | trim }}<end_of_turn>" + "{{ '\n' }}" + E),
                  start="{{ '<bos>' }}", end=PROMPT % "{{ '<start_of_turn>model\n' }}"),
    "vicuna": each(by_role("USER: {{ message.content }} ", "ASSISTANT:" + G + "{{ ' ' + message.content + eos_token }}" + E,
                           "{{ message.content + ' ' }}"), end=PROMPT % "ASSISTANT:"),
    "alpaca": each(by_role("### Instruction:\n{{ message.content }}\n\n", "### Response:\n" + G + "{{ message.content + eos_token }}" +
                           E + "{{ '\n\n' }}"), end=PROMPT % "{{ '### Response:\n' }}"),
    "nemotron h": each(by_role("<SPECIAL_11>User\n{{ message.content.strip() }}\n{{ '<SPECIAL_11>Assistant\n' }}",
                               G + "{{ message.content.strip() + '\n' }}" + E, "<SPECIAL_10>System\n{{ message.content.strip() }}{{ '\n' }}")),
    "nemotron nano": each(by_role("<SPECIAL_11>User\n{{ message.content.strip() + '\n' }}", "<SPECIAL_11>Assistant\n" + G +
                                  "{{ message.content.strip() + '\n<SPECIAL_12>\n' }}" + E,
                                  "<SPECIAL_10>System\n{{ message.content.strip() + '\n' }}"), end=PROMPT % "{{ '<SPECIAL_11>Assistant\n' }}"),
    "plain": each("{{ message.role | upper }}: " + by_role("{{ message.content }}\n\n", G + "{{ message.content }}" + E + "{{ '\n\n' }}"),
                  end=PROMPT % "{{ 'ASSISTANT: ' }}"),
    "namespace": each("{% set ns.n = ns.n + 1 %}[{{ ns.n }}] " + by_role("{{ message.content }}", G + "{{ message.content }}" + E) + " ",
                      start="{% set ns = namespace(n=0) %}", end=PROMPT % "[{{ ns.n + 1 }}] "),
    "macro": each("{{ head(message.role) }}" + by_role("{{ message.content }}<|im_end|>", G + "{{ message.content }}<|im_end|>" + E),
                  start="{% macro head(role) %}<|im_start|>{{ role | capitalize }}:{% endmacro %}", end=PROMPT % "{{ head('assistant') }}"),
    "system first": each(by_role("<|user|>{{ message.content }}", "<|assistant|>" + G + "{{ message.content }}</s>" + E, ""),
                         start="{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}", end=PROMPT % "<|assistant|>"),
    "blank lines": each("\n{{ message.role }}\n" + by_role("{{ message.content }}", G + "{{ message.content }}\n" + E) + "\n",
                        start="\n", end=PROMPT % "\nassistant\n"),
    "whitespace control": each("""
    {%- if message.role == 'assistant' -%}
        {{- '<|assistant|>\n' }}
        {%- generation -%}
        {{ message.content }}
        {{- '</s>' -}}
        {%- endgeneration -%}
    {%- else %}
        {{- '<|' + message.role + '|>\n' -}}   {{ message.content }}  {#- not a word -#}
    {%- endif %}
    {%- if not loop.last %}
        {{- '\n' }}
    {%- endif -%}
""", end=PROMPT % "{{ '\n<|assistant|>\n' }}"),
    "kept white space": each("  {% if message.role == 'assistant' %}\n  A: {% generation %}\n  {{ message.content }}\n  {% endgeneration %}\n"
                             "  {% else %}\n  Q: {{ message.content }}\n  {% endif %}\n"),
    "two blocks": each(by_role("U{{ message.content }}", "A" + G + "{{ message.content }}" + E + "|" + G + "</s>" + E)),
}
# Of these no rule on beginnings holds, or it holds for another text than what the marks say.
ONLY_MARKED = {"chatml", "two blocks", "alpaca", "plain", "namespace", "whitespace control", "kept white space"}

WORDS = "the cat sat on a größe naïve 東京 data model 3.14 why? don't I'm it's \"so\" x=y; --flag  two\n\nlines \ttab 🤔 e".split(" ")


def text(rng):
    # Ends in a character of one token: of others, transformers' mask ends after the first one.
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 30))) + rng.choice([".", "!", "?", "\n"])


def conversation(rng):
    messages = [{"role": "system", "content": text(rng)}] if rng.random() < 0.5 else []
    for _ in range(rng.randint(1, 4)):
        messages += [{"role": "user", "content": text(rng)}, {"role": "assistant", "content": "ok " + text(rng)}]
    return messages


def make_tokenizer(folder):
    with open(f"{TOKENIZER}/vocab.json") as file:
        vocab = json.load(file)
    with open(f"{TOKENIZER}/merges.txt") as file:
        merges = [tuple(line.split()) for line in file.read().split("\n")[1:] if line]
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)
    return fast


def first_fit_decreasing(lengths, size):
    """Megatron-Bridge's, on the lengths alone."""
    bins = []
    for length in sorted(lengths, reverse=True):
        for one in bins:
            if sum(one) + length <= size:
                one.append(length)
                break
        else:
            bins.append([length])
    return bins


class PackDataset(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.tokenizer = make_tokenizer(cls.path("tokenizer"))
        rng = random.Random(44)
        cls.conversations = [conversation(rng) for _ in range(40)]
        cls.write("chats.jsonl", [{"messages": messages} for messages in cls.conversations])

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def write(cls, name, lines):
        with open(cls.path(name), "w") as file:
            for line in lines:
                file.write((line if isinstance(line, str) else json.dumps(line)) + "\n")

    def run_pack(self, input, *flags, length=100000, out="out"):
        return subprocess.run(
            [f"{BIN}/pack_dataset", "--input", self.path(input), "--output-prefix", self.path(out), "--tokenizer-type",
             "HuggingFaceTokenizer", "--tokenizer-model", self.path("tokenizer"), "--seq-length", str(length), "--json", *flags],
            capture_output=True, text=True)

    def pack(self, input, *flags, length=100000, out="out"):
        done = self.run_pack(input, *flags, length=length, out=out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def read(self, out="out"):
        """Packed sequences, each a list of conversations (ids, mask), as megatron-core reads them."""
        tokens, masks = IndexedDataset(self.path(out)), IndexedDataset(self.path(out) + "_loss_mask")
        self.assertTrue(numpy.array_equal(tokens.document_indices, masks.document_indices))
        return [[(tokens[i].tolist(), masks[i].tolist()) for i in range(begin, end)]
                for begin, end in zip(tokens.document_indices, tokens.document_indices[1:])]

    def in_order(self, input, *flags, **options):
        self.pack(input, "--packing-algorithm", "next_fit", *flags, **options)
        return [one for packed in self.read() for one in packed]

    def judged(self, messages, template):
        made = self.tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True,
                                                  return_assistant_tokens_mask=True)
        return made["input_ids"], made["assistant_masks"]

    def judged_by_beginnings(self, messages, template, only_last=False):
        def render(some, prompt):
            return render_jinja_template([some], chat_template=template, add_generation_prompt=prompt,
                                         bos_token="<s>", eos_token="</s>")[0][0]

        whole = render(messages, False)
        made = self.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
        mask = [0] * len(made["input_ids"])
        answers = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        for i in answers[-1:] if only_last else answers:
            before, after = render(messages[:i], True), render(messages[:i + 1], False)
            self.assertTrue(after.startswith(before) and whole.startswith(after))
            for token, (begin, end) in enumerate(made["offset_mapping"]):
                mask[token] |= begin < len(after) and end > len(before)
        return made["input_ids"], mask

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

    def test_packing(self):
        whole = self.in_order("chats.jsonl", "--chat-template", "chatml")
        lengths = [len(ids) - 1 for ids, _ in whole]
        size = max(lengths) + 50
        answer = self.pack("chats.jsonl", "--chat-template", "chatml", "--packed-parquet", length=size)
        packed = self.read()
        self.assertEqual(sorted(one for some in packed for one in some), sorted(whole))
        wanted = collections.Counter(tuple(sorted(one)) for one in first_fit_decreasing(lengths, size))
        self.assertEqual(collections.Counter(tuple(sorted(len(ids) - 1 for ids, _ in some)) for some in packed), wanted)
        self.assertAlmostEqual(answer["packing_efficiency"], sum(lengths) / len(packed) / size)
        with open(self.path("out_packing.json")) as file:
            self.assertEqual(json.load(file), [{
                "dataset_max_seqlen": max(lengths), "max_samples_per_bin": max(map(len, wanted)),
                "packing_factor": round(len(lengths) / len(packed), 2),
                "packing_efficiency": round(sum(lengths) / len(packed) / size * 100, 2), "pack_size": size,
                "min_packed_seqlen": min(map(sum, wanted))}])
        table = pyarrow.parquet.read_table(self.path("out.idx.parquet"))
        self.assertEqual([str(field.type.value_type) for field in table.schema], ["int32", "int8", "int32"])
        rows = table.to_pylist()
        self.assertEqual([row["input_ids"] for row in rows], [sum((ids for ids, _ in some), []) for some in packed])
        self.assertEqual([row["loss_mask"] for row in rows], [sum((mask[1:] + [0] for _, mask in some), []) for some in packed])
        self.assertEqual([row["seq_start_id"] for row in rows],
                         [numpy.cumsum([0] + [len(ids) for ids, _ in some])[:-1].tolist() for some in packed])

        self.pack("chats.jsonl", "--chat-template", "chatml", "--packing-algorithm", "next_fit", length=size)
        packed = self.read()
        self.assertEqual([one for some in packed for one in some], whole)
        self.assertTrue(all(sum(len(ids) - 1 for ids, _ in some) <= size for some in packed))
        for some, later in zip(packed, packed[1:]):
            self.assertGreater(sum(len(ids) - 1 for ids, _ in some) + len(later[0][0]) - 1, size)

    def test_many_rows_of_parquet(self):
        self.write("many.jsonl", [{"prompt": f"question {i}", "completion": "yes " * (i % 7 + 1)} for i in range(1700)])
        self.pack("many.jsonl", "--chat-template", "chatml", "--packed-parquet", length=24)
        file = pyarrow.parquet.ParquetFile(self.path("out.idx.parquet"))
        self.assertGreater(file.metadata.num_row_groups, 2)
        self.assertEqual(file.metadata.row_group(0).num_rows, 500)
        self.assertEqual([row["input_ids"] for row in file.read().to_pylist()],
                         [sum((ids for ids, _ in some), []) for some in self.read()])

    def test_truncation(self):
        whole = self.in_order("chats.jsonl", "--chat-template", "chatml")
        size = sorted(len(ids) for ids, _ in whole)[len(whole) // 2]
        for method, cut in (("right", lambda ids: ids[:size + 1]), ("left", lambda ids: ids[-size - 1:])):
            wanted = [(cut(ids), cut(mask)) for ids, mask in whole]
            wanted = [(ids, mask) for ids, mask in wanted if any(mask[1:])]
            self.assertEqual(self.in_order("chats.jsonl", "--chat-template", "chatml", "--truncation-method", method, length=size), wanted)
        made = self.in_order("chats.jsonl", "--chat-template", "chatml", "--truncation-method", "drop", length=size)
        self.assertEqual(made, [(ids, mask) for ids, mask in whole if len(ids) <= size + 1])

    def test_bytes_do_not_depend_on_workers(self):
        files = set()
        self.write("more.jsonl", [{"messages": messages} for messages in self.conversations * 200])
        for workers in ("1", "2", "5"):
            self.pack("more.jsonl", "--chat-template", "llama3", "--workers", workers, "--packed-parquet", length=512)
            content = []
            for end in (".bin", ".idx", "_loss_mask.bin", "_loss_mask.idx", ".idx.parquet", "_packing.json"):
                with open(self.path("out") + end, "rb") as file:
                    content.append(file.read())
            files.add(tuple(content))
        self.assertEqual(len(files), 1)
        self.pack("more.jsonl", "--chat-template", "llama3", "--max-documents", "4321", length=512)
        self.assertEqual(sum(map(len, self.read())), 4321)

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

    def test_endless_templates(self):
        for source in ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "{% include '/etc/passwd' %}",
                       "{{ open('/etc/passwd') }}"):
            with open(self.path("t.jinja"), "w") as file:
                file.write(source)
            done = self.run_pack("chats.jsonl", "--chat-template", self.path("t.jinja"), out="failed")
            self.assertIn(done.returncode, (1, 2), source)
            self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("failed")], [])

    def test_kills_leave_no_mixture(self):
        """SIGKILL at any moment of a run that replaces an older dataset: what is found is one of both, or none. MEG_KILLS: how many."""
        ends = (".bin", "_loss_mask.bin", "_loss_mask.idx", "_packing.json", ".idx.parquet")
        flags = [f"{BIN}/pack_dataset", "--input", self.path("many.jsonl"), "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model",
                 self.path("tokenizer"), "--packed-parquet", "--json", "--output-prefix"]
        self.write("many.jsonl", [{"messages": messages} for messages in self.conversations * 30])

        def files(prefix):
            found = []
            for end in (".idx", *ends):
                with open(self.path(prefix) + end, "rb") as file:
                    found.append(file.read())
            return found

        states = {"old": ["--chat-template", "chatml", "--seq-length", "300"], "new": ["--chat-template", "llama3", "--seq-length", "200"]}
        whole, seconds = {}, 0
        for name, of in states.items():
            begin = time.perf_counter()
            subprocess.run([*flags, self.path(name), *of], check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - begin
            whole[name] = files(name)
        self.assertNotEqual(whole["old"], whole["new"])
        rng, found = random.Random(1), collections.Counter()
        for _ in range(int(os.environ.get("MEG_KILLS", 8))):
            for name in os.listdir(self.folder.name):
                if name.startswith("killed"):
                    os.remove(self.path(name))
            subprocess.run([*flags, self.path("killed"), *states["old"]], check=True, stdout=subprocess.DEVNULL)
            process = subprocess.Popen([*flags, self.path("killed"), *states["new"]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # Half of them at the end, where files are renamed.
            time.sleep(seconds * (rng.uniform(0, 1.1) if rng.random() < 0.5 else rng.uniform(0.8, 1.1)))
            process.kill()
            process.wait()
            if not os.path.exists(self.path("killed.idx")):
                found["none"] += 1
                continue
            is_old = files("killed") == whole["old"]
            self.assertTrue(is_old or files("killed") == whole["new"])
            found["old" if is_old else "new"] += 1
        print(f"kills: {dict(found)}")

    def test_interruption_leaves_nothing(self):
        read_end, write_end = os.pipe()
        process = subprocess.Popen(
            [f"{BIN}/pack_dataset", "--input", "-", "--output-prefix", self.path("stopped"), "--tokenizer-type",
             "HuggingFaceTokenizer", "--tokenizer-model", self.path("tokenizer"), "--seq-length", "64", "--chat-template", "chatml"],
            stdin=read_end, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(read_end)
        while not any(name.startswith("stopped") for name in os.listdir(self.folder.name)) and process.poll() is None:
            pass
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        os.close(write_end)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("stopped")], [])


if __name__ == "__main__":
    BIN, TOKENIZER = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
