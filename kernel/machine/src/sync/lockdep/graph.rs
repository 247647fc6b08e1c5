//! Which class was taken while which other one was held.

use core::panic::Location;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

use spin::Once;

/// Most lines of the kernel that make locks.
const CLASSES: usize = 512;
const WORDS: usize = CLASSES / u64::BITS as usize;

static PLACES: [Once<&'static Location<'static>>; CLASSES] = [const { Once::new() }; CLASSES];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// For each class, those that were taken while it was held.
static AFTER: [[AtomicU64; WORDS]; CLASSES] =
    [const { [const { AtomicU64::new(0) }; WORDS] }; CLASSES];
/// One CPU learns at a time.
static LEARNING: AtomicBool = AtomicBool::new(false);
/// Something was found: what follows it is not judged.
static FOUND: AtomicBool = AtomicBool::new(false);

/// Whether locks are still judged.
pub(super) fn is_on() -> bool {
    !FOUND.load(Relaxed)
}

/// Ends the judgement, then panics.
pub(super) fn found(what: core::fmt::Arguments) {
    if !FOUND.swap(true, Relaxed) {
        panic!("{what}");
    }
}

fn learn<T>(what: impl FnOnce() -> T) -> T {
    while LEARNING.swap(true, Acquire) {
        core::hint::spin_loop();
    }
    let result = what();
    LEARNING.store(false, Release);
    result
}

/// The number of the class of locks that are made at `place`.
pub(super) fn class_of(place: &'static Location<'static>) -> u16 {
    let known = || (0..COUNT.load(Acquire)).find(|&class| self::place(class) == Some(place));
    let new = || {
        known().unwrap_or_else(|| {
            let class = COUNT.load(Relaxed);
            assert!(class < CLASSES, "more classes of locks than are foreseen");
            PLACES[class].call_once(|| place);
            COUNT.store(class + 1, Release);
            class
        })
    };
    known().unwrap_or_else(|| learn(new)) as u16
}

fn place(class: usize) -> Option<&'static Location<'static>> {
    PLACES[class].get().copied()
}

fn was_taken_after(class: usize, first: usize) -> bool {
    AFTER[first][class / 64].load(Relaxed) & 1 << (class % 64) != 0
}

/// Learns that class `next` is taken while `held` is. If that closes a circle of orders that were
/// seen, it is not learnt, and the last class of the circle before `held` comes back.
#[must_use]
pub(super) fn order(held: u16, next: u16) -> Option<u16> {
    let (held, next) = (usize::from(held), usize::from(next));
    // What one lock of a class guards may lead to another of it, in an order that its owner knows.
    if held == next || was_taken_after(next, held) {
        return None;
    }
    learn(|| {
        let back = path(next, held);
        if back.is_none() {
            AFTER[held][next / 64].fetch_or(1 << (next % 64), Relaxed);
        }
        back.map(|class| class as u16)
    })
}

/// The class before `to` on a way from `from`, by orders that were seen.
fn path(from: usize, to: usize) -> Option<usize> {
    let mut reached = [0u64; WORDS];
    reached[from / 64] |= 1 << (from % 64);
    loop {
        let before = reached;
        for class in (0..CLASSES).filter(|class| before[class / 64] & 1 << (class % 64) != 0) {
            if was_taken_after(to, class) {
                return Some(class);
            }
            for (word, after) in reached.iter_mut().zip(&AFTER[class]) {
                *word |= after.load(Relaxed);
            }
        }
        if reached == before {
            return None;
        }
    }
}

/// Where the locks of a class are made.
pub(super) struct Place(pub u16);

impl core::fmt::Display for Place {
    fn fmt(&self, to: &mut core::fmt::Formatter) -> core::fmt::Result {
        match place(self.0.into()) {
            Some(place) => write!(to, "{}:{}", place.file(), place.line()),
            None => to.write_str("?"),
        }
    }
}

/// Calls `f` with where the locks of each class are made that was taken so far.
pub fn each_class(f: impl FnMut(&Location)) {
    (0..COUNT.load(Acquire)).filter_map(place).for_each(f);
}

/// Calls `f` with each order that was seen: where the outer and the inner lock are made.
pub fn each_order(mut f: impl FnMut(&Location, &Location)) {
    let count = COUNT.load(Acquire);
    for outer in 0..count {
        for inner in (0..count).filter(|&inner| was_taken_after(inner, outer)) {
            if let (Some(outer), Some(inner)) = (place(outer), place(inner)) {
                f(outer, inner);
            }
        }
    }
}
