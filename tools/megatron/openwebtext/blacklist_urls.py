def translated(arguments):
    """blacklist_urls.py URLS OUTPUT; URLS may be a file, too."""
    if len(arguments) != 2 or arguments[0].startswith("-"):
        sys.exit("error: expected two arguments, the folder of the lists of URLs and the output")
    urls, output = arguments
    if not output.endswith(".txt"):
        sys.exit(f"error: {output}: expected a name that ends in .txt, the format of lists of URLs")
    return ["--input", os.path.join(urls, "*.txt") if os.path.isdir(urls) else urls, "--input-format", "txt",
            "--txt-document", "line", "--url-filters", "domain", "extension", "short", "malformed", "--exact-duplicates",
            "--output", output]
