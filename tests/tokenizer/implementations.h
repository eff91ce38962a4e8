#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "libmeg/base/cpu.h"
#include "libmeg/tokenizer/files/internal/gpt2/gpt2_bpe_tokenizer.h"

namespace meg::test {

/// One of the implementations that must give the same ids.
struct Implementation {
  tokenizer::GPT2BPETokenizer::Implementation implementation;
  InstructionSet instruction_set;

  tokenizer::GPT2BPETokenizer::Options options(bool special_tokens_in_text = false) const {
    return {implementation, special_tokens_in_text, instruction_set};
  }
};

inline constexpr Implementation kImplementations[] = {
    {tokenizer::GPT2BPETokenizer::Implementation::kReference, InstructionSet::kPortable},
    {tokenizer::GPT2BPETokenizer::Implementation::kFast, InstructionSet::kPortable},
    {tokenizer::GPT2BPETokenizer::Implementation::kFast, InstructionSet::kAvx2},
    {tokenizer::GPT2BPETokenizer::Implementation::kFast, InstructionSet::kAvx512},
};

inline std::string name_of(const Implementation& implementation) {
  if (implementation.implementation == tokenizer::GPT2BPETokenizer::Implementation::kReference) {
    return "reference";
  }
  return "fast_" + std::string(instruction_set_name(implementation.instruction_set));
}

/// How GoogleTest shows it.
inline void PrintTo(const Implementation& implementation, std::ostream* out) {
  *out << name_of(implementation);
}

inline std::string test_name(const testing::TestParamInfo<Implementation>& tested) {
  return name_of(tested.param);
}

/// Its cases skip, visibly, what this processor cannot run.
class ImplementationTest : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    if (GetParam().instruction_set > best_instruction_set()) {
      GTEST_SKIP() << "this processor lacks " << instruction_set_name(GetParam().instruction_set);
    }
  }
};

}  // namespace meg::test

/// Runs the TEST_P cases of `suite`, an ImplementationTest, for each implementation.
#define MEG_TEST_ALL_IMPLEMENTATIONS(suite)                                              \
  INSTANTIATE_TEST_SUITE_P(All, suite, testing::ValuesIn(::meg::test::kImplementations), \
                           ::meg::test::test_name)
