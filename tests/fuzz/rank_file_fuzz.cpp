// Any bytes as .tiktoken or Megatron's JSON of ranks: an error of one line, or tokens.

#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/tokenizer/files/internal/tiktoken/rank_file.h"
#include "libmeg/tokenizer/files/internal/tiktoken/tik_tokenizer.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokens = meg::tokenizer::read_rank_file(text, "ranks");
  const auto is_one_line = [](const meg::Status& status) {
    return status.message().starts_with("ranks: ") || status.message().starts_with("ranks[");
  };
  if (!tokens) {
    MEG_FUZZ_CHECK(is_one_line(tokens.error()));
    MEG_FUZZ_CHECK(tokens.error().message().find('\n') == std::string::npos);
    return 0;
  }
  const auto tokenizer = meg::tokenizer::TikTokenizer::create(*tokens, "ranks", {});
  if (!tokenizer) {
    MEG_FUZZ_CHECK(is_one_line(tokenizer.error()));
    return 0;
  }
  const std::string sample = "The 12 \xC3\xA9t\xC3\xA9s,  don't\n \xE4\xB8\xAD";
  const auto ids = (*tokenizer)->encode(sample);
  MEG_FUZZ_CHECK(ids.has_value());
  MEG_FUZZ_CHECK((*tokenizer)->decode(*ids).value() == sample);
  return 0;
}
