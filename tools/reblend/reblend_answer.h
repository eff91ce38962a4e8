#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "libmeg/samples/data_run.h"
#include "libmeg/samples/reblend.h"

namespace meg::tools {

/// What reblend prints.
struct ReblendAnswer {
  const samples::Reblended& reblended;
  const samples::DataRun& run;  ///< Until now.
  int64_t consumed = 0;
  std::vector<std::string> flags;    ///< Of the continued run, where they are not those of the run.
  std::vector<std::string> dropped;  ///< Flags of the run that they replace.
};

nlohmann::ordered_json json_of(const ReblendAnswer& answer);

void print_answer(const ReblendAnswer& answer);

}  // namespace meg::tools
