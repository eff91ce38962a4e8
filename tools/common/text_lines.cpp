#include "tools/common/text_lines.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "libmeg/text/line_ends.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

using text::kByteOrderMark;

constexpr size_t kLeastRead = size_t{64} << 10;

}  // namespace

Result<TextLines> TextLines::open(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(io::FileDescriptor file, io::open_input(path));
  return TextLines(std::move(file));
}

TextLines::TextLines(io::FileDescriptor file)
    : file_(std::make_unique<io::FileDescriptor>(std::move(file))),
      stream_(io::file_stream(*file_, {})) {}

Result<bool> TextLines::next(std::string& line) {
  for (;;) {
    const std::string_view rest = std::string_view(bytes_).substr(begin_);
    const bool is_mark = !has_begun_ && kByteOrderMark.starts_with(rest.substr(0, 3));
    const size_t found = is_mark && !is_end_ && rest.size() < kByteOrderMark.size()
                             ? text::kNoLineEnd
                             : text::first_line_end(rest, is_end_);
    if (found != text::kNoLineEnd || is_end_) break;
    MEG_ASSIGN_OR_RETURN(const bool more, read_more());
    is_end_ = !more;
  }
  skip_mark();
  std::string_view lines = std::string_view(bytes_).substr(begin_);
  const size_t size = lines.size();
  std::string_view taken;
  if (!text::take_line(lines, taken)) return false;
  const std::string_view end =
      std::string_view(bytes_).substr(begin_ + taken.size(), size - taken.size() - lines.size());
  if (end.starts_with('\r') && !std::exchange(has_noted_cr_, true)) {
    note(name() + (end.size() > 1 ? ": lines end in CR LF" : ": lines end in CR") +
         ", which is not part of them");
  }
  line = taken;
  begin_ = bytes_.size() - lines.size();
  return true;
}

/// Appends what can be read now; false at the end.
Result<bool> TextLines::read_more() {
  bytes_.erase(0, std::exchange(begin_, 0));
  // As much as is there already, so that a line of n bytes is not looked through n times.
  const size_t held = bytes_.size();
  bytes_.resize(held + std::max(held, kLeastRead));
  const Result<size_t> count =
      stream_->read(std::as_writable_bytes(std::span(bytes_).subspan(held)));
  bytes_.resize(held + (count ? *count : 0));
  if (!count) return count.error();
  return *count > 0;
}

void TextLines::skip_mark() {
  if (std::exchange(has_begun_, true)) return;
  if (!bytes_.starts_with(kByteOrderMark)) return;
  begin_ = kByteOrderMark.size();
  note(name() + ": begins with a byte order mark (UTF-8 BOM), which is not part of the first line");
}

}  // namespace meg::tools
