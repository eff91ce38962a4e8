// encode_texts gpt2 VOCAB MERGES | huggingface FILE | tiktoken FILE PATTERN: encodes texts from
// stdin (u32 size and bytes, each) with every implementation; writes the reference's ids (u32 count
// and i32 ids for each text; the count 2^32-1 for a text that has none) to stdout. Ends with 1
// where another implementation gives other ids.

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/text/printable.h"
#include "libmeg/tokenizer/files/internal/huggingface/hugging_face_tokenizer.h"
#include "libmeg/tokenizer/files/internal/tiktoken/rank_file.h"
#include "libmeg/tokenizer/files/internal/tiktoken/tik_tokenizer.h"
#include "libmeg/tokenizer/interface/encode_text.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/implementations.h"

namespace {

std::vector<std::string> read_texts(std::istream& in) {
  const std::string input(std::istreambuf_iterator<char>(in), {});
  std::vector<std::string> texts;
  for (size_t at = 0; at + 4 <= input.size();) {
    const auto size = meg::load_le<uint32_t>(input.data() + at);
    texts.push_back(input.substr(at + 4, size));
    at += 4 + size;
  }
  return texts;
}

using Opened = meg::Result<std::unique_ptr<meg::tokenizer::Tokenizer>>;

/// A tokenizer by the words of the command line: `gpt2 VOCAB MERGES`, `huggingface FILE` or
/// `tiktoken FILE PATTERN`, the last without special tokens.
Opened open(const std::vector<std::string>& words, const meg::test::Implementation& chosen) {
  using namespace meg::tokenizer;
  const bool reference = chosen.implementation == GPT2BPETokenizer::Implementation::kReference;
  if (words.size() == 3 && words[0] == "gpt2") {
    MEG_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> made,
                         GPT2BPETokenizer::open(words[1], words[2], chosen.options()));
    return made;
  }
  if (words.size() == 2 && words[0] == "huggingface") {
    HuggingFaceTokenizer::Options options;
    options.reference = reference;
    options.instruction_set = chosen.instruction_set;
    options.include_special_tokens = false;
    MEG_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> made,
                         HuggingFaceTokenizer::open(words[1], options));
    return made;
  }
  if (words.size() == 3 && words[0] == "tiktoken") {
    TikTokenizer::Options options;
    options.reference = reference;
    options.pattern = words[2];
    const std::string text = meg::test::read_file(words[1]);
    MEG_ASSIGN_OR_RETURN(const auto tokens, read_rank_file(text, words[1]));
    MEG_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> made,
                         TikTokenizer::create(tokens, words[1], options));
    return made;
  }
  return meg::Status(meg::StatusCode::kInvalidArgument, "usage: gpt2|huggingface|tiktoken FILES");
}

/// nullopt for a text that has no ids.
using Ids = std::optional<std::vector<int32_t>>;

/// Empty where the tokenizer cannot be opened.
std::vector<Ids> encode_all(const std::vector<std::string>& texts,
                            const std::vector<std::string>& words,
                            const meg::test::Implementation& implementation) {
  const Opened tokenizer = open(words, implementation);
  if (!tokenizer) {
    std::fprintf(stderr, "error: %s\n", tokenizer.error().message().c_str());
    return {};
  }
  const auto encoder = (*tokenizer)->new_encoder(meg::DType::kInt32);
  std::vector<Ids> all;
  for (const std::string& text : texts) {
    auto ids = encode_text(*encoder, text);
    all.push_back(ids ? Ids(*std::move(ids)) : std::nullopt);
  }
  return all;
}

void write_ids(const Ids& ids) {
  const uint32_t count = ids ? static_cast<uint32_t>(ids->size()) : UINT32_MAX;
  std::fwrite(&count, sizeof(count), 1, stdout);
  for (const int32_t id : ids.value_or(std::vector<int32_t>()))
    std::fwrite(&id, sizeof(id), 1, stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::vector<std::string> texts = read_texts(std::cin);
  const auto expected = encode_all(texts, words, meg::test::kImplementations[0]);
  if (expected.empty()) return 1;
  for (const meg::test::Implementation& implementation :
       std::span(meg::test::kImplementations).subspan(1)) {
    if (implementation.instruction_set > meg::best_instruction_set()) continue;
    const auto found = encode_all(texts, words, implementation);
    for (size_t i = 0; i < texts.size(); ++i) {
      if (found[i] == expected[i]) continue;
      std::fprintf(stderr, "error: %s differs from the reference at text %zu: %s\n",
                   meg::test::name_of(implementation).c_str(), i,
                   meg::text::printable(texts[i]).c_str());
      return 1;
    }
  }
  for (const Ids& ids : expected) write_ids(ids);
  return 0;
}
