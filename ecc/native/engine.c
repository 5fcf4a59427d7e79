#include "engine.h"

const char *
ecc_engine_error_text(int code)
{
    return code == 0 ? "no error" : "unknown error";
}
