def translated(arguments):
    """add_id.py --input-file FILE --output-file FILE --id-prefix PREFIX [--log-interval N]"""
    import argparse
    parser = argparse.ArgumentParser(prog="add_id.py")
    parser.add_argument("--input-file", required=True, help="one JSON object a line")
    parser.add_argument("--output-file", required=True)
    parser.add_argument("--id-prefix", required=True)
    parser.add_argument("--log-interval", type=int, default=100)
    flags = parser.parse_args(arguments)
    return ["--input", flags.input_file, "--input-format", "json", "--output", flags.output_file, "--id-prefix=" + flags.id_prefix,
            "--log-interval", str(flags.log_interval)]
