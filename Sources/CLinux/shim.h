// What Swift's Glibc module leaves out of Linux: eventfd(2).
#ifndef POSTHOUSE_CLINUX_SHIM_H
#define POSTHOUSE_CLINUX_SHIM_H

#include <sys/eventfd.h>

#endif
