#include "tests/pretended_device/budget.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

namespace meg::test {
namespace {

constexpr char kFile[] = MEG_SOURCE_DIR "/tests/pretended_device/budget.txt";

/// Numbers by scenario and name, in the file's order after its comment.
struct Budget {
  std::string comment;
  std::map<std::pair<std::string, std::string>, int64_t> numbers;
};

Budget read_budget() {
  Budget budget;
  std::ifstream file(kFile);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') {
      budget.comment += line + '\n';
      continue;
    }
    std::istringstream words(line);
    std::string scenario, name;
    words >> scenario >> name;
    words >> budget.numbers[{scenario, name}];
  }
  return budget;
}

void write_budget(const Budget& budget) {
  std::ofstream file(kFile);
  file << budget.comment;
  for (const auto& [key, number] : budget.numbers) {
    file << fmt::format("{:<20}{:<20}{:>12}\n", key.first, key.second, number);
  }
}

std::vector<std::pair<std::string, int64_t>> named(const pretended::Counts& counts) {
  return {{"operations", counts.operations()},
          {"copies", counts.copies},
          {"fills", counts.fills},
          {"host_waits", counts.host_waits},
          {"allocated_bytes", counts.allocated_bytes},
          {"to_device_bytes", counts.to_device_bytes},
          {"to_host_bytes", counts.to_host_bytes},
          {"nccl_calls", counts.nccl_calls()},
          {"exchanged_bytes", counts.exchanged_bytes}};
}

std::string kernels_text(const pretended::Counts& counts) {
  std::string text;
  for (const auto& [name, count] : counts.kernels) text += fmt::format("{:>7} {}\n", count, name);
  return text;
}

}  // namespace

bool writes_budget() { return std::getenv("MEG_WRITE_BUDGET") != nullptr; }

void expect_within_budget(const std::string& scenario, const pretended::Counts& found) {
  Budget budget = read_budget();
  for (const auto& [name, number] : named(found)) {
    int64_t& allowed = budget.numbers[{scenario, name}];
    if (writes_budget()) {
      allowed = number;
      continue;
    }
    EXPECT_LE(number, allowed) << scenario << ": more " << name << " than budget.txt allows";
    if (number < allowed) {
      fmt::print("{} {}: {}, budget.txt allows {}: lower it (MEG_WRITE_BUDGET=1)\n", scenario, name,
                 number, allowed);
    }
  }
  if (writes_budget()) write_budget(budget);
  fmt::print("{}: {} operations, of them kernels:\n{}", scenario, found.operations(),
             kernels_text(found));
}

}  // namespace meg::test
