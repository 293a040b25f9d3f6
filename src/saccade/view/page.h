// The files of the viewer's page, as the server serves them.
#pragma once

#include <map>
#include <string>

#include "saccade/serve/server.h"

namespace saccade {

std::map<std::string, ServedFile> view_files();

}  // namespace saccade
