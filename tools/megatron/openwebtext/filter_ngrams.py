def translated(arguments):
    """filter_ngrams.py --tasks lambada --lambada-path FILE --dedup-dataset FILE KEY --output FILE ..."""
    import argparse
    parser = argparse.ArgumentParser(prog="filter_ngrams.py")
    parser.add_argument("--tasks", nargs="*", required=True, help="lambada alone: other sets are not at hand")
    parser.add_argument("--lambada-path", required=True)
    parser.add_argument("--dedup-dataset", nargs=2, required=True, metavar=("FILE", "KEY"))
    parser.add_argument("--output", required=True)
    parser.add_argument("--num-threads", type=int)
    parser.add_argument("--max-ngram-size", type=int)
    parser.add_argument("--min-ngram-size", type=int)
    parser.add_argument("--filter-text-char-len", type=int)
    parser.add_argument("--key-threshold", type=int)
    parser.add_argument("--splits-count", type=int)
    parser.add_argument("--remove-char-each-side", type=int)
    flags = parser.parse_args(arguments)
    for task in flags.tasks:
        if task != "lambada":
            sys.exit(f"error: --tasks {task}: expected lambada: clean_dataset --decontaminate takes other sets as JSON lines")
    words = ["--input", flags.dedup_dataset[0], "--json-keys", flags.dedup_dataset[1], "--decontaminate", flags.lambada_path,
             "--output", flags.output]
    if flags.num_threads is not None:
        words += ["--workers", str(flags.num_threads)]
    for name in ("max_ngram_size", "min_ngram_size", "filter_text_char_len", "key_threshold", "splits_count",
                 "remove_char_each_side"):
        if getattr(flags, name) is not None:
            words += ["--" + name.replace("_", "-"), str(getattr(flags, name))]
    return words
