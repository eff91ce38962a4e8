#include "libmeg/tokenizer/files/internal/huggingface/hub_cache.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace meg::tokenizer {
namespace {

namespace fs = std::filesystem;

/// Characters of a commit's name, git's SHA-1 or SHA-256 in hexadecimal digits.
constexpr size_t kMaxCommit = 64;

fs::path environment_path(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

bool is_name_letter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.';
}

/// "NAME" or "ORGANIZATION/NAME": nothing that could leave the cache's folder.
bool is_model_name(std::string_view model) {
  const size_t slash = model.find('/');
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part.front() != '.' && part.front() != '-' &&
           part.find("..") == std::string_view::npos &&
           std::all_of(part.begin(), part.end(), is_name_letter);
  };
  if (slash == std::string_view::npos) return is_part(model);
  return is_part(model.substr(0, slash)) && is_part(model.substr(slash + 1));
}

/// The commit that a file under refs/ names; empty where it names none.
std::string read_commit(const fs::path& ref) {
  std::array<char, kMaxCommit> text;
  std::ifstream file(ref, std::ios::binary);
  file.read(text.data(), text.size());
  std::string commit(text.data(), static_cast<size_t>(file.gcount()));
  const bool is_hex = std::all_of(commit.begin(), commit.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  return is_hex ? commit : std::string();
}

}  // namespace

std::string hub_cache_folder() {
  for (const char* const name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const fs::path folder = environment_path(name); !folder.empty()) return folder.string();
  }
  if (const fs::path home = environment_path("HF_HOME"); !home.empty()) {
    return (home / "hub").string();
  }
  fs::path caches = environment_path("XDG_CACHE_HOME");
  if (caches.empty()) caches = environment_path("HOME") / ".cache";
  return (caches / "huggingface" / "hub").string();
}

std::optional<std::string> cached_model_folder(const std::string& model) {
  if (!is_model_name(model)) return std::nullopt;
  std::string name = "models--" + model;
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  const fs::path folder = fs::path(hub_cache_folder()) / name;
  const std::string commit = read_commit(folder / "refs" / "main");
  const fs::path snapshot = folder / "snapshots" / commit;
  std::error_code error;
  if (commit.empty() || !fs::is_directory(snapshot, error)) return std::nullopt;
  return snapshot.string();
}

}  // namespace meg::tokenizer
