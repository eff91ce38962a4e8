def translated(arguments):
    """cleanup_dataset.py INPUT OUTPUT [FLAG OF clean_dataset ...]; Megatron's script downloads GPT-2's vocabulary to ./cache."""
    if len(arguments) < 2 or any(word.startswith("-") for word in arguments[:2]):
        sys.exit("error: expected two arguments, the documents and the output; flags of clean_dataset may follow")
    data, output, *more = arguments
    words = []
    for flag, name in (("--vocab-file", "gpt2-vocab.json"), ("--merge-file", "gpt2-merges.txt")):
        if any(word.split("=")[0].replace("_", "-") == flag for word in more):
            continue
        found = [path for path in (os.path.join("cache", name), name) if os.path.exists(path)]
        if not found:
            sys.exit(f"error: cache/{name}: not found: expected GPT-2's vocabulary, which Megatron's script downloads, there, at "
                     f"{name} or by {flag}")
        words += [flag, found[0]]
    # The script counts the end-of-document token among its 128, and goes by the likeliest language.
    threshold = "0.5" if any(word.replace("_", "-").startswith("--language-model") for word in more) else "0"
    return ["--input", data, "--input-format", "json", "--on-error", "skip", "--output", output, "--repair", "all",
            "--min-tokens", "127", "--tokenizer-type", "GPT2BPETokenizer", *words, "--languages", "en", "--language-threshold",
            threshold, *more]
