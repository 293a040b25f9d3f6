// The public surface of the library in one header.
#pragma once

#include "saccade/attention/attention.h"
#include "saccade/attention/multihead.h"
#include "saccade/certify/conformance.h"
#include "saccade/formula/explain.h"
#include "saccade/formula/formula.h"
#include "saccade/formula/mechanisms.h"
