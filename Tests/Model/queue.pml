/* The queue of deliveries, as two daemons on one database work on it (Sources/Ledger/Queue).
 *
 * Three deliveries to one integration: 0 and 1 of one purchase, 2 of another; 1 is recorded while the daemons run. Each
 * atomic step is one transaction, or one step in a daemon's memory. Daemons live, are frozen, die and return; a lease
 * expires when its daemon does not renew it; the integration is removed and comes back; an attempt may have to be made
 * again; the answer to a claim may be lost.
 *
 * What must hold, in every order of all of this:
 *   once     no attempt starts while another daemon has one under way under a lease that has not expired
 *   fenced   no delivery is settled twice, nor by an attempt of a lost lease while another is under way
 *   order    1 is sent after 0 was settled
 *   none is lost or stuck: where nothing more can happen, all three are settled
 *
 * Left out is the sweep that comes every half minute: it would only hide, here, what should have been found before.
 *
 * -DPROCESS_SCOPE   a daemon ends the lease of another whose process it does not see, as under ProtectProc=invisible
 * -DROUTES  a settlement looks only for successors at integrations that are configured then
 * -DCURRENT a settlement is written under the lease that the daemon has by then
 * -DSHORTCUT a daemon that returns takes its predecessor for dead without a lock that proves it
 */
#define DAEMONS    2
#define DELIVERIES 3
#define FAULTS     2
#define LEASES     8
#define at(d, i) ((d) * DELIVERIES + (i))
#define other(d) (1 - (d))
#define allSettled (settled[0] && settled[1] && settled[2])

mtype = { running, frozen, dead };
mtype = { none, held, sent };

/* The database. A lease is a number from 1; 0 is nobody's. */
byte leased[DELIVERIES];
bool recorded[DELIVERIES];
bool blocked[DELIVERIES];
bool settled[DELIVERIES];
bool registered[LEASES];
bool expired[LEASES];

/* The daemons' memory. */
mtype life[DAEMONS];
byte lease[DAEMONS];
mtype hand[DAEMONS * DELIVERIES];
/* The lease that what is in hand was taken under. */
byte under[DAEMONS * DELIVERIES];
/* The lease of an attempt that was under way when that lease was found ended; 0: none. It may be claimed again beside. */
byte stale[DAEMONS * DELIVERIES];
/* 0 was settled; its successor is still to be looked at. */
bool mustLook[DAEMONS];
/* A lease was ended, or it has just started: it is still to sweep. */
bool mustSweep[DAEMONS];

/* Of no state. */
hidden byte number;

bool configured = true;
byte faults;
bool wasRemoved;
bool wasRetried;
#ifdef SHORTCUT
/* A second process on the state directory of the first, which lives. */
bool hasTwin;
#endif

/* In truth a number is never used again. One that nobody speaks of any more may as well be: fewer states. */
#define isSpokenOf(n) (registered[n] || lease[0] == n || lease[1] == n \
    || leased[0] == n || leased[1] == n || leased[2] == n \
    || stale[0] == n || stale[1] == n || stale[2] == n || stale[3] == n || stale[4] == n || stale[5] == n \
    || under[0] == n || under[1] == n || under[2] == n || under[3] == n || under[4] == n || under[5] == n)

inline register(d) {
    number = 1;
    do :: number < LEASES && isSpokenOf(number) -> number++ :: else -> break od;
    assert(number < LEASES);
    lease[d] = number;
    registered[number] = true;
    expired[number] = false;
    number = 0
}

inline drop(d, i) {
    hand[at(d, i)] = none;
    under[at(d, i)] = 0
}

inline forgetOne(d, i) {
    if
    :: hand[at(d, i)] == sent && !stale[at(d, i)] -> stale[at(d, i)] = under[at(d, i)]; drop(d, i)
    :: hand[at(d, i)] == held -> drop(d, i)
    :: else
    fi
}

inline forget(d) {
    forgetOne(d, 0);
    forgetOne(d, 1);
    forgetOne(d, 2)
}

inline unblock() {
    if :: recorded[1] && blocked[1] && settled[0] -> blocked[1] = false :: else fi
}

/* What no registered daemon has leased is anybody's; and whoever died may have settled 0 before it looked for its
 * successor. */
inline sweep() {
    if :: leased[0] && !registered[leased[0]] -> leased[0] = 0 :: else fi;
    if :: leased[1] && !registered[leased[1]] -> leased[1] = 0 :: else fi;
    if :: leased[2] && !registered[leased[2]] -> leased[2] = 0 :: else fi;
    unblock()
}

#define claimable(i) (recorded[i] && !settled[i] && !blocked[i] && leased[i] == 0 && configured)

#define STEPS(d, i) \
    /* A claim is in memory before it is committed: no sweep finds it leased and not held. */ \
    :: atomic { life[d] == running && claimable(i) && hand[at(d, i)] == none -> \
        leased[i] = lease[d]; hand[at(d, i)] = held; under[at(d, i)] = lease[d] } \
    /* The answer is lost: leased, and nobody knows. */ \
    :: atomic { life[d] == running && claimable(i) && faults < FAULTS -> faults++; leased[i] = lease[d] } \
    /* The sweep finds it. */ \
    :: atomic { life[d] == running && leased[i] == lease[d] \
            && !(hand[at(d, i)] != none && under[at(d, i)] == lease[d]) -> leased[i] = 0 } \
    /* An attempt, while the lease lasts by this machine's clock. */ \
    :: atomic { life[d] == running && hand[at(d, i)] == held && configured && !expired[lease[d]] -> \
        assert(!(hand[at(other(d), i)] == sent && !expired[under[at(other(d), i)]]));    /* once */ \
        assert(i != 1 || settled[0]);                                                    /* order */ \
        hand[at(d, i)] = sent } \
    /* Removed: given back. */ \
    :: atomic { life[d] == running && hand[at(d, i)] == held && !configured -> \
        if :: leased[i] == under[at(d, i)] -> leased[i] = 0 :: else fi; drop(d, i) } \
    /* Settled: accepted. */ \
    :: atomic { life[d] == running && hand[at(d, i)] == sent -> \
        if \
        :: leased[i] == settledUnder(d, under[at(d, i)]) -> \
            assert(!settled[i]);                                                         /* fenced */ \
            assert(!(hand[at(other(d), i)] == sent && under[at(other(d), i)] == leased[i])); \
            settled[i] = true; leased[i] = 0; \
            if :: i == 0 && looksForSuccessor -> mustLook[d] = true :: else fi \
        :: else \
        fi; \
        drop(d, i) } \
    /* Settled: to be sent again. */ \
    :: atomic { life[d] == running && hand[at(d, i)] == sent && !wasRetried -> \
        wasRetried = true; \
        if :: leased[i] == settledUnder(d, under[at(d, i)]) -> leased[i] = 0 :: else fi; \
        drop(d, i) } \
    /* The end of an attempt of a lost lease. */ \
    :: atomic { life[d] == running && stale[at(d, i)] -> \
        if \
        :: leased[i] == settledUnder(d, stale[at(d, i)]) -> \
            assert(!settled[i] && hand[at(d, i)] != sent);                               /* fenced */ \
            settled[i] = true; leased[i] = 0; \
            if :: i == 0 && looksForSuccessor -> mustLook[d] = true :: else fi \
        :: else \
        fi; \
        stale[at(d, i)] = 0 }

#ifdef PROCESS_SCOPE
#define seemsDead(number) true
#else
#define seemsDead(number) expired[number]
#endif

#ifdef ROUTES
#define looksForSuccessor configured
#else
#define looksForSuccessor true
#endif

#ifdef CURRENT
#define settledUnder(d, taken) lease[d]
#else
#define settledUnder(d, taken) taken
#endif

proctype Daemon(byte d) {
end:
    do
    STEPS(d, 0)
    STEPS(d, 1)
    STEPS(d, 2)
    /* A transaction of its own, after the one that settled. */
    :: atomic { life[d] == running && mustLook[d] -> mustLook[d] = false; unblock() }
    /* Renews a lease that is still there, expired or not. */
    :: atomic { life[d] == running && registered[lease[d]] && expired[lease[d]] -> expired[lease[d]] = false }
    /* Finds that it was ended. */
    :: atomic { life[d] == running && !registered[lease[d]] -> forget(d); register(d); mustSweep[d] = true }
    /* Ends the leases of others that have run out, or of processes that it does not see. */
    :: atomic { life[d] == running && registered[lease[other(d)]] && seemsDead(lease[other(d)]) ->
        registered[lease[other(d)]] = false; mustSweep[d] = true }
    :: atomic { life[d] == running && mustSweep[d] -> mustSweep[d] = false; sweep() }
    od
}

/* Records 1, blocked by 0 or not: what it reads may be old when it commits, so it looks again after that. */
active proctype Recorder() {
    bool isBlocked;
    isBlocked = !settled[0];
    atomic { recorded[1] = true; blocked[1] = isBlocked };
    atomic { unblock() }
}

#define FATE(d) \
    :: atomic { faults < FAULTS && life[d] == running -> faults++; life[d] = frozen } \
    :: atomic { life[d] == frozen -> life[d] = running } \
    :: atomic { faults < FAULTS && life[d] == running -> faults++; life[d] = dead; mustLook[d] = false; mustSweep[d] = false; \
        drop(d, 0); drop(d, 1); drop(d, 2); \
        stale[at(d, 0)] = 0; stale[at(d, 1)] = 0; stale[at(d, 2)] = 0 } \
    /* It returns without a lock of its state directory: its old lease has to run out. */ \
    :: atomic { life[d] == dead && expired[lease[d]] -> \
        registered[lease[d]] = false; life[d] = running; register(d); mustSweep[d] = true } \
    /* With the lock: it knows that its predecessor is dead. */ \
    :: atomic { life[d] == dead && !expired[lease[d]] -> \
        registered[lease[d]] = false; life[d] = running; register(d); mustSweep[d] = true } \
    /* Time passes, and a lease that nobody renews runs out. */ \
    :: atomic { life[d] != running && registered[lease[d]] && !expired[lease[d]] -> expired[lease[d]] = true }

active proctype World() {
    atomic {
        life[0] = running; register(0);
        life[1] = running; register(1);
        recorded[0] = true; recorded[2] = true;
        hand[0] = none; hand[1] = none; hand[2] = none; hand[3] = none; hand[4] = none; hand[5] = none;
        run Daemon(0); run Daemon(1)
    };
    do
    FATE(0)
    FATE(1)
#ifdef SHORTCUT
    /* A second process starts beside a frozen or living one, and takes it for its dead predecessor. */
    :: atomic { !hasTwin && life[0] != dead -> hasTwin = true; registered[lease[0]] = false; sweep() }
#endif
    :: atomic { configured && !wasRemoved -> configured = false; wasRemoved = true }
    :: atomic { !configured -> configured = true }
    /* Nothing more can happen. */
    :: timeout -> assert(allSettled); break
    od
}
