// split_sentences PUNKT_FOLDER KEEP_NEWLINES MAX_CHARACTERS: reads texts from stdin (u32 size and
// bytes, each) and writes for each its number of sentences, and for each sentence offset and size
// in bytes, all u32.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "libmeg/base/bytes.h"
#include "libmeg/preprocess/sentences/internal/sentence_splitter.h"

namespace {

void write_number(size_t number) {
  const auto word = static_cast<uint32_t>(number);
  std::fwrite(&word, sizeof(word), 1, stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto splitter =
      meg::preprocess::SentenceSplitter::open({.punkt_folder = argv[1],
                                               .keep_newlines = std::string(argv[2]) == "1",
                                               .max_characters = std::atoll(argv[3])});
  if (!splitter.has_value()) {
    std::fprintf(stderr, "error: %s\n", splitter.error().message().c_str());
    return 1;
  }
  const std::string input(std::istreambuf_iterator<char>(std::cin), {});
  meg::text::TextList sentences;
  for (size_t at = 0; at + 4 <= input.size();) {
    const auto size = meg::load_le<uint32_t>(input.data() + at);
    const std::string_view text = std::string_view(input).substr(at + 4, size);
    at += 4 + size;
    splitter->split(text, sentences);
    write_number(sentences.size());
    for (const std::string_view sentence : sentences) {
      write_number(static_cast<size_t>(sentence.data() - text.data()));
      write_number(sentence.size());
    }
  }
  return 0;
}
