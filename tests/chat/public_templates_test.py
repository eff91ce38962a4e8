#!/usr/bin/env python3
"""Chat templates of public models render as transformers renders them, or are refused by name.

public_templates_test.py RENDER_CHAT
MEG_CHAT_TEMPLATES is a folder of them, NAME.jinja, such as trl/chat_templates of the package trl.
"""
import glob
import os
import sys
import unittest

FOLDER = os.environ.get("MEG_CHAT_TEMPLATES", "")
if not glob.glob(os.path.join(FOLDER, "*.jinja")) or not FOLDER:
    print("skipped: no MEG_CHAT_TEMPLATES, a folder of public models' chat templates")
    sys.exit(77)

import chat_template_test as chat

USER, ANSWER = {"role": "user", "content": "Hi <b> \u00e9"}, {"role": "assistant", "content": "ok."}
CHATS = [[USER, ANSWER], [USER, ANSWER] * 2, [{"role": "system", "content": " S.\n"}, USER, ANSWER], chat.MESSAGES, chat.MESSAGES[:3],
         chat.MESSAGES[1:3] + chat.MESSAGES[4:6] + [USER, ANSWER]]


class PublicTemplates(unittest.TestCase):
    def test_each_renders_as_in_transformers(self):
        render = chat.Renderer()
        same = refused_by_both = 0
        unsupported = set()
        for path in sorted(glob.glob(os.path.join(FOLDER, "*.jinja"))):
            with open(path) as file:
                template = file.read()
            for number, messages in enumerate(CHATS):
                for prompt, tools in ((True, None), (False, None), (True, chat.TOOLS), (False, chat.TOOLS)):
                    variables = {**chat.VARIABLES, "messages": messages, "tools": tools, "add_generation_prompt": prompt}
                    made = render(template, variables)
                    try:
                        wanted = chat.judged(template, variables)[0]
                    except Exception:  # whatever Python raises
                        self.assertIn("error", made, (path, number))
                        refused_by_both += 1
                        continue
                    if "is not supported" in made.get("error", ""):
                        unsupported.add((os.path.basename(path), made["error"]))
                        continue
                    self.assertEqual(made.get("text"), wanted, (path, number, made))
                    same += 1
        render.process.communicate()
        print(same, "texts the same,", refused_by_both, "refused by both, not supported:", sorted(unsupported))
        self.assertGreater(same, 10 * len(unsupported))


if __name__ == "__main__":
    chat.RENDER_CHAT = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
