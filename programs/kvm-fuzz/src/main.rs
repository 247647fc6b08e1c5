//! Sends random requests to KVM and runs random guests: `kvm-fuzz SEED ROUNDS`. None of them may
//! harm the kernel or leave anything behind. The output does not depend on their results.

mod code;
mod guests;
mod machine;
mod requests;

use std::thread;
use std::time::Duration;

use random::Random;

/// VMs created and destroyed in each round: over all rounds more than there are identifiers
/// (VMIDs).
const MACHINES: usize = 40;
/// The tolerated loss of free memory at the end, in KiB: a few kernel caches, but no guest's
/// memory.
const TOLERANCE: i64 = 8 << 10;
/// How long to wait for memory that is freed later, in tenths of a second.
const PATIENCE: u32 = 100;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|word| word.parse().expect("a number"));
    let (seed, rounds) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1));
    let mut random = Random::new(seed);
    machine::handle_signals();
    // A first round allocates what is kept for ever.
    round(&mut random);
    let before = free();
    (0..rounds).for_each(|_| round(&mut random));
    let mut lost = before - free();
    for _ in 0..PATIENCE {
        if lost < TOLERANCE {
            break;
        }
        thread::sleep(Duration::from_millis(100));
        lost = before - free();
    }
    println!("requests, guests and machines came and went");
    match lost {
        ..TOLERANCE => println!("all memory came back"),
        _ => println!("{lost} KiB are lost"),
    }
}

fn round(random: &mut Random) {
    requests::throw(random);
    guests::run(random);
    (0..MACHINES).for_each(|_| machine::come_and_go(random));
}

/// Free memory, in KiB.
fn free() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let line = text
        .lines()
        .find(|line| line.starts_with("MemFree:"))
        .expect("MemFree");
    let number = line.split_whitespace().nth(1).expect("a number");
    number.parse().expect("a number")
}
