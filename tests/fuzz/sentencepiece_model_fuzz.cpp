// Any bytes as a SentencePiece model: an error, or a model whose fast encoder gives the reference's
// ids, all of the vocabulary, which decode.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/files/internal/sentencepiece/sentencepiece_tokenizer.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using meg::tokenizer::sentencepiece::Model;
using meg::tokenizer::sentencepiece::ModelFile;
using meg::tokenizer::sentencepiece::SentencePieceTokenizer;

meg::Result<Model> open(std::string_view bytes) {
  MEG_ASSIGN_OR_RETURN(ModelFile file, ModelFile::parse(bytes, "m.model"));
  return Model::build(std::move(file));
}

std::unique_ptr<SentencePieceTokenizer> tokenizer(
    std::string_view bytes, SentencePieceTokenizer::Implementation implementation) {
  SentencePieceTokenizer::Options options;
  options.implementation = implementation;
  return *SentencePieceTokenizer::build(*open(bytes), options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const meg::Result<Model> model = open(bytes);
  if (!model) {
    MEG_FUZZ_CHECK(!model.error().message().empty());
    MEG_FUZZ_CHECK(model.error().message().find('\n') == std::string::npos);
    return 0;
  }
  const auto plain = tokenizer(bytes, SentencePieceTokenizer::Implementation::kReference);
  const auto fast = tokenizer(bytes, SentencePieceTokenizer::Implementation::kFast);
  std::vector<std::string> texts = {"", "Hello  world",
                                    " \t a\u00e9\u2581\u4e16\u754c \U0001F642 "};
  texts.emplace_back();
  meg::text::append_replacing_invalid_utf8(bytes.substr(0, 300), texts.back());
  for (const std::string& text : texts) {
    const auto expected = plain->encode(text);
    MEG_FUZZ_CHECK(expected.has_value());
    MEG_FUZZ_CHECK(*fast->encode(text) == *expected);
    for (const int32_t id : *expected) MEG_FUZZ_CHECK(id >= 0 && id < plain->vocab_size());
    MEG_FUZZ_CHECK(plain->decode(*expected).has_value());
  }
  return 0;
}
