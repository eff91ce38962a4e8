#include "tools/common/flag_groups/resume_flags.h"

namespace meg::tools {

void ResumeFlags::declare(Flags& flags) {
  flags.examples({"verify resume --load checkpoints --ckpt-step 5000 --log run.log",
                  "verify resume --load checkpoints --tensorboard tensorboard --data-path "
                  "corpus_text_document --steps 2 --json",
                  "verify resume --dry-run --load checkpoints --override-opt_param-scheduler "
                  "--lr 1e-5"});
  flags.group("The log");
  flags.value("--log", &log, "FILE", "the lines that the run printed");
  flags.value("--tensorboard", &tensorboard, "DIR",
              "its event files, a folder or one of them, instead");
  flags.toggle("--dry-run", &dry_run,
               "compute nothing: list what a run would take from the checkpoint and what from its "
               "flags, and its next steps");
  flags.group("The comparison");
  flags
      .value("--steps", &steps, "N",
             "steps after the checkpoint to compute, at least those of the log's first line; with "
             "--dry-run, to list (default: 4, or 1 with --batch-samples)")
      .range(1, 1000);
  flags
      .value("--batch-samples", &batch_samples, "K",
             "compute the first step's loss alone, on K sequences drawn from its batch: forward "
             "passes with one layer's weights in memory; says how sure the answer is")
      .range(1, 1000000);
  flags
      .value("--loss-tolerance", &loss_tolerance, "X",
             "allowed relative difference of losses (default: by the weights' type)")
      .real_range(0, 1);
  flags.value("--grad-norm-tolerance", &grad_norm_tolerance, "X", "the same of gradient norms")
      .real_range(0, 1);
  flags
      .value("--search-batches", &search_batches, "N",
             "batches before and behind the one that is due, in which shifted samples are searched")
      .range(0, 100000);
  flags.toggle("--try-all", &try_all, "try all hypotheses after one fits, too");
  flags.toggle("--json", &json, "print one JSON object");
}

Status ResumeFlags::check() const {
  if (!batch_samples.has_value()) return {};
  if (dry_run) {
    return Status(StatusCode::kInvalidArgument,
                  "--batch-samples: expected none with --dry-run, which computes nothing");
  }
  if (steps.value_or(1) == 1) return {};
  return make_error(StatusCode::kInvalidArgument,
                    "--steps: expected 1 with --batch-samples, which computes no update, found {}",
                    *steps);
}

}  // namespace meg::tools
