def translated(arguments):
    """Says what there is in place of scripts whose results clean_dataset does not have."""
    name = os.path.basename(__file__)
    near = "clean_dataset --near-duplicates finds and removes near duplicates, by words, in one run"
    instead = {"cleanup_dataset.py": "clean_dataset --repair all --min-tokens 128 does the rest, but detects no language"}
    sys.exit(f"error: {name}: libmeg does not do what this script does: " + instead.get(name, near))
