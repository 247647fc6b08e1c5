//! `/proc/timer_list`: the deadlines of each CPU, in the order in which its queue keeps them.
//! Kernel addresses are shown as zeroes.

use super::super::seq_file::Text;
use super::subject::trim;
use crate::arch::{cpu, time};
use crate::put;
use crate::task::clock;
use crate::task::sched::cond_resched_killable;
use crate::task::timer::{self, Expiry};

/// The clock of the times below: the only one, CLOCK_MONOTONIC.
const CLOCK: &str = " clock 0:
  .base:       0000000000000000
  .index:      0
  .resolution: 1 nsecs
  .get_time:   clock::monotonic_ns
  .offset:     0 nsecs
active timers:
";

/// The file's text.
pub fn write(text: &mut Text) {
    let now = clock::monotonic_ns();
    put!(
        text,
        "Timer List Version: v0.10\nHRTIMER_MAX_CLOCK_BASES: 1\nnow at {now} nsecs\n\n"
    );
    for cpu in cpu::online() {
        put!(text, "cpu: {}\n{CLOCK}", cpu.index());
        let mut at = 0;
        while let Some((range, expiry)) = timer::describe(cpu, at) {
            put!(text, " #{at}: <0000000000000000>, ");
            match expiry {
                Expiry::Wakes(thread) => {
                    text.push(trim(&thread.name()));
                    put!(text, "/{}", thread.tid());
                }
                Expiry::Calls(what) => put!(text, "{what}"),
            }
            let [soft, hard] =
                range.map(|at| time::ticks_to_ns(at.saturating_sub(clock::boot_ticks())));
            let [first, last] = [soft, hard].map(|at| at as i64 - now as i64);
            put!(
                text,
                ", S:01\n # expires at {soft}-{hard} nsecs [in {first} to {last} nsecs]\n"
            );
            at += 1;
            if cond_resched_killable().is_err() {
                return;
            }
        }
        put!(text, "\n");
    }
}
