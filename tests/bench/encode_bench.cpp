// encode_bench TYPE FILE TEXTS [IDS]: encodes texts (u32 size and bytes, each) with one thread and
// a cold cache, as --tokenizer-type TYPE at core_v0.14.0 does with FILE, and prints seconds of the
// processor, bytes and tokens. IDS: receives the ids, int32, one text after another.

#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/registry/open_tokenizer.h"

namespace {

using meg::tokenizer::TokenBuffer;
using meg::tokenizer::Tokenizer;
using meg::tokenizer::TokenizerOptions;

std::vector<std::string> read_texts(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string input(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> texts;
  for (size_t at = 0; at + 4 <= input.size();) {
    const size_t size = meg::load_le<uint32_t>(input.data() + at);
    texts.push_back(input.substr(at + 4, size));
    texts.back().reserve(size + meg::text::kTextPadding);
    at += 4 + size;
  }
  return texts;
}

void write(std::ofstream& file, const TokenBuffer& tokens) {
  file.write(reinterpret_cast<const char*>(tokens.bytes().data()),
             static_cast<std::streamsize>(tokens.bytes().size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  TokenizerOptions options;
  options.tokenizer_type = argv[1];
  options.vocab_file = options.tokenizer_model = argv[2];
  options.version = *meg::megatron::parse_megatron_version("core_v0.14.0");
  const auto tokenizer = meg::tokenizer::open_tokenizer(options);
  if (!tokenizer) {
    std::fprintf(stderr, "error: %s\n", tokenizer.error().message().c_str());
    return 1;
  }
  const std::vector<std::string> texts = read_texts(argv[3]);
  TokenBuffer tokens(meg::DType::kInt32);
  std::ofstream ids(argc == 5 ? argv[4] : "", std::ios::binary);
  size_t bytes = 0;
  int64_t count = 0;
  const std::clock_t begin = std::clock();
  const auto encoder = (*tokenizer)->new_encoder(meg::DType::kInt32);
  for (const std::string& text : texts) {
    if (!encoder->encode(text, tokens).ok()) return 1;
    bytes += text.size();
    count += tokens.size();
    if (argc == 5) write(ids, tokens);
    tokens.clear();
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("%.6f %zu %lld\n", seconds, bytes, static_cast<long long>(count));
  return 0;
}
