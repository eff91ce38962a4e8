#include "libmeg/tokenizer/models/internal/sentencepiece/reference/reference_encoder.h"

#include <string>

#include "libmeg/tokenizer/models/internal/sentencepiece/id_writer.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/reference/normalize.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/reference/segment.h"

namespace meg::tokenizer::sentencepiece::reference {

namespace {

template <class Id>
class ReferenceEncoder : public TokenEncoder {
 public:
  explicit ReferenceEncoder(const Model& model) : model_(model) {}

  Status encode(std::string_view text, TokenBuffer& tokens) override {
    const std::string normalized = normalize(model_, text);
    // There is at most an id a byte, also where unknown text is spelled in byte pieces.
    Id* const begin = tokens.grow<Id>(static_cast<int64_t>(normalized.size()));
    IdWriter<Id> writer(model_, begin);
    for (const Segment& segment : segments(model_, normalized)) {
      if (segment.id == Segment::kUnknown) {
        writer.unknown(segment.text);
      } else {
        writer.piece(segment.id);
      }
    }
    tokens.commit(writer.end() - begin);
    return {};
  }

 private:
  const Model& model_;
};

}  // namespace

std::unique_ptr<TokenEncoder> new_reference_encoder(const Model& model, DType dtype) {
  if (dtype == DType::kUint16) return std::make_unique<ReferenceEncoder<uint16_t>>(model);
  return std::make_unique<ReferenceEncoder<int32_t>>(model);
}

}  // namespace meg::tokenizer::sentencepiece::reference
