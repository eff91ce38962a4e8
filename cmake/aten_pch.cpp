// The target meg_aten_pch needs one source to precompile its header for.
