#include "client/cli/completion.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace gemm::cli {
namespace {

constexpr char kScript[] = R"(# Completion of gemmctl for bash, by `gemmctl completion bash`.
_gemmctl() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command= i words=
  if [[ ${before} == = ]]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
  if [[ ${word} == = ]]; then word=; fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      @COMMAND_PATTERN@)
        command=${COMP_WORDS[i]}
        break
        ;;
    esac
  done
  case "${command} ${before}" in
@SETS@    @FREE@) ;;
    *)
      case "${command} ${word}" in
@OPTIONS@@WORDS@      esac
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "${words}" -- "${word}")
}
complete -o bashdefault -o default -F _gemmctl gemmctl
)";

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> OptionsOf(const CLI::App& app) {
  return app.get_options([](const CLI::Option*) { return true; });
}

// "-o", "--output"; none for a positional.
std::vector<std::string> NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

// From a type "TEXT:{f32,f64}", as IsMember describes itself.
std::vector<std::string> ValuesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{');
  const size_t end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return absl::StrSplit(type.substr(begin + 1, end - begin - 1), ',');
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : OptionsOf(app)) {
    for (std::string& name : NamesOf(*option)) names.push_back(std::move(name));
  }
  return names;
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// A line of a case statement.
std::string Case(const char* indent, const std::string& pattern,
                 const std::vector<std::string>& words) {
  return absl::StrCat(indent, pattern, ") words='", absl::StrJoin(words, " "), "' ;;\n");
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  std::vector<std::string> commands;
  std::vector<std::string> free;  // patterns of "command option" whose value can be anything
  std::string sets;               // what to offer after such an option,
  std::string options;            // by command, for a word that begins with a dash
  std::string words;              // and for one that does not
  const std::vector<std::string> common = OptionNames(app);
  for (const CLI::Option* option : OptionsOf(app)) {
    if (!TakesValue(*option)) continue;
    for (const std::string& name : NamesOf(*option))
      free.push_back(absl::StrCat("*\" ", name, "\""));
  }
  for (const CLI::App* command : CommandsOf(app)) {
    const std::string& name = command->get_name();
    commands.push_back(name);
    std::vector<std::string> own = OptionNames(*command);
    std::copy_if(common.begin(), common.end(), std::back_inserter(own), [&own](const auto& option) {
      return std::find(own.begin(), own.end(), option) == own.end();
    });
    options += Case("        ", absl::StrCat("\"", name, " -\"*"), own);
    for (const CLI::Option* option : OptionsOf(*command)) {
      if (!TakesValue(*option)) continue;
      const std::vector<std::string> set = ValuesOf(*option);
      if (option->get_positional() && !set.empty()) {
        words += Case("        ", absl::StrCat("\"", name, " \"*"), set);
      }
      for (const std::string& option_name : NamesOf(*option)) {
        const std::string pattern = absl::StrCat("\"", name, " ", option_name, "\"");
        if (set.empty()) {
          free.push_back(pattern);
        } else {
          sets += Case("    ", pattern, set);
        }
      }
    }
  }
  options += Case("        ", "\" -\"*", common);
  words += Case("        ", "\" \"*", commands);
  return absl::StrReplaceAll(kScript, {{"@COMMAND_PATTERN@", absl::StrJoin(commands, " | ")},
                                       {"@SETS@", sets},
                                       {"@FREE@", absl::StrJoin(free, " | ")},
                                       {"@OPTIONS@", options},
                                       {"@WORDS@", words}});
}

}  // namespace gemm::cli
