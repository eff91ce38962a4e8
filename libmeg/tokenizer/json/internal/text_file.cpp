#include "libmeg/tokenizer/json/internal/text_file.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "libmeg/text/printable.h"

namespace meg::tokenizer {

namespace {

constexpr std::array<std::string_view, 5> kHtmlStarts = {"<!doctype", "<html", "<head", "<?xml",
                                                         "<!--"};

bool starts_with_ignoring_case(std::string_view text, std::string_view lower) {
  const auto same = [](char l, char c) { return l == std::tolower(static_cast<unsigned char>(c)); };
  return text.size() >= lower.size() && std::equal(lower.begin(), lower.end(), text.begin(), same);
}

}  // namespace

Result<io::MappedFile> open_tokenizer_file(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(io::MappedFile file,
                       io::MappedFile::open(path, io::MappedFile::Access::kSequential));
  if (file.size() > kTokenizerFileLimit) {
    return make_error(StatusCode::kResourceExhausted, "{}: expected at most {} bytes, found {}",
                      path, kTokenizerFileLimit, file.size());
  }
  return file;
}

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

Status reject_empty_or_html(std::string_view text, const std::string& name,
                            std::string_view expected) {
  if (text.empty()) {
    return make_error(StatusCode::kCorruption, "{}: expected {}, found an empty file", name,
                      expected);
  }
  const std::string_view page =
      text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const auto begins = [page](std::string_view start) {
    return starts_with_ignoring_case(page, start);
  };
  // The page around a file, saved in its place, is the usual mistake with these downloads.
  if (!std::any_of(kHtmlStarts.begin(), kHtmlStarts.end(), begins)) return {};
  const std::string_view first_line = page.substr(0, page.find_first_of("\r\n"));
  return make_error(StatusCode::kCorruption,
                    "{}: line 1: expected {}, found an HTML page ({}): download the raw file", name,
                    expected, text::printable(first_line));
}

}  // namespace meg::tokenizer
