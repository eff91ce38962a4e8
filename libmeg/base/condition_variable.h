#pragma once

#include <condition_variable>  // IWYU pragma: export

// GCC 12 gave condition_variable::wait a new version, the only thing in libmeg that the libstdc++
// of a system with glibc 2.34 (manylinux_2_34) lacks. The version before it does the same.
#if defined(__GLIBCXX__) && defined(__x86_64__)
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
#endif
