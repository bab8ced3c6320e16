// The only door to libsystemd: sd_notify, sd_watchdog_enabled, sd_listen_fds, sd_journal_sendv.
#ifndef POSTHOUSE_CSYSTEMD_SHIM_H
#define POSTHOUSE_CSYSTEMD_SHIM_H

#include <systemd/sd-daemon.h>
#define SD_JOURNAL_SUPPRESS_LOCATION 1
#include <systemd/sd-journal.h>

static const int posthouse_sd_listen_fds_start = SD_LISTEN_FDS_START;

#endif
