#include "libmeg/generation/internal/pieces.h"

#include <algorithm>

namespace meg::generation {

std::vector<std::vector<Piece>> parts_of(std::span<const Piece> pieces, int64_t max_rows) {
  std::vector<std::vector<Piece>> parts;
  std::vector<int64_t> rows;
  for (const Piece& piece : pieces) {
    const auto has_text = [&](const std::vector<Piece>& part) {
      return std::ranges::find(part, piece.text, &Piece::text) != part.end();
    };
    size_t place = parts.size();
    while (place > 0 && !has_text(parts[place - 1])) --place;
    while (place < parts.size() && max_rows > 0 && rows[place] + piece.count > max_rows) {
      ++place;
    }
    if (place == parts.size()) {
      parts.emplace_back();
      rows.push_back(0);
    }
    parts[place].push_back(piece);
    rows[place] += piece.count;
  }
  return parts;
}

}  // namespace meg::generation
