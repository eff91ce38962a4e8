// Any bytes as lines of pairs of find_duplicates, and as the groups that clean_dataset removes: an
// error of one line, or groups that can be read again, each URL once.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "libmeg/cleaning/openwebtext/duplicate_groups.h"
#include "tests/checkpoint/container/memory_file.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

void check_error(const meg::Status& status) {
  MEG_FUZZ_CHECK(status.code() == meg::StatusCode::kCorruption ||
                 status.code() == meg::StatusCode::kResourceExhausted);
  MEG_FUZZ_CHECK(status.message().find('\n') == std::string::npos);
}

struct Folder {
  Folder() {
    char name[] = "/tmp/meg-fuzz-XXXXXX";
    MEG_FUZZ_CHECK(::mkdtemp(name) != nullptr);
    path = name;
  }

  ~Folder() { std::filesystem::remove_all(path); }

  std::string path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  const meg::test::MemoryFile input(std::string_view(reinterpret_cast<const char*>(data), size));
  const auto removed = meg::cleaning::read_grouped_urls(input.path());
  if (!removed.has_value()) check_error(removed.error());

  const std::string groups = folder.path + "/groups.jsonl";
  const auto found = meg::cleaning::group_duplicates(input.path(), groups, 0.5, {});
  if (!found.has_value()) {
    check_error(found.error());
    return 0;
  }
  const auto read = meg::cleaning::read_grouped_urls(groups);
  MEG_FUZZ_CHECK(read.has_value());
  MEG_FUZZ_CHECK(static_cast<int64_t>(read->size()) == found->urls - found->groups);
  return 0;
}
