// tokenize_texts encode|decode TYPE FILE: reads from stdin texts (u32 size and bytes, each) or ids
// (u32 count and i32 ids, each) and writes, in the same form, what a tokenizer makes of each. TYPE:
// sentencepiece, bert_lower or bert_cased. Encodes with every implementation and ends with 1 where
// they give other ids, or where the file cannot be opened.

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/files/internal/bert/bert_word_piece_tokenizer.h"
#include "libmeg/tokenizer/files/internal/sentencepiece/sentencepiece_tokenizer.h"

namespace {

using meg::tokenizer::TokenBuffer;
using meg::tokenizer::TokenEncoder;
using meg::tokenizer::Tokenizer;

/// The parts of stdin, each of so many units of `unit` bytes as the u32 before it says.
std::vector<std::string> read_parts(size_t unit) {
  const std::string input(std::istreambuf_iterator<char>(std::cin), {});
  std::vector<std::string> parts;
  for (size_t at = 0; at + 4 <= input.size();) {
    const size_t size = meg::load_le<uint32_t>(input.data() + at) * unit;
    parts.push_back(input.substr(at + 4, size));
    at += 4 + size;
  }
  return parts;
}

void write_part(uint32_t count, std::string_view bytes) {
  std::fwrite(&count, sizeof(count), 1, stdout);
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

using Opened = meg::Result<std::unique_ptr<Tokenizer>>;

Opened open_sentencepiece(const std::string& path, bool fast) {
  using meg::tokenizer::sentencepiece::Model;
  using meg::tokenizer::sentencepiece::ModelFile;
  using meg::tokenizer::sentencepiece::SentencePieceTokenizer;
  MEG_ASSIGN_OR_RETURN(ModelFile file, ModelFile::load(path));
  MEG_ASSIGN_OR_RETURN(Model model, Model::build(std::move(file)));
  SentencePieceTokenizer::Options options;
  using enum SentencePieceTokenizer::Implementation;
  options.implementation = fast ? kFast : kReference;
  MEG_ASSIGN_OR_RETURN(auto tokenizer, SentencePieceTokenizer::build(std::move(model), options));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

Opened open_bert(const std::string& path, bool fast, bool lower_case) {
  using meg::tokenizer::wordpiece::BertWordPieceTokenizer;
  BertWordPieceTokenizer::Options options;
  using enum BertWordPieceTokenizer::Implementation;
  options.implementation = fast ? kFast : kReference;
  options.lower_case = lower_case;
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  MEG_ASSIGN_OR_RETURN(auto tokenizer, BertWordPieceTokenizer::parse(text, path, options));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

std::unique_ptr<Tokenizer> open(std::string_view type, const std::string& path, bool fast) {
  Opened opened = type == "sentencepiece" ? open_sentencepiece(path, fast)
                                          : open_bert(path, fast, type == "bert_lower");
  if (opened) return std::move(*opened);
  std::fprintf(stderr, "error: %s\n", opened.error().message().c_str());
  return nullptr;
}

std::string encode(TokenEncoder& encoder, const std::string& text) {
  const std::string padded = text + std::string(meg::text::kTextPadding, 'x');
  TokenBuffer tokens(meg::DType::kInt32);
  if (!encoder.encode(std::string_view(padded).substr(0, text.size()), tokens).ok()) return {};
  return {reinterpret_cast<const char*>(tokens.bytes().data()), tokens.bytes().size()};
}

/// The reference's ids; whether the fast implementation gives the same, twice, as it learns words.
bool encode_all(const Tokenizer& reference, const Tokenizer& fast) {
  const auto plain = reference.new_encoder(meg::DType::kInt32);
  const auto learning = fast.new_encoder(meg::DType::kInt32);
  bool same = true;
  const std::vector<std::string> texts = read_parts(1);
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string ids = encode(*plain, texts[i]);
    write_part(static_cast<uint32_t>(ids.size() / 4), ids);
    for (int time = 0; time < 2; ++time) {
      if (encode(*learning, texts[i]) == ids) continue;
      std::fprintf(stderr, "text %zu: the fast implementation differs\n", i);
      same = false;
    }
  }
  return same;
}

bool decode_all(const Tokenizer& tokenizer) {
  for (const std::string& part : read_parts(sizeof(int32_t))) {
    std::vector<int32_t> ids;
    for (size_t at = 0; at < part.size(); at += 4) {
      ids.push_back(meg::load_le<int32_t>(part.data() + at));
    }
    const auto text = tokenizer.decode(ids);
    if (!text) return false;
    write_part(static_cast<uint32_t>(text->size()), *text);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto reference = open(argv[2], argv[3], false);
  const auto fast = open(argv[2], argv[3], true);
  if (!reference || !fast) return 1;
  if (std::string_view(argv[1]) == "decode") return decode_all(*fast) ? 0 : 1;
  return encode_all(*reference, *fast) ? 0 : 1;
}
