#include "libmeg/checkpoint/inspect/tensor_statistics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cmath>
#include <concepts>
#include <cstring>
#include <mutex>
#include <new>

#include "libmeg/base/float_convert.h"
#include "libmeg/base/thread_pool.h"
#include "libmeg/checkpoint/inspect/internal/statistics_kernels.h"

// Every type is widened to float or double first, so that two kernels do for all of them, and
// tensors are cut into pieces of one size, which threads take in any order and whose results are
// added in theirs.

namespace meg::checkpoint {
namespace {

constexpr size_t kChunkElements = 4096;         // widened at a time; fits the first-level cache
constexpr int64_t kPieceElements = 256 * 1024;  // of a tensor, read at a time
static_assert(kChunkElements % StatisticsTotals::kLanes == 0);

/// Adds in one fixed order, which the portable and the vectorized kernels share, so that both give
/// the same bits.
double add_lanes(const std::array<double, StatisticsTotals::kLanes>& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

void add_values(const float* values, size_t count, StatisticsTotals& totals) {
  static const StatisticsKernels& kernels = statistics_kernels(best_instruction_set());
  kernels.add_floats(values, count, totals);
}

void add_values(const double* values, size_t count, StatisticsTotals& totals) {
  static const StatisticsKernels& kernels = statistics_kernels(best_instruction_set());
  kernels.add_doubles(values, count, totals);
}

/// The values of all 256 bytes in an 8-bit floating type.
std::array<float, 256> float8_table(int exponent_bits, bool has_infinity) {
  const int mantissa_bits = 7 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int top = (1 << exponent_bits) - 1;
  std::array<float, 256> table;
  for (int byte = 0; byte < 256; ++byte) {
    const int exponent = (byte >> mantissa_bits) & top;
    const int mantissa = byte & ((1 << mantissa_bits) - 1);
    float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits)
                                : std::ldexp(static_cast<float>((1 << mantissa_bits) + mantissa),
                                             exponent - bias - mantissa_bits);
    if (has_infinity && exponent == top) {
      value = mantissa == 0 ? std::numeric_limits<float>::infinity()
                            : std::numeric_limits<float>::quiet_NaN();
      // e4m3fn spends the patterns of infinities on numbers; all ones alone are none.
    } else if (!has_infinity && (byte & 0x7f) == 0x7f) {
      value = std::numeric_limits<float>::quiet_NaN();
    }
    table[static_cast<size_t>(byte)] = byte < 128 ? value : -value;
  }
  return table;
}

const std::array<float, 256>& float8_table(DType dtype) {
  static const std::array<float, 256> e4m3fn = float8_table(4, false);
  static const std::array<float, 256> e5m2 = float8_table(5, true);
  return dtype == DType::kFloat8E5m2 ? e5m2 : e4m3fn;
}

/// Bytes as T, through a function that widens one element.
template <class T, class Wide>
void add_widened(std::span<const std::byte> bytes, const Wide& wide, StatisticsTotals& totals) {
  using Value = decltype(wide(T{}));
  std::array<T, kChunkElements> raw;
  std::array<Value, kChunkElements> values;
  const size_t count = bytes.size() / sizeof(T);
  for (size_t first = 0; first < count; first += kChunkElements) {
    const size_t chunk = std::min(kChunkElements, count - first);
    std::memcpy(raw.data(), bytes.data() + first * sizeof(T), chunk * sizeof(T));
    for (size_t i = 0; i < chunk; ++i) values[i] = wide(raw[i]);
    add_values(values.data(), chunk, totals);
  }
}

template <class T>
void add_numbers(std::span<const std::byte> bytes, StatisticsTotals& totals) {
  // 32-bit integers have more digits than a float.
  constexpr bool kFitsFloat = sizeof(T) < 4 || std::same_as<T, float>;
  using Value = std::conditional_t<kFitsFloat, float, double>;
  add_widened<T>(
      bytes, [](T x) { return static_cast<Value>(x); }, totals);
}

/// float16 and bfloat16.
void add_halves(DType dtype, std::span<const std::byte> bytes, StatisticsTotals& totals) {
  constexpr size_t kHalf = 2;
  std::array<float, kChunkElements> values;
  for (size_t first = 0; first < bytes.size(); first += kChunkElements * kHalf) {
    const auto chunk = bytes.subspan(first, std::min(kChunkElements * kHalf, bytes.size() - first));
    const std::span<float> wide = std::span(values).first(chunk.size() / kHalf);
    const Status converted =
        convert_floats(dtype, chunk, DType::kFloat32, std::as_writable_bytes(wide));
    assert(converted.ok());
    static_cast<void>(converted);
    add_values(wide.data(), wide.size(), totals);
  }
}

void add_float8(DType dtype, std::span<const std::byte> bytes, StatisticsTotals& totals) {
  const std::array<float, 256>& table = float8_table(dtype);
  add_widened<uint8_t>(
      bytes, [&table](uint8_t byte) { return table[byte]; }, totals);
}

void add_elements(DType dtype, std::span<const std::byte> bytes, StatisticsTotals& totals) {
  switch (dtype) {
    case DType::kBool:
      return add_widened<uint8_t>(
          bytes, [](uint8_t x) { return x != 0 ? 1.0F : 0.0F; }, totals);
    case DType::kUint8:
      return add_numbers<uint8_t>(bytes, totals);
    case DType::kInt8:
      return add_numbers<int8_t>(bytes, totals);
    case DType::kUint16:
      return add_numbers<uint16_t>(bytes, totals);
    case DType::kInt16:
      return add_numbers<int16_t>(bytes, totals);
    case DType::kUint32:
      return add_numbers<uint32_t>(bytes, totals);
    case DType::kInt32:
      return add_numbers<int32_t>(bytes, totals);
    case DType::kUint64:
      return add_numbers<uint64_t>(bytes, totals);
    case DType::kInt64:
      return add_numbers<int64_t>(bytes, totals);
    case DType::kFloat16:
    case DType::kBFloat16:
      return add_halves(dtype, bytes, totals);
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E5m2:
      return add_float8(dtype, bytes, totals);
    case DType::kComplex64:
    case DType::kFloat32:
      return add_numbers<float>(bytes, totals);
    case DType::kComplex128:
    case DType::kFloat64:
      return add_numbers<double>(bytes, totals);
  }
}

/// Numbers in one element.
int parts_of(DType dtype) {
  return dtype == DType::kComplex64 || dtype == DType::kComplex128 ? 2 : 1;
}

/// A run of elements of one source, and what came out.
struct PartialStatistics {
  size_t source = 0;
  int64_t first = 0;
  int64_t elements = 0;
  TensorStatistics statistics;
};

std::vector<PartialStatistics> cut_into_pieces(std::span<const StatisticsSource> sources) {
  std::vector<PartialStatistics> pieces;
  for (size_t i = 0; i < sources.size(); ++i) {
    for (int64_t first = 0; first < sources[i].elements; first += kPieceElements) {
      const int64_t elements = std::min(kPieceElements, sources[i].elements - first);
      pieces.push_back({i, first, elements, {}});
    }
  }
  return pieces;
}

/// Takes pieces one after another until none is left or something failed.
class PieceRunner {
 public:
  PieceRunner(std::span<const StatisticsSource> sources, std::vector<PartialStatistics>& pieces,
              const ProgressCallback& progress)
      : sources_(sources), pieces_(pieces), progress_(progress) {
    state_.total_bytes = 0;
    for (const StatisticsSource& source : sources) {
      state_.total_bytes += source.elements * dtype_size(source.dtype);
    }
  }

  Status run(int workers) {
    {
      ThreadPool pool(workers);
      for (int i = 0; i < workers; ++i) pool.submit([this] { work(); });
      pool.wait();
    }
    return error_;
  }

 private:
  void work() {
    try {
      std::vector<std::byte> buffer;
      for (size_t i = next_++; i < pieces_.size() && !stop_; i = next_++) {
        PartialStatistics& piece = pieces_[i];
        const StatisticsSource& source = sources_[piece.source];
        buffer.resize(static_cast<size_t>(piece.elements * dtype_size(source.dtype)));
        const Status status = source.read(piece.first, buffer);
        if (!status.ok()) return fail(status.with_prefix(source.name));
        piece.statistics = tensor_statistics(source.dtype, buffer);
        report(static_cast<int64_t>(buffer.size()));
      }
    } catch (const std::bad_alloc&) {
      fail(make_error(StatusCode::kResourceExhausted, "tensor statistics: out of memory"));
    }
  }

  void report(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    state_.bytes += bytes;
    if (progress_ && !stop_ && !progress_(state_)) {
      stop_ = true;
      error_ = make_error(StatusCode::kCancelled, "tensor statistics: stopped");
    }
  }

  void fail(const Status& error) {
    const std::lock_guard lock(mutex_);
    if (error_.ok()) error_ = error;
    stop_ = true;
  }

  std::span<const StatisticsSource> sources_;
  std::vector<PartialStatistics>& pieces_;
  const ProgressCallback& progress_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  Progress state_;
  Status error_;
};

}  // namespace

double TensorStatistics::mean() const {
  if (finite() == 0) return std::numeric_limits<double>::quiet_NaN();
  return sum / static_cast<double>(finite());
}

double TensorStatistics::norm() const { return std::sqrt(sum_of_squares); }

double TensorStatistics::rms() const {
  return finite() == 0 ? 0 : std::sqrt(sum_of_squares / static_cast<double>(finite()));
}

double TensorStatistics::zero_fraction() const {
  return elements == 0 ? 0 : static_cast<double>(zero) / static_cast<double>(elements);
}

void TensorStatistics::append(const TensorStatistics& next) {
  elements += next.elements;
  nan += next.nan;
  infinite += next.infinite;
  zero += next.zero;
  min = std::min(min, next.min);
  max = std::max(max, next.max);
  sum += next.sum;
  sum_of_squares += next.sum_of_squares;
}

TensorStatistics tensor_statistics(DType dtype, std::span<const std::byte> bytes) {
  StatisticsTotals totals;
  add_elements(dtype, bytes, totals);
  TensorStatistics statistics;
  statistics.elements = static_cast<int64_t>(bytes.size()) / dtype_size(dtype) * parts_of(dtype);
  statistics.nan = totals.nan;
  statistics.infinite = totals.infinite;
  statistics.zero = totals.zero;
  statistics.min = totals.min + 0.0;  // no -0
  statistics.max = totals.max + 0.0;
  statistics.sum = add_lanes(totals.sum);
  statistics.sum_of_squares = add_lanes(totals.squares);
  return statistics;
}

Result<std::vector<TensorStatistics>> tensor_statistics(std::span<const StatisticsSource> sources,
                                                        int workers,
                                                        const ProgressCallback& progress) {
  std::vector<PartialStatistics> pieces = cut_into_pieces(sources);
  const int wanted = workers > 0 ? workers : available_processors();
  const int useful = static_cast<int>(std::min<size_t>(static_cast<size_t>(wanted), pieces.size()));
  MEG_RETURN_IF_ERROR(PieceRunner(sources, pieces, progress).run(std::max(useful, 1)));
  std::vector<TensorStatistics> statistics(sources.size());
  // Pieces have a fixed size and are added in their order, whichever thread computed them: sums of
  // floats depend on their order, and so two runs print the same digits whatever the number of
  // workers.
  for (const PartialStatistics& piece : pieces) statistics[piece.source].append(piece.statistics);
  return statistics;
}

}  // namespace meg::checkpoint
