//! The lock graph: the classes taken while another one was held.

use core::panic::Location;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

use spin::Once;

/// The maximum number of lock classes.
const CLASSES: usize = 512;
const WORDS: usize = CLASSES / u64::BITS as usize;

static PLACES: [Once<&'static Location<'static>>; CLASSES] = [const { Once::new() }; CLASSES];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// For each class, the set of classes that were taken while it was held.
static AFTER: [[AtomicU64; WORDS]; CLASSES] =
    [const { [const { AtomicU64::new(0) }; WORDS] }; CLASSES];
/// Held while a CPU adds to the graph.
static LEARNING: AtomicBool = AtomicBool::new(false);
/// Set after the first report, which disables further checks.
static FOUND: AtomicBool = AtomicBool::new(false);

/// Whether checks are enabled.
pub(super) fn is_on() -> bool {
    !FOUND.load(Relaxed)
}

/// Disables the checks, then panics.
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

/// The number of the class of locks created at `place`.
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

/// Records that class `next` is taken while `held` is held. If this closes a cycle, it is not
/// recorded, and the result is the last class of the cycle before `held`.
#[must_use]
pub(super) fn order(held: u16, next: u16) -> Option<u16> {
    let (held, next) = (usize::from(held), usize::from(next));
    // Locks of one class may nest, in an order that their owner defines.
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

/// The class before `to` on a path from `from` in the recorded orders.
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

/// The source line that creates the locks of a class.
pub(super) struct Place(pub u16);

impl core::fmt::Display for Place {
    fn fmt(&self, to: &mut core::fmt::Formatter) -> core::fmt::Result {
        match place(self.0.into()) {
            Some(place) => write!(to, "{}:{}", place.file(), place.line()),
            None => to.write_str("?"),
        }
    }
}

/// Calls `f` with the source line of each class taken so far.
pub fn each_class(f: impl FnMut(&Location)) {
    (0..COUNT.load(Acquire)).filter_map(place).for_each(f);
}

/// Calls `f` with each recorded order: the source lines of the outer and the inner lock.
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
