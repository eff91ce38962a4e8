// Runs a fuzzer's function on every file of the folders (or on the files) named on the command
// line, for builds without libFuzzer. A fault ends the program; so does a folder without files.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/temp_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::vector<std::string> files_of(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    files.push_back(entry.path().string());
  }
  return files;
}

void replay(const std::string& file) {
  std::printf("%s\n", file.c_str());
  std::fflush(stdout);
  const std::string content = meg::test::read_file(file);
  // A copy of exactly this size, so that AddressSanitizer sees every read past the end.
  const std::vector<uint8_t> bytes(content.begin(), content.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  int replayed = 0;
  for (int i = 1; i < argc; ++i) {
    for (const std::string& file : files_of(argv[i])) {
      replay(file);
      ++replayed;
    }
  }
  std::printf("replayed %d files\n", replayed);
  return replayed > 0 ? 0 : 1;
}
