#include "tools/common/run_program.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "libmeg/base/status.h"
#include "tools/common/interruption.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

using Body = int (*)(int argc, const char* const* argv);

/// Ends the process as a program with this body does.
[[noreturn]] void end_as_program(Body body) {
  char name[] = "program";
  char* arguments[] = {name, nullptr};
  std::exit(run_program(1, arguments, body));
}

const auto kFailed = ::testing::ExitedWithCode(1);

TEST(RunProgramDeathTest, ReturnsTheExitCodeOfItsBody) {
  EXPECT_EXIT(end_as_program([](int, const char* const*) { return 2; }),
              ::testing::ExitedWithCode(2), "^$");
}

TEST(RunProgramDeathTest, TurnsAnyExceptionIntoOneLine) {
  EXPECT_EXIT(end_as_program([](int, const char* const*) -> int { throw std::bad_alloc(); }),
              kFailed, "^error: out of memory\n$");
  EXPECT_EXIT(end_as_program([](int, const char* const*) -> int {
                throw std::system_error(std::make_error_code(std::errc::too_many_files_open));
              }),
              kFailed, "^error: Too many open files\n$");
  EXPECT_EXIT(end_as_program(
                  [](int, const char* const*) -> int { throw std::logic_error("the index is 7"); }),
              kFailed, "^error: unexpected: the index is 7\n$");
}

TEST(RunProgramDeathTest, LeavesOutTheFramesBehindAnExceptionsFirstLine) {
  EXPECT_EXIT(end_as_program([](int, const char* const*) -> int {
                throw std::runtime_error("no such operator\nframe #0: somewhere\nframe #1: main");
              }),
              kFailed, "^error: unexpected: no such operator\n$");
}

TEST(RunProgramDeathTest, SignalsWithinASecondAreOneRequest) {
  EXPECT_EXIT(end_as_program([](int, const char* const*) {
                stop_at_signals();
                for (const int signal : {SIGTERM, SIGTERM, SIGINT, SIGTERM}) std::raise(signal);
                return fail(Status(StatusCode::kCancelled, "cleaned up"));
              }),
              ::testing::KilledBySignal(SIGTERM), "^error: cleaned up\n$");
}

TEST(RunProgramDeathTest, ASignalASecondAfterTheFirstEndsItAtOnce) {
  EXPECT_EXIT(end_as_program([](int, const char* const*) {
                stop_at_signals();
                std::raise(SIGTERM);
                std::this_thread::sleep_for(std::chrono::milliseconds(1100));
                std::raise(SIGINT);
                return fail(Status(StatusCode::kCancelled, "not reached"));
              }),
              ::testing::KilledBySignal(SIGINT), "^$");
}

}  // namespace
}  // namespace meg::tools
