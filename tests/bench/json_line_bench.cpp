// json_line_bench FILE...: MB/s of JSON lines on one core, for the readers of the key "text": the
// fast one with every instruction set, the strict one, simdjson's two parsers. Files are read into
// memory first; the texts of all are compared with the strict reader's before time counts.

#include <benchmark/benchmark.h>
#include <simdjson.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/cpu.h"
#include "libmeg/preprocess/sources/internal/text_source.h"
#include "libmeg/text/json/fast_json.h"
#include "libmeg/text/json/python_json.h"
#include "libmeg/text/line_ends.h"
#include "libmeg/text/text_padding.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace {

using meg::InstructionSet;

/// Gives the text of a line; empty where it is refused.
using Reader = std::function<std::string_view(std::string_view line)>;

struct NamedReader {
  std::string name;
  Reader read;
};

Reader fast_reader(InstructionSet set) {
  auto reader = std::make_shared<meg::text::FastJsonReader>(std::vector<std::string>{"text"}, set);
  return [reader](std::string_view line) {
    return reader->read(line) ? reader->texts(0).front() : std::string_view();
  };
}

Reader strict_reader() {
  auto reader = std::make_shared<meg::text::PythonJsonReader>(std::vector<std::string>{"text"});
  return [reader](std::string_view line) {
    return reader->read(line).ok() ? reader->texts(0).front() : std::string_view();
  };
}

Reader dom_reader() {
  auto parser = std::make_shared<simdjson::dom::parser>();
  return [parser](std::string_view line) {
    std::string_view text;
    const bool is_read = !parser->parse(line.data(), line.size(), false)["text"].get(text);
    return is_read ? text : std::string_view();
  };
}

/// Validates less than the others: not what it skips.
Reader ondemand_reader() {
  auto parser = std::make_shared<simdjson::ondemand::parser>();
  return [parser](std::string_view line) {
    simdjson::ondemand::document document;
    std::string_view text;
    const size_t capacity = line.size() + meg::text::kTextPadding;
    if (parser->iterate(line.data(), line.size(), capacity).get(document)) return text;
    return document["text"].get(text) ? std::string_view() : text;
  };
}

std::vector<NamedReader> readers() {
  std::vector<NamedReader> all{{"strict", strict_reader()}};
  for (const auto set :
       {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > meg::best_instruction_set()) continue;
    all.push_back({"fast/" + std::string(instruction_set_name(set)), fast_reader(set)});
  }
  all.push_back({"simdjson/dom", dom_reader()});
  all.push_back({"simdjson/ondemand", ondemand_reader()});
  return all;
}

/// A number that depends on every byte of every text, in order.
uint64_t digest_of_texts(std::string_view lines, const Reader& read) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t digest = 0xcbf29ce484222325;
  std::string_view line;
  while (meg::text::take_line(lines, line)) {
    for (const char c : read(line)) digest = (digest ^ static_cast<uint8_t>(c)) * kPrime;
    digest = (digest ^ '\n') * kPrime;
  }
  return digest;
}

void read_all(benchmark::State& state, std::string_view text, const Reader& read) {
  for (auto _ : state) {
    std::string_view lines = text;
    std::string_view line;
    while (meg::text::take_line(lines, line)) benchmark::DoNotOptimize(read(line).size());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

/// Registers all readers for one file; false where they differ or it cannot be read.
bool add_file(const std::string& path, meg::preprocess::TextChunk& chunk) {
  auto source = meg::preprocess::TextSource::open({path}, size_t{32} << 20);
  if (!source || !source->next(chunk)) return false;
  uint64_t expected = 0;
  for (const NamedReader& reader : readers()) {
    const uint64_t digest = digest_of_texts(chunk.lines, reader.read);
    if (reader.name == "strict") expected = digest;
    if (digest != expected) std::fprintf(stderr, "error: %s differs\n", reader.name.c_str());
    if (digest != expected) return false;
    const std::string name = path.substr(path.rfind('/') + 1) + "/" + reader.name;
    benchmark::RegisterBenchmark(name.c_str(), read_all, chunk.lines, reader.read);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<meg::preprocess::TextChunk> chunks(static_cast<size_t>(argc));
  for (int i = 1; i < argc; ++i) {
    if (!add_file(argv[i], chunks[static_cast<size_t>(i)])) return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
