// The table of commands.
#include "saccade/cli/command.h"

namespace saccade {

Work declare_bench(CLI::App& app);
Work declare_certify(CLI::App& app);
Work declare_check(CLI::App& app);
Work declare_compare(CLI::App& app);
Work declare_completion(CLI::App& app);
Work declare_convert(CLI::App& app);
Work declare_demo(CLI::App& app);
Work declare_diagnose(CLI::App& app);
Work declare_distill(CLI::App& app);
Work declare_eval(CLI::App& app);
Work declare_explain(CLI::App& app);
Work declare_fetch(CLI::App& app);
Work declare_generate(CLI::App& app);
Work declare_info(CLI::App& app);
Work declare_language(CLI::App& app);
Work declare_mechanisms(CLI::App& app);
Work declare_prepare(CLI::App& app);
Work declare_report(CLI::App& app);
Work declare_train(CLI::App& app);
Work declare_translate(CLI::App& app);
Work declare_view(CLI::App& app);

std::span<const Command> commands() {
  static constexpr Command kCommands[] = {
      {"demo", "Do everything once on built-in data, in a few minutes, and write a report", "saccade demo",
       declare_demo},
      {"check", "Run the conformance suite on formulas", "saccade check mine.attn", declare_check},
      {"explain", "Say what a formula computes, its derivatives, what is skipped, whether it decodes",
       "saccade explain mine.attn --length 8192", declare_explain},
      {"mechanisms", "List the shipped formulas, or print one", "saccade mechanisms alibi",
       declare_mechanisms},
      {"train", "Train a model by a recipe, or go on with a training",
       "saccade train recipes/tiny.toml attention=prior", declare_train},
      {"compare", "Train the same model with several mechanisms and seeds, and measure each",
       "saccade compare recipes/tiny.toml --attention causal,prior,gpam --runs 3", declare_compare},
      {"generate", "Continue a text with a model, or with two beside each other",
       "saccade generate smollm2 --prompt \"The meaning of life is\" --max-new-tokens 40", declare_generate},
      {"translate", "Translate lines with a model that was trained on pairs",
       "saccade translate runs/multi30k-gpam < english.txt > german.txt", declare_translate},
      {"eval", "Measure how well a model predicts, and what another attention does to it",
       "saccade eval smollm2 --data valid.txt --context 1024", declare_eval},
      {"diagnose", "Look inside a model: rank of tokens, attention weights, gradients, learned parameters",
       "saccade diagnose smollm2 --data valid.txt --out diagnosis/", declare_diagnose},
      {"distill", "Make a model's attention sparse within a budget of divergence",
       "saccade distill smollm2 --data valid.txt --kl 0.001 --out runs/sparse", declare_distill},
      {"certify", "Say whether a model with another attention is still faithful to its baseline",
       "saccade certify smollm2 --attention sink_window --data valid.txt --out certificate/",
       declare_certify},
      {"view", "Show on a local page what a model attends to while you type",
       "saccade view smollm2 --attention sink_window", declare_view},
      {"bench", "Measure formulas beside torch's own attention", "saccade bench prior --length 512",
       declare_bench},
      {"report", "Make one HTML page of runs, comparisons, benchmarks, certificates and other results",
       "saccade report runs/compare-tiny certificate/ bench.json -o report.html", declare_report},
      {"fetch", "Bring published weights to this machine", "saccade fetch smollm2", declare_fetch},
      {"prepare", "Turn text into files of tokens for training",
       "saccade prepare wiki.train.tokens --documents heading --tokenizer bpe:8192 -o data/wikitext",
       declare_prepare},
      {"convert", "Write a model as a Hugging Face directory", "saccade convert smollm2 out/ --verify",
       declare_convert},
      {"completion", "Print what a shell needs to complete the command line",
       "saccade completion bash > ~/.local/share/bash-completion/completions/saccade", declare_completion},
      {"language", "Print the reference of the formula language", "saccade language | less",
       declare_language},
      {"info", "Show what this build can do on this machine", "saccade info --json", declare_info},
  };
  return kCommands;
}

}  // namespace saccade
