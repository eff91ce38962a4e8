// Any words with any counts: both implementations learn the same merges. The first bytes of the
// input are the goal and whether there are special tokens; words end at zeros, and a word's first
// byte is its count.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/training/internal/learn_merges.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace meg::tokenizer;
  if (size < 3 || size > 4096) return 0;
  const MergeGoal goal{.vocab_size = 256 + size_t{data[0]}, .min_frequency = data[1] % 8};
  std::vector<std::string> special_tokens;
  if (data[2] % 2 == 1) special_tokens = {"ab", "aab", "<s>"};
  TrainingWords words;
  std::string_view left(reinterpret_cast<const char*>(data) + 3, size - 3);
  while (!left.empty()) {
    const std::string_view word = left.substr(0, left.find('\0'));
    left.remove_prefix(std::min(word.size() + 1, left.size()));
    if (word.size() > 2) words.add(word.substr(1), static_cast<uint8_t>(word[0]));
  }
  TokenList tokens(special_tokens);
  TokenList reference_tokens(special_tokens);
  const auto learned = fast::learn_merges(words, goal, tokens, {});
  MEG_FUZZ_CHECK(learned.has_value());
  MEG_FUZZ_CHECK(*learned == reference::learn_merges(words, goal, reference_tokens));
  MEG_FUZZ_CHECK(std::move(tokens).take() == std::move(reference_tokens).take());
  return 0;
}
