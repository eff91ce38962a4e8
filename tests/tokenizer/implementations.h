#pragma once

#include <gtest/gtest.h>

#include <string>

#include "libmeg/tokenizer/gpt2_bpe_tokenizer.h"

namespace meg::test {

inline std::string implementation_name(
    const testing::TestParamInfo<GPT2BPETokenizer::Implementation>& tested) {
  return tested.param == GPT2BPETokenizer::Implementation::kFast ? "Fast" : "Reference";
}

}  // namespace meg::test

/// Runs the TEST_P cases of `suite`, a TestWithParam<GPT2BPETokenizer::Implementation>, for each.
#define MEG_TEST_ALL_IMPLEMENTATIONS(suite)                                               \
  INSTANTIATE_TEST_SUITE_P(Implementations, suite,                                        \
                           testing::Values(GPT2BPETokenizer::Implementation::kFast,       \
                                           GPT2BPETokenizer::Implementation::kReference), \
                           ::meg::test::implementation_name)
