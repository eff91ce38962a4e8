#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "libmeg/preprocess/sentences/sentence_options.h"

namespace meg::preprocess {
namespace {

namespace fs = std::filesystem;

/// Mirrors nltk/data.py: path. The folders of a Python environment are not known here.
std::vector<std::string> places() {
  std::vector<std::string> folders;
  if (const char* const listed = std::getenv("NLTK_DATA")) {
    std::string_view rest = listed;
    while (!rest.empty()) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
      if (!folder.empty()) folders.emplace_back(folder);
    }
  }
  if (const char* const home = std::getenv("HOME")) {
    folders.push_back(std::string(home) + "/nltk_data");
  }
  for (const char* const folder :
       {"/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib"}) {
    folders.push_back(std::string(folder) + "/nltk_data");
  }
  return folders;
}

}  // namespace

Result<std::string> find_punkt_folder(const std::string& language) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  // It becomes part of a path: letters alone lead nowhere else.
  if (language.empty() || language.find_first_not_of(kLetters) != language.npos) {
    return make_error(StatusCode::kInvalidArgument,
                      "lang: expected a language such as english, found {}", language);
  }
  for (const std::string& place : places()) {
    const std::string folder = place + "/tokenizers/punkt_tab/" + language;
    std::error_code missing;
    if (fs::is_directory(folder, missing)) return folder;
    // nltk reads the archive as it is, so a user may never have unpacked it.
    const std::string archive = place + "/tokenizers/punkt_tab.zip";
    if (fs::exists(archive, missing)) {
      return make_error(StatusCode::kUnsupported,
                        "{}: expected it to be unpacked beside the archive", archive);
    }
  }
  return make_error(StatusCode::kNotFound,
                    "nltk_data/tokenizers/punkt_tab/{}: not found in NLTK_DATA, the home folder or "
                    "/usr; install it with `python -m nltk.downloader punkt_tab`",
                    language);
}

}  // namespace meg::preprocess
