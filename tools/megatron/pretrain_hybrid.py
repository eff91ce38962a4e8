def translated(arguments):
    """Without a pattern, all layers of Megatron's script are Mamba layers, where pretrain_gpt would train a GPT model."""
    if not any(word.startswith(("--hybrid-l", "--hybrid-o", "--use-checkpoint-args", "--config")) for word in arguments):
        sys.exit(f"error: {os.path.basename(__file__)}: expected --hybrid-layer-pattern, found none, which stands for "
                 "Mamba layers: libmeg has none")
    return arguments
