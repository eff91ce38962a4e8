def translated(arguments):
    """merge_jsons.py [--json_path FOLDER] [--output_file FILE]"""
    import argparse
    parser = argparse.ArgumentParser(prog="merge_jsons.py")
    parser.add_argument("--json_path", default=".", help="folder of the .json files, one JSON object a line")
    parser.add_argument("--output_file", default="merged_output.json")
    flags = parser.parse_args(arguments)
    return ["--input", os.path.join(flags.json_path, "*.json"), "--input-format", "json", "--output", flags.output_file]
