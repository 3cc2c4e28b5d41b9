// Threads that share the work of one call, or of the many calls of one solver.
//
// The caller takes part in the work, and waits only for lots that others have claimed: a member that
// the system has not scheduled yet delays nobody. Between two rounds members look for work for some
// microseconds, and then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace lwcs {

inline void rest() {
#if defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

class Team {
public:
    explicit Team(int threads) {
        try {
            for (int i = 1; i < threads; ++i) members_.emplace_back([this] { work(); });
        } catch (...) {  // no further thread is to be had: those that have started do the work
        }
    }
    ~Team() {
        stopped_.store(true);
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
        for (auto& member : members_) member.join();
    }
    Team(const Team&) = delete;

    int size() const { return int(members_.size()) + 1; }

    // Call `f(lot)` for every lot; lots are claimed in order, by whoever is free.
    template <class F>
    void each(int64_t lots, F&& f) {
        if (lots <= 0) return;
        if (members_.empty() || lots == 1) {
            for (int64_t lot = 0; lot < lots; ++lot) f(lot);
            return;
        }
        // Closed before anything changes, and in this order for others, too: a claim that is late by a
        // round would otherwise take a lot of this one.
        const uint64_t round = (next_.load(std::memory_order_relaxed) >> 32) + 1;
        next_.store(round << 32 | CLOSED, std::memory_order_relaxed);
        call_.store(
            [](void* function, int64_t lot) { (*static_cast<std::remove_reference_t<F>*>(function))(lot); },
            std::memory_order_release);
        function_.store(const_cast<void*>(static_cast<const void*>(&f)), std::memory_order_release);
        lots_.store(lots, std::memory_order_release);
        done_.store(0, std::memory_order_relaxed);
        next_.store(round << 32, std::memory_order_release);
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
        take_part();
        for (int64_t looks = 0; done_.load(std::memory_order_acquire) < lots; ++looks)
            looks < LOOKS ? rest() : std::this_thread::yield();
        // Scratch memory is all that a lot can fail for.
        if (failed_.exchange(false)) throw std::bad_alloc();
    }

private:
    static constexpr int64_t LOOKS = 1 << 12;
    // More lots than a round can have.
    static constexpr uint64_t CLOSED = 0xffffffffu;

    // A claim is made by the number of its round: one of an earlier round fails.
    void take_part() {
        uint64_t now = next_.load(std::memory_order_acquire);
        const uint64_t round = now >> 32;
        auto call = call_.load(std::memory_order_acquire);
        auto function = function_.load(std::memory_order_acquire);
        const int64_t lots = lots_.load(std::memory_order_acquire);
        while (now >> 32 == round && int64_t(now & CLOSED) < lots) {
            if (!next_.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) continue;
            try {
                call(function, int64_t(now & CLOSED));
            } catch (...) {
                failed_.store(true, std::memory_order_relaxed);
            }
            done_.fetch_add(1, std::memory_order_acq_rel);
            now = next_.load(std::memory_order_acquire);
        }
    }

    void work() {
        uint32_t seen = 0;
        while (true) {
            for (int64_t looks = 0; looks < LOOKS && round_.load(std::memory_order_acquire) == seen; ++looks) rest();
            round_.wait(seen, std::memory_order_acquire);
            seen = round_.load(std::memory_order_acquire);
            if (stopped_.load()) return;
            take_part();
        }
    }

    std::vector<std::thread> members_;
    std::atomic<bool> stopped_{false}, failed_{false};
    std::atomic<uint32_t> round_{0};
    alignas(64) std::atomic<uint64_t> next_{0};
    alignas(64) std::atomic<int64_t> done_{0};
    std::atomic<void (*)(void*, int64_t)> call_{nullptr};
    std::atomic<void*> function_{nullptr};
    std::atomic<int64_t> lots_{0};
};

// Call `f(lot)` for every lot, by a team if there is one.
template <class F>
void share(void* team, int64_t lots, F&& f) {
    if (team) return static_cast<Team*>(team)->each(lots, f);
    for (int64_t lot = 0; lot < lots; ++lot) f(lot);
}

}  // namespace lwcs
