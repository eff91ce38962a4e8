// The target meg_gtest_pch needs one source to precompile its headers for.
