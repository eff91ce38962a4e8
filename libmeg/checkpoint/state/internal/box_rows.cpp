#include "libmeg/checkpoint/state/internal/box_rows.h"

#include <algorithm>

namespace meg::checkpoint {

BoxRows::BoxRows(const std::vector<int64_t>& sizes, const Box& box) {
  int64_t stride = 1;
  bool is_run = true;  // All axes so far are whole: the next one belongs to the run.
  for (size_t i = sizes.size(); i-- > 0;) {
    begin_ += box.offsets[i] * stride;
    if (is_run) {
      run_ *= box.sizes[i];
      is_run = box.sizes[i] == sizes[i];
    } else {
      axes_.push_back({box.sizes[i], stride});
      rows_ *= box.sizes[i];
    }
    stride *= sizes[i];
  }
  std::reverse(axes_.begin(), axes_.end());
}

int64_t BoxRows::position(int64_t row) const {
  int64_t position = begin_;
  for (size_t i = axes_.size(); i-- > 0;) {
    position += row % axes_[i].size * axes_[i].stride;
    row /= axes_[i].size;
  }
  return position;
}

}  // namespace meg::checkpoint
