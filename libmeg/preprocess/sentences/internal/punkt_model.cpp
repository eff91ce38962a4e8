#include "libmeg/preprocess/sentences/internal/punkt_model.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "libmeg/io/mapped_file.h"
#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"

namespace meg::preprocess {
namespace {

/// nltk's largest file has 1 MB.
constexpr size_t kMaxFileBytes = size_t{256} << 20;

/// Hands over each line of a file. take: returns what is wrong with a line, or an empty text.
Status read_lines(const std::string& path,
                  const std::function<std::string(std::string_view)>& take) {
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  if (file.size() > kMaxFileBytes) {
    return make_error(StatusCode::kCorruption, "{}: expected at most {} bytes, found {}", path,
                      kMaxFileBytes, file.size());
  }
  std::string_view rest = file.text();
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    // nltk would end a line at these, too.
    std::string problem = line.find_first_of("\r\f\v\x1c\x1d\x1e") == line.npos
                              ? take(line)
                              : std::string("lines that end with LF");
    if (text::find_invalid_utf8(line) != line.npos) problem = "UTF-8";
    if (problem.empty()) continue;
    return make_error(StatusCode::kCorruption, "{}: line {}: expected {}, found {}", path, number,
                      problem, text::printable(line));
  }
  return Status();
}

}  // namespace

Result<PunktModel> PunktModel::open(const std::string& folder) {
  PunktModel model;
  MEG_RETURN_IF_ERROR(read_lines(folder + "/abbrev_types.txt", [&](std::string_view line) {
    model.abbreviations_.emplace(line);
    return std::string();
  }));
  MEG_RETURN_IF_ERROR(read_lines(folder + "/sent_starters.txt", [&](std::string_view line) {
    model.starters_.emplace(line);
    return std::string();
  }));
  MEG_RETURN_IF_ERROR(read_lines(folder + "/collocations.tab", [&](std::string_view line) {
    model.collocations_.emplace(line);
    const bool is_pair = std::count(line.begin(), line.end(), '\t') == 1;
    return std::string(is_pair ? "" : "two types and a tab between them");
  }));
  MEG_RETURN_IF_ERROR(read_lines(folder + "/ortho_context.tab", [&](std::string_view line) {
    const size_t tab = std::min(line.find('\t'), line.size());
    const std::string_view number = line.substr(std::min(tab + 1, line.size()));
    int context = 0;
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), context);
    model.contexts_.insert_or_assign(std::string(line.substr(0, tab)), context);
    // nltk's flags of where a type was seen with which case have the bits 1 to 6.
    const bool is_right = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size() &&
                          context >= 0 && context < 1 << 7;
    return std::string(is_right ? "" : "a type, a tab and a number from 0 to 127");
  }));
  return model;
}

bool PunktModel::is_collocation(std::string_view first, std::string_view second) const {
  std::string pair(first);
  pair += '\t';
  return collocations_.contains(pair.append(second));
}

int PunktModel::orthographic_context(std::string_view type) const {
  const auto found = contexts_.find(type);
  return found == contexts_.end() ? 0 : found->second;
}

}  // namespace meg::preprocess
