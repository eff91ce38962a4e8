#include "tools/common/model_run.h"

#include <utility>

#include "libmeg/parallel/check_same.h"
#include "libmeg/parallel/launch_environment.h"
#include "tools/common/ranks.h"
#include "tools/common/report.h"

namespace meg::tools {
namespace {

/// One rank alone has the whole model, whatever sizes the command line says.
Result<parallel::ParallelState> connect_parts(const InferenceFlags& flags) {
  MEG_ASSIGN_OR_RETURN(const parallel::LaunchEnvironment environment,
                       parallel::read_launch_environment());
  if (environment.world_size == 1) return parallel::ParallelState();
  return connect_ranks(flags.args, flags.device);
}

Status run_rank(InferenceFlags& flags, const ModelRun& run, const parallel::ParallelState& ranks) {
  MEG_RETURN_IF_ERROR(parallel::check_same("command line", flags.settings, ranks));
  note_backend(flags.args, ranks);
  MEG_ASSIGN_OR_RETURN(app::LoadedModel loaded,
                       app::load_model(flags, ranks, std::move(flags.checkpoint)));
  const bool leads = ranks.world().rank() == 0;
  if (leads) {
    for (const std::string& text : loaded.tokenizer->warnings()) warning(text);
  }
  MEG_RETURN_IF_ERROR(leads ? run.lead(loaded, ranks) : run.follow(loaded.model, ranks));
  return ranks.end();
}

}  // namespace

int run_model(InferenceFlags& flags, const ModelRun& run) {
  const Result<parallel::ParallelState> ranks = connect_parts(flags);
  if (!ranks.has_value()) return fail(ranks.error());
  const Status status = run_rank(flags, run, *ranks);
  return status.ok() ? 0 : fail_once(status, *ranks);
}

}  // namespace meg::tools
