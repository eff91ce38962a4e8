#!/usr/bin/env python3
"""Chat templates render as transformers renders them: whole templates, each function of Jinja's, and random expressions.

chat_template_test.py RENDER_CHAT [unittest arguments]
"""
import json
import random
import subprocess
import sys
import unittest

try:
    from transformers.utils.chat_template_utils import render_jinja_template
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RENDER_CHAT = ""

MESSAGES = [
    {"role": "system", "content": "  You are brief. \n"},
    {"role": "user", "content": "Wie heißt du?\n\n1 < 2 & \"so\" it's", "name": "é"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nIch heiße Ada.", "reasoning_content": None},
    {"role": "user", "content": [{"type": "text", "text": "part one"}, {"type": "image"}, {"type": "text", "text": "two"}]},
    {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "id": "c1", "function": {"name": "add", "arguments": {"b": 2.5, "a": [1, None, True, "ü\n"]}}}]},
    {"role": "tool", "content": "3", "tool_call_id": "c1"},
]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {
    "type": "object", "properties": {"a": {"type": "number", "enum": [1, 2]}, "b": {"type": "number"}}, "required": ["a"]}}}]
VARIABLES = {"messages": MESSAGES, "tools": TOOLS, "documents": None, "bos_token": "<s>", "eos_token": "</s>",
             "add_generation_prompt": True, "numbers": [3, 1, 2, -7, 10], "real": 2.675, "words": ["b", "A", "c", "a"],
             "table": {"b": 1, "A": 2, "items": 3}, "nothing": None, "empty": "", "long": "x" * 50}

# In the manner of the templates of public models: what each kind of them relies on.
TEMPLATES = {
    "chatml": """{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ 'none' }}{% endif %}
{{- '<|im_start|>' + message['role'] + '\\n' + message.content | string + '<|im_end|>' + '\\n' }}
{%- endfor %}
{% if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "blocks": """{{ bos_token }}
{% if messages[0].role == "system" %}
    {% set system_message = messages[0]["content"] | trim %}
    {% set messages = messages[1:] %}
{% else %}
    {% set system_message = "" %}
{% endif %}
<<SYS>>{{ system_message }}<</SYS>>
{% for message in messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) and false %}
        {{ raise_exception('Conversation roles must alternate') }}
    {% endif %}
    {% if message.content is string %}
  [{{ message.role | upper }}] {{ message.content.strip() }}
    {% else %}
        {% for part in message.content if part.type == "text" %}
  * {{ part["text"] }} ({{ loop.index }}/{{ loop.length }})
        {% else %}
  - nothing
        {% endfor %}
    {% endif %}
{% endfor %}
end
""",
    "tools": """{%- macro arguments(properties, indent=2) -%}
{%- for name, value in properties | dictsort %}
{{ ' ' * indent }}- {{ name }}: {{ value.type }}{{ " one of " ~ value.enum | join("/") if value.enum is defined }}
{%- endfor %}
{%- endmacro -%}
{%- if tools is not none and tools | length > 0 %}
# Tools
{% for tool in tools %}{{ tool | tojson }}
{{ tool.function | tojson(indent=2) }}
{{ arguments(tool.function.parameters.properties) }}
{{ arguments(tool.function.parameters.properties, indent=0) }}
{%- endfor %}
{%- endif %}
{%- for message in messages %}
{%- if message.tool_calls is defined and message.tool_calls %}
{%- for call in message.tool_calls %}
{%- if call.function is defined %}{% set call = call.function %}{% endif %}
<tool_call>
{"name": "{{ call.name }}", "arguments": {{ call.arguments | tojson if call.arguments is mapping else call.arguments }}}
</tool_call>
{%- endfor %}
{%- elif message.role == 'tool' %}
<response>{{ message.content }}</response>{{ message.tool_call_id or 'none' }}
{%- endif %}
{%- endfor %}""",
    "namespace": """{%- set ns = namespace(found=false, last=messages | length - 1, text='') -%}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if not ns.found and message.role == "user" and message.content is string and not (message.content.startswith('<') and
         message.content.endswith('>')) %}
        {%- set ns.found = true %}{% set ns.last = index %}
    {%- endif %}
    {%- if '</think>' in (message.content if message.content is string else '') %}
        {%- set reasoning = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set ns.text = ns.text ~ reasoning ~ '|' ~ message.content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
{%- endfor -%}
{{ ns.found }} {{ ns.last }} {{ ns.text }} {{ ns.missing is defined }}""",
    "set in loops": """{% set x = 1 %}{% for i in numbers %}{{ x }}{% set x = i %}{{ x }}{% if i == 2 %}{% break %}{% endif %}
{%- if i == 1 %}{% continue %}{% endif %};{% endfor %}{{ x }}{{ i is defined }}""",
    "set block": "{% set text %}  a {{ bos_token }} {% set inner = 1 %} {% endset %}[{{ text }}]{{ inner is defined }}"
                 "{% set loud | upper | trim %} abc {% endset %}[{{ loud }}]",
    "with, filter, call": "{% with a = 1, b = bos_token %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}"
                          "{% filter upper | replace('A', 'o') %}abca{{ eos_token }}{% endfilter %}"
                          "{% macro box(kind) %}<{{ kind }}>{{ caller('in') }}</{{ kind }}>{% endmacro %}"
                          "{% call(where) box('b') %}{{ where }}: {{ bos_token }}{% endcall %}",
    "loop": "{% for w in words %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}"
            "{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('x', 'y') }}{{ loop.changed(w | lower) }}"
            "{{ loop.depth }} {% endfor %}{% for a, (b, c) in [(1, (2, 3)), [4, [5, 6]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "raw": "a {% raw %}{{ x }} {% y %}{% endraw %} b {%- raw -%}  {{ z }} \n {%- endraw %}\nc {# comment #}\n d {#- e -#}  f",
    "whitespace": "  {% if true %}\n    a\n  {%- endif %}  \n\n{%+ if true +%}\n b {% endif %}\n  {{- 'c' -}}  \n d\n   {# x #}\n e\r\n"
                  " {% if true -%}\n\n   {% endif %} f {{ '}}' }} {{ {'a': {'b': 1}}.a.b }}\t{% set t = 1 %}  \n",
    "generation": "{% for message in messages %}{{ message.role }}: {% generation %}{{ message.content }}{% endgeneration %};"
                  "{% endfor %}",
}

# Each as {{ EXPRESSION }}.
EXPRESSIONS = """
1 + 2 * 3 - 4 // 3 % 5
2 ** 3 ** 2
-7 // 2, -7 % 3, 7 % -3, 7.5 // 2, -7.5 % 2
10 / 4, 10 / 5, 1e3, 1_000, 0.1 + 0.2, 1e100, 1e-7, 123456789.0
not 1 == 2 and 3 > 2 or false
1 < 2 < 3, 1 < 3 < 2
'a' 'b' ~ 1 ~ none ~ true ~ 2.0 ~ [1, 'x'] ~ {'k': (1,)} ~ undefined_name
'a' in 'abc', 'x' not in ['x'], 'items' in table, 3 in numbers
'x' if false, ('y' if nothing else 'z')
[1, 2] + [3], (1, 2) + (3,), 'ab' * 3, [0] * 2
numbers[1:], numbers[:-1], numbers[::-2], 'größe'[1:4], 'größe'[-1], long[:5], numbers[5:1], numbers[-100:2]
messages[0].content, messages[0]['role'], messages.0.role, messages[-1].missing is defined, table.items is callable
table['items'], table.get('b'), table.get('z'), table.get('z', 5), table.keys() | list, table.values() | list
true and 'yes' or 'no', '' or 'default', none and 1
'%s is %d and %05.2f%%' % ('a', 3, 2.5), '%r' % ('x',), '%x' % 255
'{} {} {a} {{}}'.format(1, 2, a=3), '{1}{0}'.format('x', 'y')
"it's", 'say "x"', ["it's", 'both \\' "', 'tab\\t', '\\x01é\\u2028'] | string
'\\u00e9\\x41\\101\\n\\q' | tojson
words | sort, words | sort(case_sensitive=true), words | sort(reverse=true), numbers | sort
words | unique | list, words | map('upper') | list, messages | map(attribute='role') | unique | list
messages | selectattr('role', 'equalto', 'user') | list | length, messages | rejectattr('tool_calls') | list | length
messages | selectattr('tool_calls', 'defined') | map(attribute='tool_calls.0.function.name') | join(',')
numbers | select('gt', 1) | list, numbers | reject('odd') | list, numbers | select | list
numbers | max, numbers | min, words | max, numbers | sum, numbers | sum(start=1.5), messages | map(attribute='content') | first
numbers | first, numbers | last, [] | first is defined, numbers | length, long | length, nothing | string | length
numbers | join, numbers | join(', '), 'abc' | join('-'), messages | join('|', attribute='role')
numbers | batch(2) | list, numbers | batch(2, 0) | list, numbers | reverse | list, 'abc' | reverse
real | round, real | round(2), 2.5 | round, 3.5 | round | int, 2.1 | round(1, 'ceil'), 2.19 | round(1, 'floor'), 7 | round(1)
'12' | int, 'x' | int, 'x' | int(3), '1.9' | int, 2.9 | int, 'ff' | int(base=16), '3.5' | float, 'x' | float(1.5), ' 7 ' | int
-3 | abs, (-3) | abs, -3.5 | abs
nothing | default('d'), missing | default('d'), empty | default('d', true), missing | d, empty | d('e', boolean=true)
'hello world-wide (yes)' | title, 'hELLO wORLD' | capitalize, 'hELLO wORLD'.title(), "they're bill's".title()
'  x ' | trim, 'xxaxx' | trim('x'), 'a-b-c' | replace('-', '+'), 'a-b-c' | replace('-', '+', 1), 'abc' | replace('', '.')
'a\\nb\\n\\nc' | indent, 'a\\nb' | indent(2, true), 'a\\n\\nb' | indent(2, blank=true), 'a\\n' | indent('> ', first=true)
'<a href="x">\\'&' | e, '<b>' | safe ~ '<i>', 'x' | escape ~ '&'
table | dictsort, table | dictsort(true), table | dictsort(by='value', reverse=true), table | items | list, table | length
tools | tojson, tools | tojson(indent=2), table | tojson(sort_keys=true), [1.0, 1e16, true, none, 'é"\\\\/\\n'] | tojson
'é' | tojson(ensure_ascii=true), {'a': 1} | tojson(separators=(',', ':')), [] | tojson(indent=1), {1: 2, none: 3} | tojson
range(3) | list, range(5, 0, -2) | list, range(0) | list, dict(a=1, b=2), dict({'x': 1}, y=2).y
1 is number, true is number, true is integer, 1.0 is float, 'a' is string, [] is sequence, {} is mapping, {} is sequence
none is none, missing is none, missing is undefined, 1 is odd, 2 is even, 9 is divisibleby 3, 9 is divisibleby(2)
'abc' is lower, 'ABC' is upper, 'a' is in 'abc', 1 is in [1], 1 is eq 1, 1 is sameas 1 if false else 2, true is true, 1 is true
none is sameas none, 'x' is iterable, 1 is iterable, missing is iterable, range is callable, 5 is gt 4, 5 is not lt 4
'upper' is filter, 'nofilter' is filter
' a b  c '.split(), 'a,b,,c'.split(','), 'a,b,c'.split(',', 1), 'a b c'.split(None, 1), 'a,b,c'.rsplit(',', 1)
'abcabc'.find('c'), 'abcabc'.rfind('c'), 'abc'.find('z'), 'aébc'.index('b'), 'abab'.count('ab'), 'abc'.count('')
'  x\\n'.strip(), 'xxaxx'.lstrip('x'), 'xxaxx'.rstrip('x'), '\\u00a0x\\u3000'.strip()
'abc'.startswith('ab'), 'abc'.endswith(('x', 'bc')), 'abc'.startswith(()), 'a\\nb\\r\\nc'.splitlines(), 'a\\nb'.splitlines(true)
'Straße'.lower(), 'ÀÉ'.lower(), 'àé'.upper(), 'ǆ'.title(), 'abc'.replace('b', 'x'), 'aaa'.replace('a', 'b', 2)
'5'.zfill(3), '-5'.zfill(4), 'a'.ljust(3, '.'), 'a'.rjust(3), 'ab'.center(5, '*'), 'abc'.center(6, '*'), 'a'.center(4, '*')
'-'.join(['a', 'b']), 'a=b=c'.partition('='), 'a=b=c'.rpartition('='), 'abc'.partition('z'), 'abc'.rpartition('z')
'abc'.removeprefix('a'), 'abc'.removesuffix('c'), '12'.isdigit(), ''.isdigit(), 'a1'.isalnum(), 'ab'.isalpha(), ' '.isspace()
'AB1'.isupper(), 'ab1'.islower(), '1'.isupper(), [1, 2, 1].count(1), [1, 2].index(2), (1, 2).index(1)
namespace(a=1).a, namespace({'b': 2}).b, namespace(a=1)
(), (1,), [], {}, {'a': [1, {'b': none}]}, 1.0, 1e22, 1e16, -0.0
[1, 2] == [1, 2], (1, 2) == [1, 2], {'a': 1} == {'a': 1.0}, 1 == 1.0, true == 1, none == false, 'a' < 'b', [1, 2] < [1, 3]
messages[3].content[0].text, messages[3].content | selectattr('type', 'eq', 'text') | map(attribute='text') | join('+')
(messages | first).role, (numbers | sort)[0], ('a' ~ 'b') | upper, 'a' ~ 'b' | upper, -numbers[0], -3 | abs, 'a.b' | attr('upper') is defined
words | map('replace', 'a', 'z') | list, words | map('default', 'x') | list, [{'a': 1}, {}] | map(attribute='a', default=0) | list
""".strip().splitlines()

# What transformers refuses, too.
ERRORS = ["{{ missing.x }}", "{{ missing + 1 }}", "{{ messages[99].role }}", "{{ missing() }}", "{{ 1 + 'a' }}", "{{ 1 < 'a' }}",
          "{{ 'a' | nofilter }}", "{{ 'a' is notest }}", "{% if %}", "{% for x in %}{% endfor %}", "{{ }}", "{{ 1 + }}",
          "{% nothing %}", "{% if true %}", "{% endif %}", "{{ 'open }}", "{{ (1 }}", "{{ [1) }}", "{# open",
          "{{ raise_exception('no!') }}", "{{ 1 // 0 }}", "{{ numbers.append(1) }}", "{{ table.update({}) }}",
          "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ range(1000000) }}", "{% break %}",
          "{% set a.b = 1 %}", "{% set 1 = 2 %}", "{% for a, b in [[1]] %}{% endfor %}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
          "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{{ dict(1) }}", "{{ 'x' is defined is string }}", "{% include 'x' %}",
          "{% extends 'x' %}", "{% import 'os' as os %}", "{{ self.__init__.__globals__ }}", "{{ 'abc'.index('z') }}", "{{ 1.foo }}{{",
          "{{ 5 | upper(1) }}", "{{ 'x' | replace }}", "{{ '%d' % 'x' }}", "{{ '%s %s' % ('x',) }}", "{{ '{}'.format() }}", "{{ '{} {0}'.format(1) }}", "{{ 1[0][0] }}"]


class Renderer:
    def __init__(self):
        self.process = subprocess.Popen([RENDER_CHAT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, template, variables, to_continue=False):
        self.process.stdin.write(json.dumps({"template": template, "variables": variables, "continue": to_continue}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def judged(template, variables, mask=False, to_continue=False):
    """What transformers makes of it, and the spans of its generation blocks in characters."""
    given = dict(variables)
    texts, spans = render_jinja_template(
        [given.pop("messages")], tools=given.pop("tools"), documents=given.pop("documents"), chat_template=template,
        return_assistant_tokens_mask=mask, continue_final_message=to_continue, add_generation_prompt=given.pop("add_generation_prompt"), **given)
    return texts[0], spans[0] if spans else []


class RandomExpression:
    """Expressions of all operators over small values; where Python refuses one, so must the renderer."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def bound(self):
        return self.random.choice(["", "0", "1", "-1", "2", "-9", "none"])

    def make(self, depth):
        pick = self.random.choice
        if depth == 0:
            return pick(["0", "1", "7", "-3", "2.5", "'a'", "'Bé c'", "''", "true", "false", "none", "numbers", "words", "table",
                         "missing", "[]", "[1, 'x']", "{'a': 1}", "(1, 2)", "long", "messages[0]", "nothing"])
        a, b, c = (self.make(depth - 1) for _ in range(3))
        return pick([
            f"({a} {pick(['+', '-', '*', '/', '//', '%', '~', '==', '!=', '<', '<=', '>', '>=', 'and', 'or', 'in', 'not in'])} {b})",
            f"({a} if {b} else {c})", f"(not {a})", f"(-{a})", f"[{a}, {b}]", f"({a} is {pick(TESTS)})",
            f"({a} | {pick(FILTERS)})", f"{a}[{b}]", f"{pick(['numbers', 'words', 'long'])}[{self.bound()}:{self.bound()}]", f"{a}.{pick(['role', 'x'])}",
            f"({a} | default({b}))", f"({a} | join({b}))", f"({a} | replace({b}, {c}))"])


TESTS = ["defined", "none", "string", "number", "integer", "float", "mapping", "iterable", "sequence", "boolean", "true", "odd",
         "even", "lower", "upper"]
FILTERS = ["upper", "lower", "trim", "length", "list", "first", "last", "join", "string", "int", "float", "abs", "sum", "max", "min",
           "sort", "unique | list", "reverse | list", "tojson", "title", "capitalize", "default('d')", "e", "round", "dictsort",
           "items | list", "map('upper') | list", "select | list", "batch(2) | list"]
# What libmeg alone refuses, by name.
LIMITS = ["only ~ and printing", "is not supported", "64 bits", "expected decimal digits"]


class ChatTemplates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.render = staticmethod(Renderer())

    @classmethod
    def tearDownClass(cls):
        cls.render.process.communicate()

    def test_templates(self):
        for name, template in TEMPLATES.items():
            with self.subTest(name=name):
                mask = name == "generation"
                text, spans = judged(template, VARIABLES, mask)
                made = self.render(template, VARIABLES)
                self.assertEqual(made.get("text"), text, made)
                ours = [made["text"].encode()[begin:end].decode() for begin, end in made["generated"]]
                self.assertEqual(ours, [text[begin:end] for begin, end in spans])

    def test_expressions(self):
        for expression in EXPRESSIONS:
            template = "{{ " + expression + " }}"
            with self.subTest(expression=expression):
                self.assertEqual(self.render(template, VARIABLES).get("text"), judged(template, VARIABLES)[0],
                                 self.render(template, VARIABLES))

    def test_errors(self):
        for template in ERRORS:
            with self.subTest(template=template):
                with self.assertRaises(Exception):
                    judged(template, VARIABLES)
                made = self.render(template, VARIABLES)
                self.assertIn("error", made, made)
                self.assertNotIn("\n", made["error"])

    def test_the_last_message_is_left_open(self):
        chat = [{"role": "user", "content": "Count: é"}, {"role": "assistant", "content": "One, two "}]
        templates = [TEMPLATES["chatml"], TEMPLATES["namespace"],
                     "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</s> {% endfor %}",
                     "{% for m in messages %}{{ m.content.strip() }}{{ m.content | length }}\n{% endfor %}end",
                     "{% for m in messages %}{{ m.content | upper }};{% endfor %}",
                     "{% for m in messages %}{{ m.content | lower }};{% endfor %}",
                     "{% for m in messages %}{{ m.content[:5] }};{% endfor %}", "{{ messages[0].content }}",
                     "  {% for m in messages %}{{ m.content.rstrip() ~ eos_token }}{% endfor %}"]
        for last in ("One, two ", "One", "", "  ", " x", "CONTINUE_FINAL_MESSAGE_TAG a", "ab\n\n"):
            for template in templates:
                variables = {**VARIABLES, "messages": [chat[0], {**chat[1], "content": last}], "add_generation_prompt": False}
                with self.subTest(template=template, last=last):
                    made = self.render(template, variables, to_continue=True)
                    try:
                        wanted = judged(template, variables, to_continue=True)[0]
                    except ValueError:
                        self.assertIn("the last message cannot be continued", made["error"])
                        continue
                    self.assertEqual(made.get("text"), wanted, made)
        made = self.render(templates[0], {**VARIABLES, "messages": []}, to_continue=True)
        self.assertIn("not a string", made["error"])

    def test_variables_of_a_request(self):
        """As chat_template_kwargs and documents give them: in their order, over the tokenizer's own tokens."""
        template = ("{{ documents | tojson }}{{ enable_thinking | default('unset') }}{% if enable_thinking is false %}no{% endif %}"
                    "{{ bos_token }}{{ options }}{{ options | tojson }}{{ options.items() | list }}{{ nothing }}{{ range }}")
        for more in ({}, {"enable_thinking": False}, {"enable_thinking": None}, {"bos_token": "<B>", "range": "mine"},
                     {"options": {"z": 1, "a": [1.5, "é", None, True], "n": {"y": {}, "b": 2}}},
                     {"documents": [{"title": "t\"", "text": "x\n", "a": "1"}]}):
            variables = {**VARIABLES, "options": {}, "range": "none", **more}
            with self.subTest(more=more):
                self.assertEqual(self.render(template, variables).get("text"), judged(template, variables)[0])

    def test_random_expressions(self):
        source = RandomExpression(20261128)
        compared = refused = 0
        for _ in range(6000):
            template = "{{ " + source.make(source.random.randint(1, 3)) + " }}"
            made = self.render(template, VARIABLES)
            try:
                wanted = judged(template, VARIABLES)[0]
            except Exception as error:  # whatever Python raises
                refused += 1
                self.assertIn("error", made, f"{template}: {error}")
                continue
            if any(limit in made.get("error", "") for limit in LIMITS):
                continue
            # Constants that Jinja folds may be undefined where Python raises.
            if "error" in made and (wanted == "" or "Undefined" in wanted):
                continue
            if "Markup" in wanted:
                continue
            self.assertEqual(made.get("text"), wanted, f"{template}: {made}")
            compared += 1
        self.assertGreater(compared, 1500)
        self.assertGreater(refused, 500)


if __name__ == "__main__":
    RENDER_CHAT = sys.argv.pop(1)
    unittest.main()
