#include "tools/common/html_page.h"

#include <fmt/format.h>

#include <iterator>
#include <span>

#include "libmeg/io/atomic_file.h"
#include "libmeg/text/utf8.h"

namespace meg::tools {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5c6675; --line: #d6dbe2; --page: #ffffff;
  --card: #f5f7f9; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #39424e;
  --page: #14181d; --card: #1d232a; --bad: #ff8a80; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .15rem .8rem .15rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word; }
th { color: var(--soft); font-weight: 600; } td.number, th.number { text-align: right; white-space: nowrap; }
.facts { display: flex; flex-wrap: wrap; gap: 0 3rem; align-items: flex-start; }
.scroll { overflow-x: auto; } .soft { color: var(--soft); } .bad { color: var(--bad); }
svg { display: block; } svg text { fill: var(--soft); font-size: 10px; }
code { font: 13px ui-monospace, monospace; } summary { cursor: pointer; color: var(--soft); }
)";

}  // namespace

std::string escaped(std::string_view bytes) {
  std::string valid, text;
  text::append_replacing_invalid_utf8(bytes, valid);
  for (const char c : valid) {
    switch (c) {
      case '&':
        text += "&amp;";
        break;
      case '<':
        text += "&lt;";
        break;
      case '>':
        text += "&gt;";
        break;
      case '"':
        text += "&quot;";
        break;
      case '\'':
        text += "&#39;";
        break;
      default:
        // HTML has no other controls.
        text += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return text;
}

std::string grouped(int64_t count) {
  std::string digits = fmt::format("{}", count);
  for (size_t at = digits.size(); at > 3 + (digits[0] == '-' ? 1U : 0U);) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

// Decimal units, as disks and networks are sold by.
std::string bytes_text(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string table(const Row& head, const std::vector<Row>& rows, size_t numbers) {
  std::string html = "<div class=scroll><table>";
  const auto add = [&](const Row& row, std::string_view tag) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      html += fmt::format("<{}{}>{}</{}>", tag, i >= numbers ? " class=number" : "", row[i], tag);
    }
    html += "</tr>\n";
  };
  if (!head.empty()) add(head, "th");
  for (const Row& row : rows) add(row, "td");
  return html + "</table></div>\n";
}

std::string section(std::string_view title, const std::string& content) {
  return content.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", title, content);
}

std::string folded(std::string_view title, const std::string& content) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", title, content);
}

std::string page_head(const std::string& title, std::string_view style) {
  return fmt::format(
      "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
      "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
      title, kStyle, style, title);
}

std::string page_end(std::string_view made_by) {
  return fmt::format("<p class=soft>{}</p>\n</body>\n</html>\n", made_by);
}

Status write_page(const std::string& path, const std::string& page) {
  MEG_ASSIGN_OR_RETURN(io::AtomicFile file, io::AtomicFile::create(path));
  MEG_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(page))));
  return file.commit();
}

}  // namespace meg::tools
