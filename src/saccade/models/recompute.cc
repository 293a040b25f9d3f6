// A function of autograd whose backward pass runs another forward and backward pass inside.
#include "saccade/models/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "saccade/base/error.h"

namespace saccade {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

namespace {

using Piece = std::function<Tensor(const Tensor&)>;

// The piece travels to the backward pass as an object that autograd only keeps.
struct Holder : torch::CustomClassHolder {
  explicit Holder(Piece given) : piece(std::move(given)) {}
  Piece piece;
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  static Tensor forward(AutogradContext* context, const Tensor& x, Piece piece) {
    context->save_for_backward({x});
    Tensor result = piece(x);  // gradients are off here
    context->saved_data["piece"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(std::move(piece)));
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require(!torch::GradMode::is_enabled(),
            "model: a block that is computed again can be differentiated only once");
    const Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    const auto holder = c10::static_intrusive_pointer_cast<Holder>(context->saved_data["piece"].toCapsule());
    const torch::AutoGradMode on(true);
    const Tensor again = holder->piece(x);
    torch::autograd::backward({again}, {gradients[0]});
    return {x.grad(), Tensor()};
  }
};

}  // namespace

Tensor recomputed(Piece piece, const Tensor& x) {
  require(x.requires_grad(), "model: to compute a piece again its input must need a gradient");
  return Recomputed::apply(x, std::move(piece));
}

}  // namespace saccade
