#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "libmeg/logging/log_runs.h"
#include "libmeg/resume/judge_resume.h"

namespace meg::tools {

/// What verify resume answers.
struct ResumeAnswer {
  std::string checkpoint;  ///< Its folder.
  int64_t iteration = 0;
  int64_t consumed_samples = 0;
  std::string run;  ///< Where the run's flags come from, in words.
  std::string log;
  resume::Tolerances tolerances;
  std::vector<std::string> notes;
  std::vector<logging::LoggedInterval> lines;
  resume::Verdict verdict;
};

/// "differs: lm loss of iteration 12: expected 10.4312, found 10.4401: CAUSE"; empty if equal.
std::string difference_text(const ResumeAnswer& answer);

void print_answer(const ResumeAnswer& answer);

nlohmann::ordered_json answer_json(const ResumeAnswer& answer);

}  // namespace meg::tools
