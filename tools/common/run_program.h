#pragma once

namespace meg::tools {

/// The main() of every program: runs `body` and returns its exit code.
///
/// Before it, /dev/null takes the place of standard descriptors that are closed (else an output
/// file would get the number of one, and with it the log), and as many files may be open as the
/// system allows. Files beyond a size limit are errors, not signals. Without memory, where an
/// exception comes out of the body, where a mapped file is truncated, and where standard output
/// does not take everything, the program says so and its exit code is not 0. A program that a
/// signal stopped (stop_at_signals) ends by that signal, so that shells stop as well.
int run_program(int argc, char** argv, int (*body)(int argc, const char* const* argv));

}  // namespace meg::tools
