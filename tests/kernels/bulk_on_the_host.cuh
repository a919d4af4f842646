// bulk_on_the_host: stands for kernels/frontier/bulk.cuh: copies are made when they are awaited.
#pragma once
#include <map>
#include <vector>

using Barrier = unsigned;

struct Copy {
    char *to;
    const char *from;
    unsigned bytes;
};
static std::map<Barrier *, std::vector<Copy>> copied; // not yet awaited, by what counts them
static std::map<unsigned, long> awaited;              // bytes that a block has still to get
static void (*delivered)(Barrier *, unsigned) = [](auto...) {}; // what is awaited beside copies

static std::map<Barrier *, unsigned> phases; // that have begun, of one arrival each

static void init(Barrier *barrier, int arrivals) {
    *barrier = arrivals;
    phases[barrier] = 0;
}
static void initialised() {}
static void written() {}
static void arrive_expecting(Barrier *barrier, unsigned bytes) {
    awaited[blockIdx.x] += bytes;
    ++phases[barrier];
    --*barrier;
}
static void load_bulk(void *to, const void *from, unsigned bytes, Barrier *barrier) {
    copied[barrier].push_back({static_cast<char *>(to), static_cast<const char *>(from), bytes});
    awaited[blockIdx.x] -= bytes;
}
static void wait(Barrier *barrier, unsigned parity) {
    misaligned += phases[barrier] == 0 || (phases[barrier] - 1) % 2 != parity; // another phase
    for (auto [to, from, bytes] : copied[barrier]) {
        misaligned += bytes % sizeof(uint4) != 0;
        for (unsigned at = 0; at < bytes; at += sizeof(uint4))
            *reinterpret_cast<uint4 *>(to + at) = *reinterpret_cast<const uint4 *>(from + at);
    }
    copied[barrier].clear();
    delivered(barrier, parity);
}

// Blocks that got more or fewer bytes than they announced, since this was last asked.
extern "C" int uneven() {
    int blocks = 0;
    for (auto [block, bytes] : awaited)
        blocks += bytes != 0;
    awaited.clear();
    return blocks;
}
