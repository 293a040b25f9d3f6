// The processes that train one model together. Each reads its share of a batch; gradients are added up over
// all of them while the backward pass is still running.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace saccade {

class Team {
 public:
  virtual ~Team() = default;

  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  // Adds up each number over all processes, and gives all of them the sums.
  virtual void add_up(std::span<double>) {}
  // Nobody goes on before all have come.
  virtual void meet() {}

  // From now on the gradients of these parameters are added up in every backward pass between begin() and
  // end().
  virtual void share_gradients(const std::vector<at::Tensor>&) {}
  // Before the backward pass that completes the gradients; and after it, when they are needed.
  virtual void begin() {}
  virtual void end() {}

  bool leads() const { return rank() == 0; }
};

// The processes that mpirun has started, or this one alone. Throws Error when mpirun has started several and
// this build has no MPI. When the team goes in the middle of an exception, it takes the other processes with
// it.
std::unique_ptr<Team> make_team();

// What this build can do: "Open MPI 4.1.4", or "" without MPI.
std::string mpi_version();

}  // namespace saccade
