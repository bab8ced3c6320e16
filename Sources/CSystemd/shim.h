// The only binding to libsystemd: sd_booted, sd_notify, sd_watchdog_enabled, sd_listen_fds_with_names, sd_journal_sendv,
// sd_id128_get_machine_app_specific.
#ifndef POSTHOUSE_CSYSTEMD_SHIM_H
#define POSTHOUSE_CSYSTEMD_SHIM_H

#include <string.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>
#define SD_JOURNAL_SUPPRESS_LOCATION 1
#include <systemd/sd-journal.h>

static const int posthouse_sd_listen_fds_start = SD_LISTEN_FDS_START;

// Writes 16 bytes that name this machine to Posthouse alone, and do not reveal its machine id (sd_id128_get_machine(3)).
static inline int posthouse_machine_id(unsigned char *out) {
    sd_id128_t id;
    int result = sd_id128_get_machine_app_specific(
        SD_ID128_MAKE(82, d3, cf, 73, 69, 9d, b1, e6, 09, 4d, 03, df, 8b, 79, 6b, c5), &id);
    if (result >= 0) memcpy(out, id.bytes, sizeof id.bytes);
    return result;
}

#endif
