#include "libmeg/megatron/argument_table.h"

#include <algorithm>
#include <map>

namespace meg::megatron {
namespace {

using RowsByDest = std::map<std::string_view, const ArgumentRow*>;

RowsByDest rows_by_dest(ArgumentFamily family) {
  RowsByDest rows;
  for (const ArgumentRow& row : argument_rows(family)) rows.emplace(row.dest, &row);
  return rows;
}

/// Where a revision stands among all, oldest first.
ptrdiff_t place_of(std::string_view revision) {
  const std::span<const MegatronVersion> all = megatron_versions();
  return std::find_if(all.begin(), all.end(),
                      [&](const MegatronVersion& version) { return version.name == revision; }) -
         all.begin();
}

bool is_between(const MegatronVersion& version, std::string_view since, std::string_view until) {
  const ptrdiff_t place = place_of(version.name);
  return place_of(since) <= place && place <= place_of(until);
}

}  // namespace

const ArgumentRow* find_argument(ArgumentFamily family, std::string_view dest) {
  // Built at the first question; emplace() keeps the first row of a dest, which is the one whose
  // default argparse takes.
  static const std::map<ArgumentFamily, RowsByDest> families = [] {
    std::map<ArgumentFamily, RowsByDest> all;
    for (const ArgumentFamily each : kArgumentFamilies) all.emplace(each, rows_by_dest(each));
    return all;
  }();
  const RowsByDest& rows = families.at(family);
  const auto found = rows.find(dest);
  return found == rows.end() ? nullptr : found->second;
}

std::vector<std::string_view> words_of(std::string_view cell) {
  std::vector<std::string_view> words;
  while (!cell.empty()) {
    const size_t space = std::min(cell.find(' '), cell.size());
    if (space > 0) words.push_back(cell.substr(0, space));
    cell.remove_prefix(std::min(space + 1, cell.size()));
  }
  return words;
}

bool is_of_revision(const ArgumentRow& row, const MegatronVersion& version) {
  return is_between(version, row.since, row.until);
}

bool is_unused_by(const ArgumentRow& row, const MegatronVersion& version) {
  const std::vector<std::string_view> range = words_of(row.unused);
  return range.size() == 2 && is_between(version, range.front(), range.back());
}

}  // namespace meg::megatron
