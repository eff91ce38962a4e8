"""Chat templates in the manner of public models', with marks around what the assistant says."""

SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
           "<|eot_id|>", "[INST]", "[/INST]", "<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<|system|>", "<|user|>",
           "<|assistant|>", "<|end|>", "<start_of_turn>", "<end_of_turn>", "<bos>"]


def each(body, start="", end=""):
    return start + "{% for message in messages %}" + body + "{% endfor %}" + end


def by_role(user, assistant, system=None):
    return ("{% if message.role == 'assistant' %}" + assistant + "{% elif message.role == 'system' %}" +
            (user if system is None else system) + "{% else %}" + user + "{% endif %}")


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
