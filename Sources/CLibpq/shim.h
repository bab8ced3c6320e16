// The only door to libpq. Character macros are not imported by Swift, so they are re-exported as constants.
#ifndef POSTHOUSE_CLIBPQ_SHIM_H
#define POSTHOUSE_CLIBPQ_SHIM_H

#include <libpq-fe.h>

static const int posthouse_diag_severity = PG_DIAG_SEVERITY_NONLOCALIZED;
static const int posthouse_diag_sqlstate = PG_DIAG_SQLSTATE;
static const int posthouse_diag_message_primary = PG_DIAG_MESSAGE_PRIMARY;
static const int posthouse_diag_message_detail = PG_DIAG_MESSAGE_DETAIL;
static const int posthouse_diag_message_hint = PG_DIAG_MESSAGE_HINT;
static const int posthouse_diag_constraint_name = PG_DIAG_CONSTRAINT_NAME;

#endif
