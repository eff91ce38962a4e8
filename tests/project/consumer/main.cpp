#include <cstdio>
#include <string>

#include "libmeg/checkpoint/torch_file/torch_file.h"
#include "libmeg/core/crc32.h"
#include "libmeg/core/digest.h"
#include "libmeg/core/dtype.h"
#include "libmeg/core/version.h"

int main() {
  std::printf("libmeg %s\n", std::string(meg::version()).c_str());
  // What these need of other libraries must come with the package.
  const bool is_refused = !meg::TorchFile::open("/").has_value();
  const bool can_sum = meg::crc32_of_zeros(0) == 0 && meg::Digest().hex().size() == 32;
  return meg::version().empty() || !is_refused || !can_sum ? 1 : 0;
}
