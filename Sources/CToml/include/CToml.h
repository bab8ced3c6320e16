#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The binding to toml++ (Debian's libtomlplusplus-dev, 3.3): a document goes in as bytes and comes out as one flat list
// of nodes, each with the place where it is. Nothing of C++ passes this header, no exception leaves it.

#ifdef __cplusplus
extern "C" {
#endif

// One-based; a column counts Unicode scalars. Zero where the parser knows none.
typedef struct {
    uint32_t line;
    uint32_t column;
} ctoml_position;

// Bytes of UTF-8 without a terminator, owned by the document.
typedef struct {
    const char *_Nullable bytes;
    size_t count;
} ctoml_text;

typedef enum {
    CTOML_TABLE = 0,
    CTOML_ARRAY = 1,
    CTOML_STRING = 2,
    CTOML_INTEGER = 3,
    CTOML_REAL = 4,
    CTOML_BOOLEAN = 5,
    // Dates and times: the configuration has no key that takes one, so only the kind is given.
    CTOML_DATE_TIME = 6,
} ctoml_kind;

typedef struct {
    ctoml_kind kind;
    // How many nodes below this one are its own; they follow it, each with all of its own (pre-order).
    size_t children;
    // Empty, at 0:0, for the root and for the members of an array.
    ctoml_text key;
    ctoml_position key_begin;
    ctoml_position key_end;
    // Of a `[table]` the header, of anything else the value. `end` is behind the last character.
    ctoml_position begin;
    ctoml_position end;
    // The one of these that `kind` names.
    ctoml_text text;
    int64_t integer;
    double real;
    bool boolean;
} ctoml_node;

typedef struct ctoml_document ctoml_document;

// Parses a whole document. NULL only where memory has run out; `ctoml_failed` reports anything else that is wrong.
ctoml_document *_Nullable ctoml_parse(const char *_Nullable bytes, size_t count, size_t depth_max);

void ctoml_free(ctoml_document *_Nullable document);

// Whether parsing failed; then `message` and `at` are set (borrowed from the document).
bool ctoml_failed(const ctoml_document *_Nonnull document, ctoml_text *_Nonnull message, ctoml_position *_Nonnull at);

// The nodes in pre-order, the root table first. None where parsing failed.
const ctoml_node *_Nullable ctoml_nodes(const ctoml_document *_Nonnull document, size_t *_Nonnull count);

#ifdef __cplusplus
}
#endif
