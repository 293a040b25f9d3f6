// The scripts and style sheets that pages carry, as they lie in web/, and the means to put them into one file
// that a browser may run although it forbids everything else.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "saccade/base/json.h"
#include "saccade/report/web_files.h"

namespace saccade {

/// The content of one that is known to exist.
std::string_view web_file(std::string_view name);

/// Several, one after another.
std::string web_files_joined(std::initializer_list<std::string_view> names);

/// What draws plots, in the order in which it must be loaded: uPlot with its licence, then ours. The page's
/// own script goes behind it.
std::string plot_scripts();
std::string plot_styles();

/// The part of a Content-Security-Policy that allows this very script or style sheet and no other:
/// 'sha256-...'.
std::string allowed_by_content(std::string_view text);

/// JSON as it may stand within a <script> element: nothing in it can end the element, and it is the same
/// value.
std::string json_for_script(const Json& value);

}  // namespace saccade
