#include <cstdio>
#include <string>

#include "libmeg/base/dtype.h"
#include "libmeg/base/version.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/io/crc32.h"
#include "libmeg/io/digest.h"

int main() {
  std::printf("libmeg %s\n", std::string(meg::version()).c_str());
  // What these need of other libraries must come with the package.
  const bool is_refused = !meg::checkpoint::TorchFile::open("/").has_value();
  const bool can_sum = meg::io::crc32_of_zeros(0) == 0 && meg::io::Digest().hex().size() == 32;
  return meg::version().empty() || !is_refused || !can_sum ? 1 : 0;
}
