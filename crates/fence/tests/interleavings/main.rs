//! The bitmap of new mappings under every interleaving and every order of memory that the language
//! allows, and the trap entry's instructions in place of [`unseen::Unseen::take`].

mod atomic;
#[path = "../../src/unseen.rs"]
mod unseen;

use std::collections::{BTreeMap, BTreeSet};

use atomic::{Act, AtomicU64, Ordering, ask, outcomes};
use unseen::{CPUS_PER_WORD, Unseen};

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
fn saw_all(seen: &[Vec<u64>]) -> bool {
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
        assert!(all.iter().all(|seen| saw_all(seen)), "{all:?}");
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
        assert!(!two_map(&mark, &take).iter().all(|seen| saw_all(seen)));
    }
}

/// How the trap entry's stretch ended.
#[derive(Debug, PartialEq)]
enum End {
    /// At the fence.
    Fence,
    /// At a label.
    Jump(String),
}

const WORD: &str = "{unseen}(tp)";
const BIT: &str = "{unseen_bit}(tp)";
const SAVED: &str = "{spill} + 16(tp)";
const INJECTING: &str = "{injecting}";
/// An address that is no word's.
const INJECTING_AT: u64 = 1;
/// What a register holds that belongs to whom the trap interrupted.
const KEPT: u64 = 0x7e57;

/// Executes instructions of CPU `cpu` in order, one at a time.
fn execute(text: &str, cpu: usize, kernel: &Kernel, injecting: bool) -> End {
    // Where `init_cpu` of the kernel says.
    let word = (&raw const kernel.unseen).addr() + cpu / CPUS_PER_WORD * size_of::<u64>();
    let mut memory = BTreeMap::from([(WORD, word as u64), (BIT, 1 << (cpu % CPUS_PER_WORD))]);
    let mut registers = BTreeMap::from([("zero", 0), ("t2", KEPT)]);
    let atomic = |at: u64, act, order| {
        assert_eq!(at, word as u64, "another word");
        ask(word, act, order)
    };
    for line in text.lines() {
        let line = line
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == ':')
            .trim();
        let (mnemonic, operands) = line.split_once(' ').unwrap_or((line, ""));
        let operands: Vec<_> = operands.split(", ").collect();
        let value = |register: &str| registers[register];
        let at = |operand: &str| value(operand.trim_matches(['(', ')']));
        let result = match (mnemonic, &operands[..]) {
            ("ld", [_, at_tp]) if at_tp.ends_with("(tp)") => memory[at_tp],
            ("ld", [_, pointer]) => atomic(at(pointer), Act::Load, Ordering::Relaxed),
            ("lla", [_, INJECTING]) => INJECTING_AT,
            ("lbu", [_, pointer]) => {
                assert_eq!(at(pointer), INJECTING_AT);
                u64::from(injecting)
            }
            ("and", [_, a, b]) => value(a) & value(b),
            ("sd", [register, place]) => {
                memory.insert(place, value(register));
                continue;
            }
            ("beqz", [register, label]) if value(register) == 0 => return jump(label, &memory),
            ("bnez", [register, label]) if value(register) != 0 => return jump(label, &memory),
            ("beqz" | "bnez", [_, _]) => continue,
            ("sfence.vma", [""]) => {
                assert_eq!(memory[SAVED], KEPT);
                return End::Fence;
            }
            (amoxor, ["zero", bits, pointer]) if amoxor.starts_with("amoxor.") => {
                let (width, order) = amoxor["amoxor.".len()..].split_at(1);
                let bits = match width {
                    "d" => value(bits),
                    "w" => value(bits) & u64::from(u32::MAX),
                    _ => panic!("{line}"),
                };
                let order = match order {
                    "" => Ordering::Relaxed,
                    ".aq" => Ordering::Acquire,
                    ".rl" => Ordering::Release,
                    ".aqrl" => Ordering::AcqRel,
                    _ => panic!("{line}"),
                };
                atomic(at(pointer), Act::Xor(bits), order);
                continue;
            }
            _ => panic!("{line}: not known here"),
        };
        assert_ne!(operands[0], "zero");
        registers.insert(operands[0], result);
    }
    panic!("it goes on behind the fence");
}

fn jump(label: &str, memory: &BTreeMap<&str, u64>) -> End {
    assert_eq!(memory[SAVED], KEPT);
    End::Jump(label.into())
}

/// The outcomes with a trap entry of these instructions.
fn with_entry(text: &str, cpu: usize, cpus: usize) -> BTreeSet<Vec<Vec<u64>>> {
    let take = |kernel: &Kernel| match execute(text, cpu, kernel, false) {
        End::Fence => true,
        End::Jump(label) => {
            assert_eq!(label, "3f");
            false
        }
    };
    two_map(&|kernel| kernel.unseen.mark(cpus), &take)
}

#[test]
fn the_trap_entry_does_what_take_does() {
    for (cpu, cpus) in TRIED {
        let entry = with_entry(fence::take_unseen!(), cpu, cpus);
        assert_eq!(entry, with_take(cpu, cpus));
    }
}

/// A bit of the other half of the word, and an entry that is not seen behind the fence.
#[test]
fn other_trap_entries_are_told_from_it() {
    let entry = fence::take_unseen!();
    let narrow = entry.replace("amoxor.d", "amoxor.w");
    for (cpu, cpus) in TRIED {
        let low = cpu % CPUS_PER_WORD < 32;
        let same = with_entry(&narrow, cpu, cpus) == with_take(cpu, cpus);
        assert_eq!(same, low, "{cpu}");
    }
    for weaker in ["", ".rl"] {
        let weaker = entry.replace(".aqrl", weaker);
        assert!(!with_entry(&weaker, 40, 64).iter().all(|seen| saw_all(seen)));
    }
    let without = entry.replace("amoxor.d.aqrl zero, t2, (t0)\n", "");
    assert_ne!(with_entry(&without, 40, 64), with_take(40, 64));
}

/// The injector comes in between after the bit was taken, where one was set.
#[test]
fn the_injector_has_its_turn() {
    let kernel = Kernel {
        entries: [const { AtomicU64::new(0) }; 2],
        unseen: Unseen::new(),
    };
    let trap = |injecting| match execute(fence::take_unseen!(), 40, &kernel, injecting) {
        End::Fence => vec![4],
        End::Jump(label) => vec![u64::from(label == "5f") + 2 * u64::from(label == "3f")],
    };
    for (injecting, end) in [(false, 4), (true, 1)] {
        let ends = outcomes(&[&|| trap(injecting)], &|| {
            kernel.unseen.mark(64);
            [trap(injecting), trap(injecting)].concat()
        });
        assert_eq!(ends, BTreeSet::from([vec![vec![2], vec![end, 2]]]));
    }
}
