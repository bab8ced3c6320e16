// What Swift's Glibc module leaves out of Linux: eventfd(2), O_PATH of open(2), and renameat2(2).
#ifndef POSTHOUSE_CLINUX_SHIM_H
#define POSTHOUSE_CLINUX_SHIM_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/eventfd.h>

static const int posthouse_o_path = O_PATH;

// As <stdio.h> and <linux/fs.h> have them.
extern int renameat2(int old_directory, const char *old_path, int new_directory, const char *new_path,
                     unsigned int flags);
static const unsigned int posthouse_rename_noreplace = 1;

#endif
