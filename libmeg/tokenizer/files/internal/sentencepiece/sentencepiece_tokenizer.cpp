#include "libmeg/tokenizer/files/internal/sentencepiece/sentencepiece_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "libmeg/tokenizer/files/internal/sentencepiece/special_tokens.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/decode.h"
#include "libmeg/tokenizer/models/internal/sentencepiece/reference/reference_encoder.h"

namespace meg::tokenizer::sentencepiece {

SentencePieceTokenizer::SentencePieceTokenizer(Model model, const Options& options)
    : model_(std::move(model)),
      options_(options),
      eod_(model_.eos_id()),
      bos_(model_.bos_id()),
      pad_(model_.pad_id()) {
  // Made once, as token_bytes() gives views.
  for (const Piece& piece : model_.pieces()) tokens_.push_back(bytes_of(model_, piece));
  if (options_.special_tokens) add_special_tokens();
  if (options_.implementation == Implementation::kFast) fast_ = fast::FastModel::build(model_);
}

Result<std::unique_ptr<SentencePieceTokenizer>> SentencePieceTokenizer::build(
    Model model, const Options& options) {
  if (options.bos_in_front && !model.bos_id()) {
    return make_error(StatusCode::kInvalidArgument,
                      "expected a control piece {} to begin every text, found none",
                      model.file().bos_piece);
  }
  return std::unique_ptr<SentencePieceTokenizer>(
      new SentencePieceTokenizer(std::move(model), options));
}

/// Adds them in Megatron's order, which gives new ids.
void SentencePieceTokenizer::add_special_tokens() {
  const auto text_of = [this](std::optional<int32_t> id, std::string_view otherwise) {
    return id ? model_.pieces()[static_cast<size_t>(*id)].text : std::string(otherwise);
  };
  const std::string pad = text_of(pad_, "<PAD>");
  const std::string bos = text_of(bos_, "<BOS>");
  const std::string eos = text_of(model_.eos_id(), "<EOS>");
  add_special_token("<CLS>");
  add_special_token("<SEP>");
  eod_ = add_special_token("<EOD>");
  add_special_token("<MASK>");
  pad_ = add_special_token(pad);
  bos_ = add_special_token(bos);
  add_special_token(eos);
  for (int64_t i = 0; i < options_.extra_ids; ++i) {
    add_special_token(fmt::format("<extra_id_{}>", i));
  }
}

/// Returns the id, which is the piece's where the model has one of this text.
int32_t SentencePieceTokenizer::add_special_token(const std::string& text) {
  const std::optional<int32_t> known = model_.find(text);
  const auto id = known.value_or(static_cast<int32_t>(tokens_.size()));
  // Megatron decodes a special token with spaces around it.
  const std::string shown = fmt::format(" {} ", text);
  if (known) {
    tokens_[static_cast<size_t>(id)] = shown;
  } else {
    tokens_.push_back(shown);
  }
  specials_.push_back({text, id});
  return id;
}

std::vector<SpecialToken> SentencePieceTokenizer::special_tokens() const {
  std::vector<SpecialToken> sorted = specials_;
  const auto before = [](const SpecialToken& a, const SpecialToken& b) { return a.id < b.id; };
  std::sort(sorted.begin(), sorted.end(), before);
  return sorted;
}

std::optional<std::string_view> SentencePieceTokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id > max_id()) return std::nullopt;
  return tokens_[static_cast<size_t>(id)];
}

std::unique_ptr<TokenEncoder> SentencePieceTokenizer::new_encoder(DType dtype) const {
  std::unique_ptr<TokenEncoder> encoder = new_text_encoder(dtype);
  // bos last, so that it stands once before the text and not before each part between special
  // tokens.
  if (options_.special_tokens) encoder = new_special_tokens_encoder(std::move(encoder), specials_);
  if (options_.bos_in_front) encoder = new_bos_encoder(std::move(encoder), *bos_);
  return encoder;
}

std::unique_ptr<TokenEncoder> SentencePieceTokenizer::new_text_encoder(DType dtype) const {
  return fast_ ? fast_->new_encoder(dtype) : reference::new_reference_encoder(model_, dtype);
}

const std::string* SentencePieceTokenizer::special_text(int32_t id) const {
  const auto found = std::find_if(specials_.begin(), specials_.end(),
                                  [&](const SpecialToken& token) { return token.id == id; });
  return found == specials_.end() ? nullptr : &found->text;
}

Result<std::string> SentencePieceTokenizer::decode_text(std::span<const int32_t> ids,
                                                        bool more_follow) const {
  std::string text;
  size_t part = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    MEG_RETURN_IF_ERROR(bytes_of_token(ids[i], i).status());
    // Pieces between special tokens are decoded together: the library treats the first one of a
    // text in its own way (decode.cpp), and byte pieces need their neighbours.
    const std::string* const special = special_text(ids[i]);
    if (special == nullptr) continue;
    text += sentencepiece::decode(model_, ids.subspan(part, i - part), false);
    text += fmt::format(" {} ", *special);
    part = i + 1;
  }
  return text + sentencepiece::decode(model_, ids.subspan(part), more_follow);
}

}  // namespace meg::tokenizer::sentencepiece
