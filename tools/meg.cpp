// One name for all programs: `meg verify`, `meg preprocess-data` ... New; Megatron-LM has no such
// tool.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/flags/flags.h"
#include "tools/common/report.h"
#include "tools/common/run_program.h"

namespace meg::tools {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string>& commands() {
  static const std::vector<std::string> commands = {MEG_COMMANDS};
  return commands;
}

/// A command as it is typed, with dashes or underscores.
std::string dashed(std::string_view command) {
  std::string text(command);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

/// The program of a command: beside this one, or where programs are installed that have no name of
/// their own in PATH. Empty where it is in neither.
std::string program_of(const std::string& command) {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::string name = command;
  std::replace(name.begin(), name.end(), '-', '_');
  for (const fs::path& folder : {here, here / MEG_COMMAND_FOLDER}) {
    std::string program = (folder / name).lexically_normal().string();
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

/// Answers --help, --version and command lines that name no command.
int usage_main(int argc, const char* const* argv) {
  std::string command;
  Flags flags("meg", "runs libmeg's programs: meg COMMAND [flags].");
  flags.examples({"meg preprocess-data --help", "meg verify checkpoint checkpoints",
                  "meg generate --load checkpoints --prompts 'And he said'"});
  flags.positional("COMMAND", &command, "program to run; see also meg COMMAND --help")
      .choices(commands());
  return flags.parse(argc, argv).value_or(2);
}

int main(int argc, const char* const* argv) {
  const std::string command = argc > 1 ? dashed(argv[1]) : "";
  const auto& known = commands();
  if (std::find(known.begin(), known.end(), command) == known.end()) return usage_main(argc, argv);
  const std::string program = program_of(command);
  if (!program.empty()) ::execv(program.c_str(), const_cast<char* const*>(argv + 1));
  return fail(program.empty()
                  ? make_error(StatusCode::kNotFound,
                               "meg {}: the program was not found beside meg: it is not installed, "
                               "or libmeg was built without it (MEG_WITH_TORCH)",
                               command)
                  : errno_error(errno, program));
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
