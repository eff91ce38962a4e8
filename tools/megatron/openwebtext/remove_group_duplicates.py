def translated(arguments):
    """remove_group_duplicates.py GROUPS DATA OUTPUT"""
    if len(arguments) != 3 or arguments[0].startswith("-"):
        sys.exit("error: expected three arguments, the groups of group_duplicate_url.py, the documents and the output")
    groups, data, output = arguments
    return ["--input", data, "--input-format", "json", "--on-error", "skip", "--url-groups", groups, "--url-key", "url",
            "--output", output]
