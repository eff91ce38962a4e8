// encode_texts VOCAB MERGES: encodes texts from stdin (u32 size and bytes, each) with every
// implementation; writes the reference's ids (u32 count and i32 ids for each text) to stdout. Ends
// with 1 where another implementation gives other ids.

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/text/text_padding.h"
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

/// Empty where the tokenizer cannot be opened.
std::vector<std::vector<int32_t>> encode_all(const std::vector<std::string>& texts, char** files,
                                             const meg::test::Implementation& implementation) {
  const auto tokenizer =
      meg::tokenizer::GPT2BPETokenizer::open(files[0], files[1], implementation.options());
  if (!tokenizer) {
    std::fprintf(stderr, "error: %s\n", tokenizer.error().message().c_str());
    return {};
  }
  const auto encoder = (*tokenizer)->new_encoder(meg::DType::kInt32);
  std::vector<std::vector<int32_t>> all;
  for (const std::string& text : texts) {
    const std::string padded = text + std::string(meg::text::kTextPadding, 'x');
    meg::tokenizer::TokenBuffer tokens(meg::DType::kInt32);
    encoder->encode(std::string_view(padded).substr(0, text.size()), tokens);
    all.emplace_back();
    for (int64_t i = 0; i < tokens.size(); ++i) all.back().push_back(tokens.at(i));
  }
  return all;
}

void write_ids(const std::vector<int32_t>& ids) {
  const auto count = static_cast<uint32_t>(ids.size());
  std::fwrite(&count, sizeof(count), 1, stdout);
  for (const int32_t id : ids) std::fwrite(&id, sizeof(id), 1, stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::vector<std::string> texts = read_texts(std::cin);
  const auto expected = encode_all(texts, argv + 1, meg::test::kImplementations[0]);
  if (expected.empty()) return 1;
  for (const meg::test::Implementation& implementation : meg::test::kImplementations) {
    if (implementation.instruction_set > meg::best_instruction_set()) continue;
    if (encode_all(texts, argv + 1, implementation) != expected) return 1;
  }
  for (const std::vector<int32_t>& ids : expected) write_ids(ids);
  return 0;
}
