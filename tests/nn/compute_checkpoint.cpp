/// compute_checkpoint LOAD WINDOWS OUT
/// What a model computes as its checkpoint's args say, for megatron_core_computes_models.py.
/// WINDOWS: .npy, int64 [b, s + 1]. Writes raw fp32 arrays into the folder OUT: `logits`, `loss`
/// (of each token), and of every parameter `gradient.NAME` of the losses' mean and `initial.NAME`,
/// what training would begin with.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <span>
#include <string>

#include "libmeg/io/atomic_file.h"
#include "libmeg/nn/initialise_weights.h"
#include "tests/nn/oracle_model.h"

namespace {

using meg::Status;

Status write(const std::filesystem::path& path, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kFloat).contiguous();
  MEG_ASSIGN_OR_RETURN(meg::io::AtomicFile file, meg::io::AtomicFile::create(path.string()));
  const auto* bytes = static_cast<const std::byte*>(values.const_data_ptr());
  MEG_RETURN_IF_ERROR(file.write({bytes, values.nbytes()}));
  return file.commit();
}

Status write_gradients(meg::nn::GptModel& model, const at::Tensor& windows,
                       const std::filesystem::path& out) {
  const int64_t s = windows.size(1) - 1;
  const meg::nn::GptInput input = {.tokens = windows.narrow(1, 0, s).contiguous()};
  MEG_ASSIGN_OR_RETURN(const at::Tensor logits, model.logits(input));
  MEG_RETURN_IF_ERROR(write(out / "logits", logits));
  // Auxiliary losses are training's.
  model.set_training(true);
  MEG_ASSIGN_OR_RETURN(const at::Tensor loss,
                       model.loss(input, windows.narrow(1, 1, s).contiguous()));
  MEG_RETURN_IF_ERROR(write(out / "loss", loss));
  loss.mean().backward();
  for (const meg::nn::GptParameter& parameter : model.parameters()) {
    MEG_RETURN_IF_ERROR(write(out / ("gradient." + parameter.name), parameter.tensor.grad()));
  }
  return {};
}

Status write_initial(meg::nn::GptModel& model, const std::filesystem::path& out) {
  MEG_RETURN_IF_ERROR(meg::nn::initialise_weights(model, 1));
  for (const meg::nn::GptParameter& parameter : model.parameters()) {
    MEG_RETURN_IF_ERROR(write(out / ("initial." + parameter.name), parameter.tensor));
  }
  return {};
}

Status compute(const std::string& load, const std::string& windows,
               const std::filesystem::path& out) {
  MEG_ASSIGN_OR_RETURN(const meg::checkpoint::MegatronCheckpoint checkpoint,
                       meg::test::open_checkpoint(load));
  const bool bf16 = checkpoint.arg("bf16") == meg::megatron::FieldValue(true);
  MEG_ASSIGN_OR_RETURN(meg::nn::GptModel model,
                       meg::test::model_of(checkpoint, [&](meg::model::GptConfig&, auto& options) {
                         if (bf16) options.params_dtype = at::kBFloat16;
                       }));
  MEG_RETURN_IF_ERROR(write_gradients(model, meg::test::read_npy<int64_t>(windows), out));
  return write_initial(model, out);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const Status status = compute(arguments[1], arguments[2], arguments[3]);
  if (!status.ok()) fmt::print(stderr, "error: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
