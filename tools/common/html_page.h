#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::tools {

/// Pieces of an HTML page: one file without scripts and without anything loaded from elsewhere, so
/// that it can be sent and opened anywhere. All texts are HTML already; what comes from files goes
/// through escaped(), as names in them may be markup.

/// Text for HTML, from bytes that may be anything.
std::string escaped(std::string_view bytes);

/// 1234567 as 1,234,567.
std::string grouped(int64_t count);

/// 1234567 as 1.23 MB.
std::string bytes_text(double bytes);

/// Cells of a table's row.
using Row = std::vector<std::string>;

/// numbers: columns from this one on are aligned right.
std::string table(const Row& head, const std::vector<Row>& rows, size_t numbers = 100);

/// A title and what it stands over; nothing where that is empty.
std::string section(std::string_view title, const std::string& content);

/// Content that opens when its title is clicked.
std::string folded(std::string_view title, const std::string& content);

/// Writes from <!doctype> to the title as heading. style: CSS beside that of all pages, which has
/// the colors --ink, --soft, --line, --page, --card and --bad for light and dark screens, and the
/// classes `facts` (tables side by side), `soft`, `bad`, `scroll` and, for cells, `number`.
std::string page_head(const std::string& title, std::string_view style);

/// made_by: the line at the end.
std::string page_end(std::string_view made_by);

/// Replaces the file at `path`.
Status write_page(const std::string& path, const std::string& page);

}  // namespace meg::tools
