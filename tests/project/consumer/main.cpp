#include <cstdio>
#include <string>

#include "libmeg/core/dtype.h"
#include "libmeg/core/version.h"

int main() {
  std::printf("libmeg %s\n", std::string(meg::version()).c_str());
  return meg::version().empty() ? 1 : 0;
}
