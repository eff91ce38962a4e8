// Any bytes as tokenizer.json: an error of one line, or a tokenizer that encodes as its reference
// implementation does, and decodes, at once and id by id.

#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"
#include "libmeg/tokenizer/interface/decode_stream.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer =
      meg::tokenizer::HuggingFaceTokenizer::parse(json, "tokenizer.json", {}, {});
  if (!tokenizer) {
    MEG_FUZZ_CHECK(tokenizer.error().message().starts_with("tokenizer.json"));
    MEG_FUZZ_CHECK(tokenizer.error().message().find('\n') == std::string::npos);
    return 0;
  }
  MEG_FUZZ_CHECK((*tokenizer)->vocab_size() > 0);
  MEG_FUZZ_CHECK((*tokenizer)->identity().has_value());
  const auto reference =
      meg::tokenizer::HuggingFaceTokenizer::parse(json, "tokenizer.json", {}, {.reference = true});
  for (const std::string_view text : {"a (b)..,  \u2581\u2581(1\n \u0436,\u4e2d\u6587b",
                                      "(\u4e2d\u4e2d\uff0c<s> e\u0301 \uac00"}) {
    if (!reference) break;
    const auto expected = (*reference)->encode(text);
    const auto found = (*tokenizer)->encode(text);
    MEG_FUZZ_CHECK(expected.has_value() == found.has_value());
    if (expected) MEG_FUZZ_CHECK(*expected == *found);
  }
  const auto ids = (*tokenizer)->encode("The 12 \xC3\xA9t\xC3\xA9s,  don't\n <s> \xE4\xB8\xAD");
  if (!ids) {  // a model without unknown token, or a pattern that takes too many steps
    MEG_FUZZ_CHECK(ids.error().code() == meg::StatusCode::kInvalidArgument ||
                   ids.error().code() == meg::StatusCode::kResourceExhausted);
    return 0;
  }
  meg::tokenizer::DecodeStream stream(**tokenizer);
  std::string streamed;
  for (const int32_t id : *ids) {
    MEG_FUZZ_CHECK((*tokenizer)->token_bytes(id).has_value());
    streamed += stream.add(id).value();
  }
  streamed += stream.finish().value();
  MEG_FUZZ_CHECK((*tokenizer)->decode(*ids).value() == streamed);
  return 0;
}
