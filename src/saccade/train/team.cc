// Gradients travel in buckets. A bucket is sent when its last gradient has come, and buckets are sent in one
// order everywhere; parameters are dealt out from the last to the first, since that is how gradients come.
#include "saccade/train/team.h"

#include <cstdlib>
#include <exception>
#include <string>

#include "saccade/base/error.h"
#include "saccade/base/log.h"

#ifdef SACCADE_MPI
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#endif

namespace saccade {

using at::Tensor;

#ifdef SACCADE_MPI

namespace {

constexpr int64_t kBucketBytes = int64_t{4} << 20;

class MpiTeam final : public Team {
 public:
  MpiTeam() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiTeam() override {
    // The others would wait forever for one that failed.
    if (std::uncaught_exceptions() > 0) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void add_up(std::span<double> numbers) override {
    MPI_Allreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(numbers.size()), MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
  }
  void meet() override { MPI_Barrier(MPI_COMM_WORLD); }

  void share_gradients(const std::vector<Tensor>& parameters) override;
  void begin() override;
  void end() override;

 private:
  struct Bucket {
    std::vector<Tensor> parameters;
    std::vector<bool> arrived;
    size_t missing = 0;
    Tensor numbers;  // all gradients in a row
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void take(size_t bucket, size_t place);
  void send_complete();

  int rank_ = 0, size_ = 1;
  bool active_ = false;
  std::vector<Bucket> buckets_;
  size_t next_ = 0;  // the first that was not sent
};

// Called by autograd when a parameter's gradient is complete.
class OnGradient final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit OnGradient(std::function<void()> action) : action_(std::move(action)) {}
  void operator()(const torch::autograd::Variable&) override { action_(); }

 private:
  std::function<void()> action_;
};

void MpiTeam::share_gradients(const std::vector<Tensor>& parameters) {
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    if (buckets_.empty() || buckets_.back().numbers.numel() * 4 + parameter->numel() * 4 > kBucketBytes)
      buckets_.push_back({.numbers = torch::zeros({0})});
    Bucket& bucket = buckets_.back();
    require(parameter->scalar_type() == torch::kFloat,
            "training: on several processes weights are in float32");
    const size_t index = buckets_.size() - 1, place = bucket.parameters.size();
    bucket.parameters.push_back(*parameter);
    bucket.arrived.push_back(false);
    bucket.numbers.resize_({bucket.numbers.numel() + parameter->numel()});
    torch::autograd::impl::set_post_acc_grad_hooks(
        *parameter, std::make_unique<OnGradient>([this, index, place] { take(index, place); }));
  }
}

void MpiTeam::begin() {
  for (Bucket& bucket : buckets_) {
    bucket.arrived.assign(bucket.arrived.size(), false);
    bucket.missing = bucket.parameters.size();
  }
  next_ = 0;
  active_ = true;
}

void MpiTeam::take(size_t index, size_t place) {
  if (!active_) return;
  const torch::NoGradGuard no_gradient;
  Bucket& bucket = buckets_[index];
  if (bucket.arrived[place]) return;
  bucket.arrived[place] = true;
  --bucket.missing;
  int64_t first = 0;
  for (size_t before = 0; before < place; ++before) first += bucket.parameters[before].numel();
  const Tensor& parameter = bucket.parameters[place];
  Tensor numbers = bucket.numbers.narrow(0, first, parameter.numel());
  if (parameter.grad().defined())
    numbers.copy_(parameter.grad().reshape({-1}));
  else
    numbers.zero_();
  send_complete();
  // MPI moves data only while it is called.
  for (size_t sent = 0; sent < next_; ++sent) {
    int done = 0;
    MPI_Test(&buckets_[sent].request, &done, MPI_STATUS_IGNORE);
  }
}

void MpiTeam::send_complete() {
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
    Bucket& bucket = buckets_[next_];
    MPI_Iallreduce(MPI_IN_PLACE, bucket.numbers.data_ptr<float>(), static_cast<int>(bucket.numbers.numel()),
                   MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &bucket.request);
  }
}

void MpiTeam::end() {
  const torch::NoGradGuard no_gradient;
  for (size_t index = 0; index < buckets_.size(); ++index)
    for (size_t place = 0; place < buckets_[index].parameters.size(); ++place)
      take(index, place);  // what no loss reached
  active_ = false;
  for (Bucket& bucket : buckets_) {
    MPI_Wait(&bucket.request, MPI_STATUS_IGNORE);
    int64_t first = 0;
    for (Tensor& parameter : bucket.parameters) {
      const Tensor sum = bucket.numbers.narrow(0, first, parameter.numel()).view(parameter.sizes());
      if (parameter.grad().defined())
        parameter.mutable_grad().copy_(sum);
      else
        parameter.mutable_grad() = sum.clone();
      first += parameter.numel();
    }
  }
}

}  // namespace

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text, static_cast<size_t>(length));
  return whole.substr(0, whole.find(','));
}

#else

std::string mpi_version() { return ""; }

#endif

std::unique_ptr<Team> make_team() {
  const char* started = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (!started) started = std::getenv("PMI_SIZE");
  if (!started || std::atoi(started) <= 1) return std::make_unique<Team>();
#ifdef SACCADE_MPI
  return std::make_unique<MpiTeam>();
#else
  fail(
      "training: started as one of {} processes, but this build has no MPI; install Open MPI and build again",
      started);
#endif
}

}  // namespace saccade
