def translated(arguments):
    """find_duplicates.py --inputs FILE KEY [FILE KEY ...] --output FILE ..."""
    import argparse
    parser = argparse.ArgumentParser(prog="find_duplicates.py")
    parser.add_argument("--seed", type=int, default=1234, help="of the hashes")
    parser.add_argument("--inputs", nargs="*", default=[], metavar=("FILE KEY", "FILE KEY"))
    parser.add_argument("--load-fingerprints", nargs="*", help="refused: pickles of the package lsh")
    parser.add_argument("--save-fingerprints", help="refused: pickles of the package lsh")
    parser.add_argument("--output", help="lines {URL: [{URL: similarity}, ...]}")
    parser.add_argument("--jaccard", default="union", choices=["union", "min", "max"])
    parser.add_argument("--heuristic-iter", type=int, default=1)
    parser.add_argument("--num-bands", type=int, default=10)
    parser.add_argument("--num-seeds", type=int, default=100)
    parser.add_argument("--jaccard-parallel", action="store_true", help="no effect: all processors are used in any case")
    flags = parser.parse_args(arguments)
    for name in ("load_fingerprints", "save_fingerprints"):
        if getattr(flags, name) is not None:
            sys.exit(f"error: --{name.replace('_', '-')}: libmeg neither reads nor writes pickles of the package lsh: give all "
                     "--inputs at once")
    if not flags.inputs or not flags.output:
        sys.exit("error: expected --inputs and --output")
    words = ["pairs", "--on-error", "skip", "--inputs", *flags.inputs, "--output", flags.output]
    for name in ("seed", "jaccard", "heuristic_iter", "num_bands", "num_seeds"):
        words += ["--" + name.replace("_", "-"), str(getattr(flags, name))]
    return words
