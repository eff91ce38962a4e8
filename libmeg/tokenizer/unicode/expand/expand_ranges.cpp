// Expands a file of ranges, written by scripts/make_unicode_tables.py, into the C++ of the tables
// that the tokenizers read. Runs during the build.
//
// usage: expand_ranges KIND NAMESPACE HEADER RANGES OUTPUT
//
// KIND: classes           kStage1 and kStage2 (two_stage_table.h) of numbers below 256
//       differences       the same, of places in kDifferences
//       sequences         the same, of places in kSequences: a count, then as many code points; 0
//       where nothing changes properties        ranges() and names(): the names of a value are
//       joined by '=' in the file character_class   classes that follow from general categories
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/tokenizer/unicode/internal/character_class.h"
#include "libmeg/tokenizer/unicode/internal/two_stage_table.h"

namespace meg::tokenizer {
namespace {

constexpr char32_t kCodePoints = 0x110000;

struct Run {
  char32_t first, last;
  std::string value;
};

[[noreturn]] void fail(std::string_view file, std::string_view what, std::string_view found) {
  std::cerr << file << ": " << what << ", found '" << found << "'\n";
  std::exit(1);
}

/// Integers in text, of the given base; the whole of it.
template <class Integer>
Integer parse(std::string_view file, std::string_view digits, int base) {
  Integer value{};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    fail(file, "expected a number", digits);
  }
  return value;
}

char32_t code_point(std::string_view file, std::string_view digits) {
  const auto value = parse<uint32_t>(file, digits, 16);
  if (value >= kCodePoints) fail(file, "expected a code point", digits);
  return value;
}

/// The ranges in ascending order, disjoint.
std::vector<Run> read_ranges(const std::string& file) {
  std::ifstream input(file);
  if (!input) fail(file, "cannot be opened", "");
  std::string word;
  std::getline(input, word);
  std::vector<Run> runs;
  std::string value;
  while (input >> word) {
    if (word.back() == ':') {
      value = word.substr(0, word.size() - 1);
      continue;
    }
    const size_t dash = word.find('-');
    const char32_t first = code_point(file, std::string_view(word).substr(0, dash));
    const char32_t last = dash == std::string::npos
                              ? first
                              : code_point(file, std::string_view(word).substr(dash + 1));
    if (value.empty() || last < first) fail(file, "expected a value, then ranges", word);
    runs.push_back({first, last, value});
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
  for (size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].first <= runs[i - 1].last) fail(file, "expected disjoint ranges", runs[i].value);
  }
  return runs;
}

template <class Value>
void write_array(std::ostream& out, const Value& values) {
  for (const auto value : values) out << static_cast<int64_t>(value) << ',';
  out << '\n';
}

/// The value of each code point as two stages; `element` is the C++ type of a value.
void write_two_stages(std::ostream& out, const std::string& file, std::string_view element,
                      const std::vector<uint16_t>& values) {
  using Block = std::array<uint16_t, kBlockSize>;
  std::map<Block, size_t> places;
  std::vector<Block> blocks;
  std::vector<size_t> stage1;
  for (size_t begin = 0; begin < values.size(); begin += kBlockSize) {
    Block block;
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(begin), kBlockSize, block.begin());
    const auto [place, added] = places.try_emplace(block, blocks.size());
    if (added) blocks.push_back(block);
    stage1.push_back(place->second);
  }
  if (blocks.size() > 256) {
    fail(file, "expected at most 256 different blocks", std::to_string(blocks.size()));
  }
  out << "const uint8_t kStage1[kStage1Size] = {\n";
  write_array(out, stage1);
  out << "};\nconst " << element << " kStage2[][kBlockSize] = {\n";
  for (const Block& block : blocks) {
    out << '{';
    write_array(out, block);
    out << "},\n";
  }
  out << "};\n";
}

/// number_of: the number of a range's value.
template <class NumberOf>
std::vector<uint16_t> of_all_code_points(const std::vector<Run>& runs, NumberOf number_of) {
  std::vector<uint16_t> values(kCodePoints);
  for (const Run& run : runs) {
    std::fill(values.begin() + run.first, values.begin() + run.last + 1, number_of(run));
  }
  return values;
}

void write_classes(std::ostream& out, const std::string& file, const std::vector<Run>& runs) {
  write_two_stages(out, file, "uint8_t", of_all_code_points(runs, [&](const Run& run) {
                     return uint16_t{parse<uint8_t>(file, run.value, 10)};
                   }));
}

void write_differences(std::ostream& out, const std::string& file, const std::vector<Run>& runs) {
  std::vector<int32_t> differences = {0};
  const auto values = of_all_code_points(runs, [&](const Run& run) {
    const auto difference = parse<int32_t>(file, run.value, 10);
    const auto found = std::find(differences.begin(), differences.end(), difference);
    const auto place = static_cast<size_t>(found - differences.begin());
    if (found == differences.end()) differences.push_back(difference);
    if (place > 255) fail(file, "expected at most 255 differences", run.value);
    return static_cast<uint16_t>(place);
  });
  write_two_stages(out, file, "uint8_t", values);
  out << "const int32_t kDifferences[] = {\n";
  write_array(out, differences);
  out << "};\n";
}

/// 61+301: two code points; -: none.
std::vector<char32_t> sequence_of(const std::string& file, std::string_view value) {
  std::vector<char32_t> sequence;
  if (value == "-") return sequence;
  for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = value.find('+', begin);
    sequence.push_back(code_point(file, value.substr(begin, end - begin)));
  }
  return sequence;
}

void write_sequences(std::ostream& out, const std::string& file, const std::vector<Run>& runs) {
  std::vector<char32_t> sequences = {0};
  std::map<std::string, uint16_t> places;
  const auto values = of_all_code_points(runs, [&](const Run& run) {
    const auto [place, added] =
        places.try_emplace(run.value, static_cast<uint16_t>(sequences.size()));
    if (added) {
      const std::vector<char32_t> sequence = sequence_of(file, run.value);
      sequences.push_back(static_cast<char32_t>(sequence.size()));
      sequences.insert(sequences.end(), sequence.begin(), sequence.end());
      if (sequences.size() > UINT16_MAX) fail(file, "expected fewer sequences", run.value);
    }
    return place->second;
  });
  write_two_stages(out, file, "uint16_t", values);
  out << "const char32_t kSequences[] = {\n";
  write_array(out, sequences);
  out << "};\n";
}

void write_properties(std::ostream& out, const std::string& file, const std::vector<Run>& runs) {
  std::map<std::string, size_t> numbers;
  for (const Run& run : runs) numbers.try_emplace(run.value, numbers.size());
  if (numbers.size() > 256) fail(file, "expected at most 256 values", runs.back().value);
  out << "constexpr PropertyRange kRanges[] = {\n";
  for (const Run& run : runs) {
    out << '{' << uint32_t{run.first} << ',' << uint32_t{run.last} << ',' << numbers.at(run.value)
        << "},\n";
  }
  out << "};\nconstexpr PropertyName kNames[] = {\n";
  for (const auto& [names, number] : numbers) {
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = names.find('=', begin);
      out << "{\"" << names.substr(begin, end - begin) << "\"," << number << "},\n";
    }
  }
  out << "};\nstd::span<const PropertyRange> ranges() { return kRanges; }\n"
         "std::span<const PropertyName> names() { return kNames; }\n";
}

CharacterClass class_of(std::string_view category, char32_t c) {
  const bool is_control_space = (c >= 9 && c <= 13) || c == 0x85;
  if (category.starts_with('Z') || is_control_space) return CharacterClass::kSpace;
  if (category == "Lu" || category == "Lt") return CharacterClass::kUpper;
  if (category == "Ll") return CharacterClass::kLower;
  switch (category.front()) {
    case 'L':
      return CharacterClass::kLetter;
    case 'M':
      return CharacterClass::kMark;
    case 'N':
      return CharacterClass::kNumber;
    case 'C':
      return CharacterClass::kControl;
    default:
      return CharacterClass::kOther;
  }
}

void write_character_classes(std::ostream& out, const std::string& file,
                             const std::vector<Run>& runs) {
  std::vector<uint16_t> values(kCodePoints);
  for (const Run& run : runs) {
    for (char32_t c = run.first; c <= run.last; ++c) {
      values[c] = static_cast<uint16_t>(class_of(run.value, c));
    }
  }
  write_two_stages(out, file, "uint8_t", values);
}

using Writer = void (*)(std::ostream&, const std::string&, const std::vector<Run>&);

Writer writer_of(const std::string& kind) {
  static const std::map<std::string, Writer> kWriters = {
      {"classes", write_classes},
      {"differences", write_differences},
      {"sequences", write_sequences},
      {"properties", write_properties},
      {"character_class", write_character_classes},
  };
  const auto found = kWriters.find(kind);
  if (found == kWriters.end()) fail("expand_ranges", "expected a kind of table", kind);
  return found->second;
}

int expand(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5) {
    std::cerr << "usage: expand_ranges KIND NAMESPACE HEADER RANGES OUTPUT\n";
    return 2;
  }
  const Writer write = writer_of(arguments[0]);
  const std::vector<Run> runs = read_ranges(arguments[3]);
  std::ofstream out(arguments[4]);
  out << "#include \"" << arguments[2] << "\"\n\nnamespace " << arguments[1] << " {\n\n";
  write(out, arguments[3], runs);
  out << "\n}  // namespace " << arguments[1] << '\n';
  out.close();
  if (!out) fail(arguments[4], "cannot be written", "");
  return 0;
}

}  // namespace
}  // namespace meg::tokenizer

int main(int argc, char** argv) { return meg::tokenizer::expand({argv + 1, argv + argc}); }
