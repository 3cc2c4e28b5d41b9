// Rounds of a few and of many lots in turn: counts the rounds in which some lot did not run once.
#include "team.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>

int main(int, char** arguments) {
    lwcs::Team team(std::atoi(arguments[1]));
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::atoi(arguments[2]));
    std::atomic<int> runs[40];
    long wrong = 0;
    for (int64_t lots = 2; std::chrono::steady_clock::now() < end; lots = 42 - lots) {
        for (auto& each : runs) each.store(0, std::memory_order_relaxed);
        team.each(lots, [&](int64_t lot) { runs[lot].fetch_add(1, std::memory_order_relaxed); });
        bool once = true;
        for (int64_t i = 0; i < 40; ++i) once &= runs[i].load(std::memory_order_relaxed) == (i < lots);
        wrong += !once;
    }
    std::printf("%ld\n", wrong);
}
