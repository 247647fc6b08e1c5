//! Atomic words in a memory that keeps every store: as in C++ and Rust, a load may return any store
//! that its thread need not know to be outdated.
//!
//! loom models the same, but leaves interleavings out: if a thread's store follows a load of its
//! own, loom does not go back to what others did before that load.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};

pub use std::sync::atomic::Ordering::{self, *};

/// A word; its address is its name. All begin as zero.
#[derive(Debug)]
pub struct AtomicU64(u64);

impl AtomicU64 {
    /// A word, which must be zero.
    pub const fn new(zero: u64) -> Self {
        assert!(zero == 0);
        AtomicU64(zero)
    }

    fn ask(&self, act: Act, order: Ordering) -> u64 {
        ask((&raw const self.0).addr(), act, order)
    }

    pub fn load(&self, order: Ordering) -> u64 {
        self.ask(Act::Load, order)
    }

    pub fn store(&self, value: u64, order: Ordering) {
        self.ask(Act::Store(value), order);
    }

    pub fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.ask(Act::Or(bits), order)
    }

    pub fn fetch_xor(&self, bits: u64, order: Ordering) -> u64 {
        self.ask(Act::Xor(bits), order)
    }
}

/// An operation of a thread on a word.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Load,
    Store(u64),
    Or(u64),
    Xor(u64),
}

type Request = (usize, Act, Ordering);

thread_local! {
    /// The answers of the thread that runs, how many of them it took, and the request that has
    /// none.
    static ASKED: RefCell<(Vec<u64>, usize, Option<Request>)> = const { RefCell::new((Vec::new(), 0, None)) };
}

/// The answer of the word at `place`. A thread is run again from its start for each, with those
/// that it has: the first request without one ends it.
pub fn ask(place: usize, act: Act, order: Ordering) -> u64 {
    let answer = ASKED.with_borrow_mut(|(answers, taken, request)| {
        let answer = answers.get(*taken).copied();
        *taken += 1;
        if answer.is_none() {
            *request = Some((place, act, order));
        }
        answer
    });
    answer.unwrap_or_else(|| panic::resume_unwind(Box::new("no answer yet")))
}

/// A thread: what it saw is its result.
pub type Thread<'a> = &'a dyn Fn() -> Vec<u64>;

/// For each word, the oldest store that a load may find, by its number.
type View = BTreeMap<usize, usize>;

fn join(view: &mut View, other: &View) {
    for (place, store) in other {
        let known = view.entry(*place).or_default();
        *known = (*known).max(*store);
    }
}

/// The state of an exploration: the remaining steps depend on nothing else.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// Each word's stores in order, each with what who acquires from it knows.
    memory: BTreeMap<usize, Vec<(u64, View)>>,
    /// The answers and the knowledge of each thread.
    threads: Vec<(Vec<u64>, View)>,
}

#[derive(Default)]
struct Seen {
    states: BTreeSet<State>,
    outcomes: BTreeSet<Vec<Vec<u64>>>,
}

impl State {
    /// Runs a thread as far as its answers reach: what it saw, or wants.
    fn run(&self, at: usize, thread: Thread<'_>) -> Result<Vec<u64>, Request> {
        ASKED.set((self.threads[at].0.clone(), 0, None));
        panic::catch_unwind(AssertUnwindSafe(thread)).map_err(|panic| match ASKED.take().2 {
            Some(request) => request,
            None => panic::resume_unwind(panic),
        })
    }

    /// All that a request may lead to.
    fn answer(&self, at: usize, (place, act, order): Request) -> Vec<State> {
        let mut state = self.clone();
        let stores = state
            .memory
            .entry(place)
            .or_insert_with(|| vec![(0, View::new())]);
        let last = stores.len() - 1;
        let known = self.threads[at].1.get(&place).copied().unwrap_or_default();
        let acquires = matches!(order, Acquire | AcqRel | SeqCst);
        let releases = matches!(order, Release | AcqRel | SeqCst);
        let found = match act {
            Act::Load => known..=last,
            _ => last..=last,
        };
        found
            .map(|found| {
                let mut state = state.clone();
                let stores = state.memory.get_mut(&place).expect("made above");
                let (answers, view) = &mut state.threads[at];
                let (old, released) = stores[found].clone();
                let new = match act {
                    Act::Load => None,
                    Act::Store(new) => Some((new, View::new())),
                    // An acquire of this one acquires those before as well.
                    Act::Or(bits) => Some((old | bits, released.clone())),
                    Act::Xor(bits) => Some((old ^ bits, released.clone())),
                };
                if acquires && !matches!(act, Act::Store(_)) {
                    join(view, &released);
                }
                let known = View::from([(place, found + usize::from(new.is_some()))]);
                join(view, &known);
                if let Some((new, mut view_of_store)) = new {
                    join(&mut view_of_store, if releases { view } else { &known });
                    stores.push((new, view_of_store));
                }
                answers.push(old);
                state
            })
            .collect()
    }

    fn explore(self, first: &[Thread<'_>], last: Thread<'_>, seen: &mut Seen) {
        if !seen.states.insert(self.clone()) {
            return;
        }
        let ran: Vec<_> = (0..).zip(first).map(|(at, f)| self.run(at, f)).collect();
        let mut went_on = false;
        for (at, request) in ran.iter().enumerate() {
            if let Err(request) = request {
                went_on = true;
                for state in self.answer(at, *request) {
                    state.explore(first, last, seen);
                }
            }
        }
        if went_on {
            return;
        }
        let mut outcome: Vec<_> = ran.into_iter().flatten().collect();
        let mut state = self;
        if state.threads.len() == first.len() {
            let mut view = View::new();
            state
                .threads
                .iter()
                .for_each(|other| join(&mut view, &other.1));
            state.threads.push((Vec::new(), view));
        }
        match state.run(first.len(), last) {
            Ok(at_last) => {
                outcome.push(at_last);
                seen.outcomes.insert(outcome);
            }
            Err(request) => {
                for state in state.answer(first.len(), request) {
                    state.explore(first, last, seen);
                }
            }
        }
    }
}

/// All that threads can see that run side by side, and then one that was told of all they did.
pub fn outcomes(first: &[Thread<'_>], last: Thread<'_>) -> BTreeSet<Vec<Vec<u64>>> {
    let mut seen = Seen::default();
    let state = State {
        threads: vec![Default::default(); first.len()],
        ..State::default()
    };
    state.explore(first, last, &mut seen);
    seen.outcomes
}
