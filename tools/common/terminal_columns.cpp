#include "tools/common/terminal_columns.h"

#include <sys/ioctl.h>

namespace meg::tools {

size_t terminal_columns(int descriptor) {
  constexpr size_t kUsualColumns = 80;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualColumns;
  return size.ws_col;
}

}  // namespace meg::tools
