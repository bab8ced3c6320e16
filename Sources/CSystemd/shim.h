// The only door to libsystemd: sd_notify, sd_watchdog_enabled, sd_listen_fds_with_names, sd_journal_sendv;
// and to eventfd, which Swift's Glibc module leaves out.
#ifndef POSTHOUSE_CSYSTEMD_SHIM_H
#define POSTHOUSE_CSYSTEMD_SHIM_H

#include <systemd/sd-daemon.h>
#define SD_JOURNAL_SUPPRESS_LOCATION 1
#include <systemd/sd-journal.h>
#include <sys/eventfd.h>

static const int posthouse_sd_listen_fds_start = SD_LISTEN_FDS_START;

#endif
