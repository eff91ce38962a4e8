def translated(arguments):
    """group_duplicate_url.py PAIRS OUTPUT [SIMILARITY]"""
    if len(arguments) not in (2, 3) or arguments[0].startswith("-"):
        sys.exit("error: expected two or three arguments, the pairs of find_duplicates.py, the output and maybe the least "
                 "similarity")
    return ["groups", *arguments[:2], *(["--threshold", arguments[2]] if arguments[2:] else [])]
