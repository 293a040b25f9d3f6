// What all tests of the rungs without LibTorch include, compiled once.
#pragma once

#include <gmock/gmock.h>
