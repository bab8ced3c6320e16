// The only binding to libpq. Character macros are not imported by Swift, so they are re-exported as constants. What a
// connection's thread needs of Linux and Swift's Glibc module leaves out lies here too.
#ifndef POSTHOUSE_CLIBPQ_SHIM_H
#define POSTHOUSE_CLIBPQ_SHIM_H

#include <libpq-fe.h>
#include <pthread.h>

static const int posthouse_diag_severity = PG_DIAG_SEVERITY_NONLOCALIZED;
static const int posthouse_diag_sqlstate = PG_DIAG_SQLSTATE;
static const int posthouse_diag_message_primary = PG_DIAG_MESSAGE_PRIMARY;
static const int posthouse_diag_source_file = PG_DIAG_SOURCE_FILE;
static const int posthouse_diag_constraint_name = PG_DIAG_CONSTRAINT_NAME;

// pthread_setname_np(3), declared here because its header hides it without _GNU_SOURCE.
extern int pthread_setname_np(pthread_t thread, const char *name);
static inline void posthouse_name_this_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

#endif
