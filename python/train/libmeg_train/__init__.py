"""The programs of libmeg that need LibTorch: pretrain_gpt, evaluate_gpt, generate, score and run_text_generation_server.
pip puts scripts of their names beside Python; nothing is to be imported."""
