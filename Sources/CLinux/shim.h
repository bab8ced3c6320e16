// What Swift's Glibc module leaves out of Linux: eventfd(2), and O_PATH of open(2).
#ifndef POSTHOUSE_CLINUX_SHIM_H
#define POSTHOUSE_CLINUX_SHIM_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/eventfd.h>

static const int posthouse_o_path = O_PATH;

#endif
