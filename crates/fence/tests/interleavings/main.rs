//! The bitmap of new mappings under every interleaving and every order of memory that the language
//! allows.

mod atomic;
#[path = "../../src/unseen.rs"]
mod unseen;

use std::collections::BTreeSet;

use atomic::{AtomicU64, Ordering, outcomes};
use unseen::Unseen;

/// CPUs at the ends of the halves of words, each with how many CPUs there are: one word where that
/// will do.
const TRIED: [(usize, usize); 5] = [(0, 64), (31, 64), (32, 64), (63, 64), (69, 70)];
const WORDS: usize = unseen::words(70);

/// The kernel's half of an address space: two entries, and who has not seen them.
struct Kernel {
    entries: [AtomicU64; 2],
    unseen: Unseen<WORDS>,
}

impl Kernel {
    /// A CPU fills an entry and tells of it by `mark`.
    fn map(&self, entry: usize, mark: &dyn Fn(&Kernel)) -> Vec<u64> {
        self.entries[entry].store(1, Ordering::Relaxed);
        mark(self);
        Vec::new()
    }

    /// A trap: if `take` finds the CPU's bit, the CPU fences and walks. What it saw then.
    fn trap(&self, take: &dyn Fn(&Kernel) -> bool) -> Vec<u64> {
        let walk = || {
            self.entries
                .iter()
                .map(|entry| entry.load(Ordering::Relaxed))
        };
        if take(self) {
            walk().collect()
        } else {
            Vec::new()
        }
    }
}

/// All that comes out where two CPUs map while a third traps, which traps again when all is quiet.
fn two_map(mark: &dyn Fn(&Kernel), take: &dyn Fn(&Kernel) -> bool) -> BTreeSet<Vec<Vec<u64>>> {
    let kernel = Kernel {
        entries: [const { AtomicU64::new(0) }; 2],
        unseen: Unseen::new(),
    };
    let trap = || kernel.trap(take);
    outcomes(
        &[&|| kernel.map(0, mark), &|| kernel.map(1, mark), &trap],
        &trap,
    )
}

/// Whether the last fence came after both mappings.
fn saw_all(seen: &Vec<Vec<u64>>) -> bool {
    seen.iter().rfind(|seen| !seen.is_empty()) == Some(&vec![1, 1])
}

/// The outcomes with the library's `take`.
fn with_take(cpu: usize, cpus: usize) -> BTreeSet<Vec<Vec<u64>>> {
    two_map(&|kernel| kernel.unseen.mark(cpus), &|kernel| {
        kernel.unseen.take(cpu)
    })
}

#[test]
fn no_mapping_is_lost() {
    for (cpu, cpus) in TRIED {
        let all = with_take(cpu, cpus);
        assert!(all.iter().all(saw_all), "{all:?}");
        assert!(all.len() > 2, "{all:?}");
    }
}

/// The error that the comment of `mark` names, which the model must see to be of use.
#[test]
fn a_load_and_a_store_lose_a_mapping() {
    for order in [Ordering::Relaxed, Ordering::Acquire] {
        let word = AtomicU64::new(0);
        let mark = |_: &Kernel| word.store(word.load(order) | 1, Ordering::Release);
        let take = |_: &Kernel| {
            let set = word.load(Ordering::Relaxed) != 0;
            set && word.fetch_xor(1, Ordering::AcqRel) != 0
        };
        assert!(!two_map(&mark, &take).iter().all(saw_all));
    }
}
