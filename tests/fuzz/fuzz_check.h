#pragma once

#include <cstdio>
#include <cstdlib>

/// Ends the fuzzer, in release builds too, where `condition` does not hold.
#define MEG_FUZZ_CHECK(condition)                                                 \
  do {                                                                            \
    if (!(condition)) {                                                           \
      std::fprintf(stderr, "%s:%d: fails: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                               \
    }                                                                             \
  } while (false)
