// Any bytes as merges.txt beside a sound vocab.json: an error, or a model that holds together.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/tokenizer/models/internal/bpe/bpe_model.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/tokenizer/tiny_model.h"

namespace {

void check(const meg::tokenizer::BpeModel& model) {
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (const meg::tokenizer::BpeModel::Merge& merge : model.merges()) {
    for (const int32_t piece : {merge.left, merge.right, merge.result}) {
      MEG_FUZZ_CHECK(piece >= 0 && piece < model.piece_count());
    }
    const std::string left(model.piece_bytes(merge.left));
    MEG_FUZZ_CHECK(left + std::string(model.piece_bytes(merge.right)) ==
                   model.piece_bytes(merge.result));
    MEG_FUZZ_CHECK(pairs.emplace(merge.left, merge.right).second);
  }
  std::set<std::string_view> pieces;
  for (int32_t piece = 0; piece < model.piece_count(); ++piece) {
    MEG_FUZZ_CHECK(pieces.insert(model.piece_bytes(piece)).second);
    MEG_FUZZ_CHECK(model.token_bytes(model.token_id(piece)) == model.piece_bytes(piece));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string vocab = meg::test::vocab_json(
      {"Ġt", "he", "Ġthe", "ab", "bc", "abc", "abcabc", "Ġ語", "語"});  // few, to be quick
  const std::string_view merges(reinterpret_cast<const char*>(data), size);
  const meg::Result<meg::tokenizer::BpeModel> model =
      meg::tokenizer::BpeModel::parse(vocab, "vocab.json", merges, "merges.txt");
  if (model) {
    check(*model);
  } else {
    MEG_FUZZ_CHECK(model.error().message().starts_with("merges.txt: "));
    MEG_FUZZ_CHECK(model.error().message().find('\n') == std::string::npos);
  }
  return 0;
}
