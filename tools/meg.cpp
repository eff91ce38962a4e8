// One name for all programs: `meg verify`, `meg preprocess-data` ... New; Megatron-LM has no such
// tool. Installed under the name of a program that needs LibTorch, it runs that, once LibTorch is
// found.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/python_packages.h"
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

/// Those of a libmeg that is built with LibTorch, where this one is not.
const std::vector<std::string>& absent_commands() {
  static const std::vector<std::string> commands = {MEG_ABSENT_COMMANDS};
  return commands;
}

bool is_among(const std::vector<std::string>& commands, const std::string& command) {
  return std::find(commands.begin(), commands.end(), command) != commands.end();
}

bool needs_torch(const std::string& command) {
  static const std::vector<std::string> commands = {MEG_TORCH_COMMANDS};
  return is_among(commands, command);
}

/// A command as it is typed, with dashes or underscores.
std::string dashed(std::string_view command) {
  std::string text(command);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

/// The folder of this program, also where it was started through a link.
fs::path own_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

/// The program of a command: where those are installed that have no name of their own in PATH or
/// need LibTorch, or beside this one. Empty where it is in neither.
std::string program_of(const std::string& command) {
  std::string name = command;
  std::replace(name.begin(), name.end(), '-', '_');
  for (const fs::path& folder : {own_folder() / MEG_COMMAND_FOLDER, own_folder()}) {
    std::string program = (folder / name).lexically_normal().string();
    std::error_code error;
    if (::access(program.c_str(), X_OK) == 0 && !fs::equivalent(program, "/proc/self/exe", error)) {
      return program;
    }
  }
  return {};
}

/// The libraries of `program` that the loader does not find, by the loader itself, which lists them
/// instead of starting the program.
std::string missing_libraries(const std::string& program) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(count));
  }
  ::close(ends[0]);
  if (child > 0) ::waitpid(child, nullptr, 0);
  std::vector<std::string> missing;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find(" => not found");  // after a tab and the name
    if (end != std::string::npos) missing.push_back(line.substr(1, end - 1));
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

/// The version that a LibTorch says it has, without its build: `2.11.0` of `2.11.0+cu130`.
std::string torch_version(const fs::path& root) {
  std::ifstream file(root / "version.py");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("__version__")) continue;
    const size_t begin = line.find('\'') + 1;
    return line.substr(begin, line.find_first_of("+'", begin) - begin);
  }
  return "an unknown version";
}

/// Lets the loader search a LibTorch and, beside it, CUDA's libraries, as their wheels have them.
void search_torch(const fs::path& root, const std::string& before) {
  std::string path = root / "lib";
  std::error_code error;
  for (fs::directory_iterator entry(root / "../nvidia", error), end; !error && entry != end;
       entry.increment(error)) {
    path += ":" + (entry->path() / "lib").native();
  }
  if (!before.empty()) path += ":" + before;
  ::setenv("LD_LIBRARY_PATH", path.c_str(), 1);
}

/// Sets the environment in which `program` finds LibTorch, or says what is missing. MEG_TORCH_ROOT
/// alone counts if it is set.
Status find_torch(const std::string& command, const std::string& program) {
  std::vector<std::string> roots;
  const char* const variable = std::getenv("MEG_TORCH_ROOT");
  const std::string chosen = variable == nullptr ? "" : variable;
  if (!chosen.empty()) {
    roots = {chosen};
  } else {
    roots = {(own_folder() / MEG_MODULE_FOLDER / "torch").lexically_normal(),
             (own_folder() / MEG_TORCH_ROOT).lexically_normal()};
    for (std::string& folder : python_package_folders("torch")) {
      if (!is_among(roots, folder)) roots.push_back(std::move(folder));
    }
  }
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  const std::string before = path == nullptr ? "" : path;
  std::vector<std::string> found;
  for (const std::string& root : roots) {
    if (root.empty() || ::access((root + "/lib/libtorch_cpu.so").c_str(), R_OK) != 0) continue;
    const std::string version = torch_version(root);
    if (version != MEG_TORCH_VERSION) {
      found.push_back(fmt::format("{} in {}", version, root));
      continue;
    }
    search_torch(root, before);
    const std::string missing = missing_libraries(program);
    if (missing.empty()) return {};
    found.push_back(fmt::format("{} without {} in {}", version, missing, root));
  }
  if (found.empty()) found.push_back(chosen.empty() ? "none" : "none in " + chosen);
  return make_error(StatusCode::kNotFound,
                    "meg {}: expected LibTorch " MEG_TORCH_VERSION
                    ", found {}: install it with `python3 -m pip install torch==" MEG_TORCH_VERSION
                    "`, or set MEG_TORCH_ROOT to the folder of a package torch",
                    command, fmt::join(found, "; "));
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
  const std::string own_name = argc > 0 ? dashed(fs::path(argv[0]).filename().native()) : "";
  const bool is_command = needs_torch(own_name);
  const std::string command = is_command ? own_name : argc > 1 ? dashed(argv[1]) : "";
  if (is_among(absent_commands(), command)) {
    const std::string other = own_folder() / "../../libmeg_train/bin/meg";
    ::execv(other.c_str(), const_cast<char* const*>(argv));
    return fail(make_error(StatusCode::kUnsupported,
                           "meg {}: needs LibTorch, and this libmeg was built without it (`pip "
                           "install libmeg[train]` brings it to the Python package, "
                           "scripts/quickstart.sh in a clone of libmeg builds all programs)",
                           command));
  }
  if (!is_among(commands(), command)) return usage_main(argc, argv);
  const std::string program = program_of(command);
  if (program.empty()) {
    return fail(make_error(StatusCode::kNotFound,
                           "meg {}: the program was not found beside meg: it is not installed{}",
                           command,
                           needs_torch(command) ? " (component train, package libmeg-train)" : ""));
  }
  if (needs_torch(command) && fs::path(program).parent_path() != own_folder()) {
    const Status torch = find_torch(command, program);
    if (!torch.ok()) return fail(torch);
  }
  ::execv(program.c_str(), const_cast<char* const*>(argv) + (is_command ? 0 : 1));
  return fail(errno_error(errno, program));
}

}  // namespace
}  // namespace meg::tools

int main(int argc, char** argv) { return meg::tools::run_program(argc, argv, meg::tools::main); }
