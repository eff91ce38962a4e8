#include "libmeg/kernels/cudnn/attention_gradient.h"

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cstdlib>
#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fe = cudnn_frontend;

/// What the front end looks cuDNN's functions up in: all that this process has loaded, as programs
/// that compute on a CPU do not load it.
void* cudnn_frontend::cudnn_dlhandle = RTLD_DEFAULT;

namespace meg::kernels {
namespace {

/// The names by which the arrays are given to a call.
enum Name : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOutput,
  kGradOutput,
  kStatistics,
  kSeed,
  kSeedOffset,
  kGradQuery,
  kGradKey,
  kGradValue,
};

Status to_status(fe::error_t error) {
  if (error.is_good()) return Status();
  return make_error(StatusCode::kUnsupported, "cuDNN, gradient of attention: {}",
                    error.get_message());
}

/// Runs what returns a Status and may throw, as the front end does where a function is missing.
template <class Call>
Status guarded(Call call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return make_error(StatusCode::kUnsupported, "cuDNN, gradient of attention: {}", error.what());
  }
}

/// The front end opens a CUDA runtime by name and takes the first version that it finds: it shall
/// take the one that everything else here uses.
void choose_cuda_runtime() {
  Dl_info library;
  if (::dladdr(::dlsym(RTLD_DEFAULT, "cudaGetDevice"), &library) != 0) {
    ::setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", library.dli_fname, /*overwrite=*/0);
  }
}

/// The computation as cuDNN sees it: arrays of (rows, heads, tokens, channels), in any order.
class Graph {
 public:
  /// sm_version: 0 for the current device's.
  Graph(const AttentionGradientShape& shape, int sm_version) : shape_(shape) {
    const fe::DataType_t type =
        shape.type == FloatType::kFloat16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
    graph_.set_io_data_type(type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_sm_version(sm_version);
    auto attributes = fe::graph::SDPA_backward_attributes()
                          .set_name("attention_gradient")
                          .set_attn_scale(shape.scale)
                          .set_causal_mask(true)
                          .set_deterministic_algorithm(shape.deterministic);
    if (shape.dropout > 0) {
      attributes.set_dropout(shape.dropout, number(kSeed), number(kSeedOffset));
    }
    const auto gradients =
        graph_.sdpa_backward(heads(kQuery, 3), heads(kKey, 3), heads(kValue, 3), heads(kOutput, 1),
                             heads(kGradOutput, 1), statistics(), attributes);
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradients[i]->set_output(true).set_uid(kGradQuery + static_cast<int64_t>(i));
      gradients[i]->set_dim(sizes()).set_stride(strides(3));
    }
  }

  fe::graph::Graph* operator->() { return &graph_; }

  const fe::graph::Graph* operator->() const { return &graph_; }

 private:
  using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

  std::vector<int64_t> sizes() const {
    return {shape_.rows, shape_.heads, shape_.tokens, shape_.channels};
  }

  /// parts: how many heads the array has in place of one.
  std::vector<int64_t> strides(int64_t parts) const {
    const int64_t head = parts * shape_.channels, token = shape_.heads * head;
    return {shape_.tokens * token, head, token, 1};
  }

  Tensor heads(Name name, int64_t parts) {
    return graph_.tensor(
        fe::graph::Tensor_attributes().set_uid(name).set_dim(sizes()).set_stride(strides(parts)));
  }

  Tensor statistics() {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(kStatistics)
                             .set_dim({shape_.rows, shape_.heads, shape_.tokens, 1})
                             .set_stride({shape_.heads * shape_.tokens, shape_.tokens, 1, 1})
                             .set_data_type(fe::DataType_t::FLOAT));
  }

  Tensor number(Name name) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(name)
                             .set_dim({1, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT64));
  }

  AttentionGradientShape shape_;
  fe::graph::Graph graph_;
};

/// cuDNN's handle for the current device. Never destroyed, as LibTorch's are: at the end of the
/// program the driver may be gone before it.
Result<cudnnHandle_t> new_handle() {
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t status = fe::detail::create_handle(&handle);
  if (status == CUDNN_STATUS_SUCCESS) return handle;
  return make_error(StatusCode::kUnsupported, "cuDNN: {}", fe::detail::get_error_string(status));
}

class BuiltGradient : public CudnnAttentionGradient {
 public:
  explicit BuiltGradient(const AttentionGradientShape& shape) : shape_(shape), graph_(shape, 0) {}

  Status build() {
    MEG_ASSIGN_OR_RETURN(handle_, new_handle());
    MEG_RETURN_IF_ERROR(to_status(graph_->build(handle_, {fe::HeurMode_t::A})));
    return to_status(graph_->get_workspace_size(workspace_size_));
  }

  int64_t workspace_size() const override { return workspace_size_; }

  Status run(const AttentionGradientArrays& arrays, CUstream_st* stream) const override {
    // The handle's stream is the next call's.
    const std::lock_guard lock(mutex_);
    return guarded([&] {
      const cudnnStatus_t status = fe::detail::set_stream(handle_, stream);
      if (status != CUDNN_STATUS_SUCCESS) {
        return make_error(StatusCode::kInternal, "cuDNN: {}", fe::detail::get_error_string(status));
      }
      // The front end writes to none that is an input, but takes all as one type.
      const auto input = [](const void* array) { return const_cast<void*>(array); };
      std::unordered_map<int64_t, void*> named = {
          {kQuery, part(input(arrays.mixed), 0)},   {kKey, part(input(arrays.mixed), 1)},
          {kValue, part(input(arrays.mixed), 2)},   {kOutput, input(arrays.output)},
          {kGradOutput, input(arrays.grad_output)}, {kStatistics, input(arrays.statistics)},
          {kGradQuery, part(arrays.grad_mixed, 0)}, {kGradKey, part(arrays.grad_mixed, 1)},
          {kGradValue, part(arrays.grad_mixed, 2)}};
      if (shape_.dropout > 0) {
        named[kSeed] = input(arrays.seed);
        named[kSeedOffset] = input(arrays.seed_offset);
      }
      return to_status(graph_->execute(handle_, named, arrays.workspace));
    });
  }

 private:
  /// The first head's queries (0), key (1) or values (2).
  void* part(void* mixed, int64_t index) const {
    return static_cast<char*>(mixed) + index * shape_.channels * float_type_size(shape_.type);
  }

  AttentionGradientShape shape_;
  Graph graph_;
  mutable std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
  int64_t workspace_size_ = 0;
};

}  // namespace

Result<std::unique_ptr<CudnnAttentionGradient>> CudnnAttentionGradient::create(
    const AttentionGradientShape& shape) {
  std::unique_ptr<CudnnAttentionGradient> result;
  MEG_RETURN_IF_ERROR(guarded([&] {
    choose_cuda_runtime();
    auto gradient = std::make_unique<BuiltGradient>(shape);
    const Status built = gradient->build();
    result = std::move(gradient);
    return built;
  }));
  return result;
}

Status CudnnAttentionGradient::check_support(const AttentionGradientShape& shape,
                                             std::string_view properties, int sm_version) {
  return guarded([&]() -> Status {
    const auto device = std::make_shared<fe::DeviceProperties>();
    MEG_RETURN_IF_ERROR(to_status(device->deserialize({properties.begin(), properties.end()})));
    Graph graph(shape, sm_version);
    graph->set_device_properties(device);
    MEG_RETURN_IF_ERROR(to_status(graph->validate()));
    MEG_RETURN_IF_ERROR(to_status(graph->build_operation_graph()));
    MEG_RETURN_IF_ERROR(to_status(graph->create_execution_plans({fe::HeurMode_t::A})));
    return to_status(graph->check_support());
  });
}

}  // namespace meg::kernels
