#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace meg {

/// The folders of a Python package, whose libraries libmeg uses without Python, in the order in
/// which to try them: in the environment of the first `python3` in PATH, then in that of
/// scripts/setup.sh (`${MEG_DEPS:-$HOME/.cache/libmeg}/venv`).
std::vector<std::string> python_package_folders(std::string_view package);

}  // namespace meg
