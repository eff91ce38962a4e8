#pragma once

#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// One line of the tree of a file's value.
struct OutlineLine {
  int depth = 0;
  std::string key;   ///< Empty for the value itself.
  std::string text;  ///< "dict of 4", "float16 [152, 32]", "'adam'", ...
};

struct Outline {
  std::vector<OutlineLine> lines;
  bool is_cut = false;  ///< There are more than `max_lines` lines.
};

/// The value of a file as a tree that shows every container once: where it occurs again, or inside
/// itself, the line says so. Lists of plain values and args are kept on one line.
Outline outline_of(const TorchFile& file, size_t max_lines = 200);

}  // namespace meg::checkpoint
