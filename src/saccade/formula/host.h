// Host expressions: what is computed per token, with learned weights, before any pair of tokens is looked at.
// They define vectors (another query or key) and tokens (a number per token and head). This file holds their
// checked form; tensors that execute it live in a higher rung.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/formula/diagnostic.h"
#include "saccade/formula/syntax.h"

namespace saccade {

enum class HostOp {
  query,
  key,
  number,
  param,
  project,
  linear,
  relu,
  norm,
  logsigmoid,
  cumsum,
  add,
  subtract,
  multiply,
  negate
};

struct HostNode;
using HostPtr = std::shared_ptr<const HostNode>;

struct HostNode {
  HostOp op;
  bool vector = false;  // a vector of d_k numbers per token and head, otherwise one number
  double number = 0;
  int table = -1;   // of a param
  int ordinal = 0;  // the how-manieth project, linear or cumsum of its definition: names its weights and its
                    // cached state
  std::vector<HostPtr> args;
};

struct HostOperation {
  std::string_view name;
  HostOp op;
  std::string_view doc;
  std::string_view example;
};
std::span<const HostOperation> host_operations();

// What a name in a host expression may refer to besides x, q and k.
struct HostName {
  enum class Kind { unknown, number, param, unusable, broken };
  Kind kind = Kind::unknown;
  double number = 0;
  int table = -1;
  std::string why;  // for unknown and unusable; what is broken has been reported
};
using HostNames = std::function<HostName(const std::string&)>;

// Checks a host expression; null after an error, which is recorded. `vector`: a vector is wanted, otherwise a
// number per token.
HostPtr check_host(const Expression& expression, bool vector, const HostNames& names,
                   Diagnostics& diagnostics);

bool reads(const HostNode& node, HostOp op);
bool reads_token(const HostNode& node);  // x, q or k: differs from token to token
int count(const HostNode& node, HostOp op);

}  // namespace saccade
