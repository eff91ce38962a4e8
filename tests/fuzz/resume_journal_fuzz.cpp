// Any text as the journal of preprocess_data --resume: what is taken is within bounds, what is not
// is refused in one line. After a + the text gets the lines of this run before it and a right
// checksum after it.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/io/crc32.h"
#include "libmeg/preprocess/internal/resume_journal.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

namespace fs = std::filesystem;
using meg::preprocess::Checkpoint;
using meg::preprocess::PreprocessOptions;
using meg::preprocess::ResumeJournal;

struct Folder {
  Folder() {
    char name[] = "/tmp/meg-fuzz-XXXXXX";
    MEG_FUZZ_CHECK(::mkdtemp(name) != nullptr);
    path = name;
    std::ofstream(path + "/in") << "{}\n";
    options.inputs = {path + "/in"};
    options.output_prefix = path + "/out";
    options.resume = true;
  }

  ~Folder() { fs::remove_all(path); }

  std::string journal() const { return path + "/out.resume/journal"; }

  std::string path;
  PreprocessOptions options;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

auto open(const Folder& folder) { return ResumeJournal::open(folder.options, meg::DType::kUint16); }

/// The lines of a journal of this run that stand before its checkpoint.
std::string lines_of_run(const Folder& folder) {
  auto journal = open(folder);
  MEG_FUZZ_CHECK(journal.has_value() && journal->save(journal->checkpoint()).ok());
  const std::string text = read_file(folder.journal());
  return text.substr(0, text.find("state "));
}

bool is_within_bounds(const Checkpoint& at) {
  const auto is_count = [](int64_t value) { return value >= 0 && value <= int64_t{1} << 56; };
  bool fits = is_count(at.input) && is_count(at.offset) && is_count(at.lines) &&
              is_count(at.summary.documents) && is_count(at.summary.tokens) &&
              is_count(at.summary.short_documents);
  for (const auto& mark : at.marks) {
    fits = fits && is_count(mark.sequences) && is_count(mark.documents) && is_count(mark.items);
  }
  return fits && at.marks.size() == 1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  static const std::string run = lines_of_run(folder);
  std::string text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('+')) {
    text = run + text.substr(1);
    const uint32_t crc = meg::io::crc32(std::as_bytes(std::span(text)));
    text += fmt::format("crc32 {:08x}\n", crc);
  }
  std::ofstream(folder.journal(), std::ios::binary) << text;
  const auto opened = open(folder);
  if (!opened.has_value()) {
    MEG_FUZZ_CHECK(opened.error().message().find('\n') == std::string::npos);
    return 0;
  }
  MEG_FUZZ_CHECK(is_within_bounds(opened->checkpoint()));
  return 0;
}
