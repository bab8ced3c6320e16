#include "CToml.h"

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

// toml++ asserts what it takes for granted of its input, and not all of it is so (`[}`). A configuration must not end the
// daemon: a failed assertion becomes an exception, in every build, and so an error of the document.
[[noreturn]] static void ctoml_assertion_failed() { throw std::logic_error("the TOML parser cannot read this file"); }
#define TOML_ASSERT(expression) (static_cast<bool>(expression) ? static_cast<void>(0) : ctoml_assertion_failed())
#undef NDEBUG

// What the shim does not use is left out of the build.
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_UNRELEASED_FEATURES 0
// Arrays and inline tables inside one another; dotted keys are bounded by the caller (Configuration/Prescan.swift).
#define TOML_MAX_NESTED_VALUES 32
#include <toml++/toml.h>

struct ctoml_document {
    toml::table root; // owns the text that `nodes` borrows
    std::vector<ctoml_node> nodes;
    std::string message;
    ctoml_position at{0, 0};
    bool failed = false;
};

namespace {

ctoml_position position(const toml::source_position &from) {
    return {static_cast<uint32_t>(from.line), static_cast<uint32_t>(from.column)};
}

ctoml_text text(std::string_view from) { return {from.data(), from.size()}; }

void fail(ctoml_document &document, std::string_view message, const toml::source_position &at) {
    document.nodes.clear();
    document.message = message;
    document.at = position(at);
    document.failed = true;
}

// Recursion is bounded by `depth_left`. False where that was not enough, and the document has failed.
bool flatten(ctoml_document &document, const toml::node &from, const toml::key *key, size_t depth_left) {
    if (depth_left == 0) {
        fail(document, "tables or arrays are nested too deep", from.source().begin);
        return false;
    }
    ctoml_node node{};
    node.begin = position(from.source().begin);
    node.end = position(from.source().end);
    if (key) {
        node.key = text(key->str());
        node.key_begin = position(key->source().begin);
        node.key_end = position(key->source().end);
    }
    const toml::table *table = from.as_table();
    const toml::array *array = from.as_array();
    if (table) {
        node.kind = CTOML_TABLE;
        node.children = table->size();
    } else if (array) {
        node.kind = CTOML_ARRAY;
        node.children = array->size();
    } else if (const auto *string = from.as_string()) {
        node.kind = CTOML_STRING;
        node.text = text(string->get());
    } else if (const auto *integer = from.as_integer()) {
        node.kind = CTOML_INTEGER;
        node.integer = integer->get();
    } else if (const auto *real = from.as_floating_point()) {
        node.kind = CTOML_REAL;
        node.real = real->get();
    } else if (const auto *boolean = from.as_boolean()) {
        node.kind = CTOML_BOOLEAN;
        node.boolean = boolean->get();
    } else {
        node.kind = CTOML_DATE_TIME;
    }
    document.nodes.push_back(node);
    if (table) {
        for (auto it = table->cbegin(); it != table->cend(); ++it) {
            if (!flatten(document, it->second, &it->first, depth_left - 1)) return false;
        }
    } else if (array) {
        for (const toml::node &member : *array) {
            if (!flatten(document, member, nullptr, depth_left - 1)) return false;
        }
    }
    return true;
}

} // namespace

extern "C" ctoml_document *ctoml_parse(const char *bytes, size_t count, size_t depth_max) {
    auto *document = new (std::nothrow) ctoml_document;
    if (!document) return nullptr;
    try {
        try {
            document->root = toml::parse(std::string_view(bytes ? bytes : "", bytes ? count : 0));
            flatten(*document, document->root, nullptr, depth_max);
        } catch (const toml::parse_error &error) {
            fail(*document, error.description(), error.source().begin);
        } catch (const std::exception &error) {
            fail(*document, error.what(), {});
        }
    } catch (...) {
        delete document;
        return nullptr;
    }
    return document;
}

extern "C" void ctoml_free(ctoml_document *document) { delete document; }

extern "C" bool ctoml_failed(const ctoml_document *document, ctoml_text *message, ctoml_position *at) {
    *message = text(document->message);
    *at = document->at;
    return document->failed;
}

extern "C" const ctoml_node *ctoml_nodes(const ctoml_document *document, size_t *count) {
    *count = document->nodes.size();
    return document->nodes.data();
}
