// Any bytes as vocab.json: an error, or a model whose ids decode.

#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view vocab(reinterpret_cast<const char*>(data), size);
  const meg::Result<meg::tokenizer::BpeModel> model =
      meg::tokenizer::BpeModel::parse(vocab, "vocab.json", "#version: 0.2\n", "merges.txt");
  if (!model) {
    MEG_FUZZ_CHECK(model.error().message().starts_with("vocab.json: "));
    MEG_FUZZ_CHECK(model.error().message().find('\n') == std::string::npos);
    return 0;
  }
  MEG_FUZZ_CHECK(model->vocab_size() > 0);
  MEG_FUZZ_CHECK(model->piece_count() == 256);
  MEG_FUZZ_CHECK(model->token_bytes(model->max_id()).has_value());
  MEG_FUZZ_CHECK(!model->token_bytes(-1).has_value());
  for (int32_t byte = 0; byte < 256; ++byte) {
    const int32_t id = model->token_id(byte);
    MEG_FUZZ_CHECK(id >= 0 && id <= model->max_id());
    MEG_FUZZ_CHECK(id == 0 || model->token_bytes(id).has_value());
  }
  return 0;
}
