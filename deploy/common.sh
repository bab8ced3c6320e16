# shellcheck shell=bash
# What the scripts of deploy share: sourced by them, from the root of the checkout.

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# Of PostgreSQL any version's server will do; PostgreSQL's own packages are not named postgresql.
is_installed() {
    if [ "$1" = postgresql ] && compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then return 0; fi
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# as_root COMMAND…: as it is for root, by sudo for others.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install_missing LOG PACKAGE…: installs those that are not there; touches nothing when all are.
install_missing() {
    local log=$1 package missing=()
    shift
    # What an installation that was interrupted has left.
    let_default_cluster_in
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || die "needs these packages, and there is no apt-get: ${missing[*]}"
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        die "needs packages, and there is no sudo; as root: apt-get install ${missing[*]}"
    fi
    say "installing ${missing[*]} (log: $log)"
    as_root apt-get update -qq >>"$log" 2>&1 || say "apt-get update failed: going on with the package lists as they are"
    keep_default_cluster_out "$log" "${missing[@]}"
    local status=0
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Use-Pty=0 "${missing[@]}" >>"$log" 2>&1 || status=$?
    let_default_cluster_in
    if [ "$status" != 0 ]; then
        tail -n 20 "$log" >&2
        die "apt-get install ${missing[*]} failed: the lines above are the end of $log"
    fi
}

createcluster=/etc/postgresql-common/createcluster.conf

# PostgreSQL's package would make and start a cluster of its own, which nobody here needs. Said before it is installed,
# in the package's own configuration file, and taken back behind it: who installs PostgreSQL later wants that cluster.
keep_default_cluster_out() {
    local log=$1
    shift
    case " $* " in *" postgresql "*) ;; *) return 0 ;; esac
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Use-Pty=0 postgresql-common >>"$log" 2>&1 || return 0
    [ -e "$createcluster.before" ] || as_root cp -p "$createcluster" "$createcluster.before"
    as_root sed -i 's/^#\? *create_main_cluster *=.*/create_main_cluster = false/' "$createcluster"
}

let_default_cluster_in() { [ ! -e "$createcluster.before" ] || as_root mv "$createcluster.before" "$createcluster"; }

# free_port FIRST: the first port from there on that nobody listens on.
free_port() {
    local port=$1
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
    echo "$port"
}

# with_progress LOG COMMAND…: runs it with all output in LOG, and shows the latest line of that now and then.
with_progress() {
    local log=$1 pid status=0 begin=$SECONDS next=20 line
    shift
    "$@" >>"$log" 2>&1 &
    pid=$!
    # Ctrl-C does not reach what bash starts in the background.
    # shellcheck disable=SC2064 # the number as it is now
    trap "kill $pid; exit 130" INT TERM
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        line=$(tail -n 1 "$log" 2>/dev/null | tr -d '\r' | cut -c 1-110)
        if [ -t 1 ]; then
            printf '\r\033[K  %4d s  %s' $((SECONDS - begin)) "$line"
        elif [ $((SECONDS - begin)) -ge "$next" ]; then
            printf '  %4d s  %s\n' $((SECONDS - begin)) "$line"
            next=$((next + 20))
        fi
    done
    if [ -t 1 ]; then printf '\r\033[K'; fi
    wait "$pid" || status=$?
    trap - INT TERM
    return "$status"
}

# The build's needs: libpq, libsystemd, toml++ and a C++ library for the compiler that comes with Swift.
# shellcheck disable=SC2034 # used by both scripts
build_packages=(libpq-dev libsystemd-dev libtomlplusplus-dev pkg-config libstdc++-12-dev postgresql openssl)

need_swift() {
    command -v swift >/dev/null || die "there is no swift in PATH: install Swift 6.3 (https://www.swift.org/install/linux/)"
}
