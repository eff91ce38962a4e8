#include <cstdio>
#include <string>

#include "libmeg/base/dtype.h"
#include "libmeg/base/version.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/io/crc32.h"
#include "libmeg/io/digest.h"
#include "libmeg/preprocess/read_texts.h"

class Ignored : public meg::preprocess::TextVisitor {
 public:
  meg::Status visit(std::string_view) override { return {}; }
};

// What reading the file `path` says.
int read(const char* path) {
  meg::preprocess::ReadTextsOptions options;
  options.inputs = {path};
  Ignored texts;
  meg::preprocess::TextVisitor* const visitor = &texts;
  const auto summary = meg::preprocess::read_texts(options, {&visitor, 1}, {});
  std::puts(summary.has_value() ? "read" : summary.error().message().c_str());
  return 0;
}

int main(int count, char** arguments) {
  if (count == 2) return read(arguments[1]);
  std::printf("libmeg %s\n", std::string(meg::version()).c_str());
  // What these need of other libraries must come with the package.
  const bool is_refused = !meg::checkpoint::TorchFile::open("/").has_value();
  const bool can_sum = meg::io::crc32_of_zeros(0) == 0 && meg::io::Digest().hex().size() == 32;
  return meg::version().empty() || !is_refused || !can_sum ? 1 : 0;
}
