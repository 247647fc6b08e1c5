//! Sequences of system calls, compared with models of their effects.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

mod each;

use each::each;
use hosted::*;
use linux_raw_sys::general::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum OnFiles {
    Pipe,
    Dup(usize),
    DupTo(usize, usize),
    Close(usize),
    Write(usize, u8),
    Read(usize, u8),
}

/// Descriptors below this are used.
const FDS: usize = 24;

fn on_files() -> impl Strategy<Value = Vec<OnFiles>> {
    let fd = 3..FDS;
    let one = prop_oneof![
        Just(OnFiles::Pipe),
        fd.clone().prop_map(OnFiles::Dup),
        (fd.clone(), fd.clone()).prop_map(|(from, to)| OnFiles::DupTo(from, to)),
        fd.clone().prop_map(OnFiles::Close),
        (fd.clone(), any::<u8>()).prop_map(|(fd, len)| OnFiles::Write(fd, len)),
        (fd, any::<u8>()).prop_map(|(fd, len)| OnFiles::Read(fd, len)),
    ];
    prop::collection::vec(one, 1..60)
}

/// The open descriptors, as the model has them.
#[derive(Default)]
struct Files {
    /// The number of a pipe, and whether this is the write end.
    ends: BTreeMap<usize, (usize, bool)>,
    pipes: Vec<VecDeque<u8>>,
    next: u8,
}

impl Files {
    fn free(&self) -> usize {
        (3..).find(|fd| !self.ends.contains_key(fd)).unwrap()
    }

    fn has(&self, end: (usize, bool)) -> bool {
        self.ends.values().any(|other| *other == end)
    }

    fn pipe(&mut self) {
        let pair = reserve(8);
        assert_eq!(sys!(pipe2, pair, O_NONBLOCK), Ok(0));
        for write in [false, true] {
            let fd = self.free();
            let at = pair + 4 * usize::from(write);
            assert_eq!(peek(at, 4), (fd as u32).to_ne_bytes());
            self.ends.insert(fd, (self.pipes.len(), write));
        }
        self.pipes.push(VecDeque::new());
    }

    fn write(&mut self, fd: usize, len: u8) {
        let bytes: Vec<u8> = (0..len).map(|at| at.wrapping_add(self.next)).collect();
        self.next = self.next.wrapping_add(len);
        let expected = match self.ends.get(&fd) {
            Some(&(_, true)) if len == 0 => Ok(0),
            Some(&(pipe, true)) if self.has((pipe, false)) => {
                self.pipes[pipe].extend(&bytes);
                Ok(len.into())
            }
            Some((_, true)) => Err(Errno::EPIPE),
            _ => Err(Errno::EBADF),
        };
        assert_eq!(sys!(write, fd, &*bytes, bytes.len()), expected);
    }

    fn read(&mut self, fd: usize, len: u8) {
        let expected = match self.ends.get(&fd) {
            Some(&(pipe, false)) => {
                let count = self.pipes[pipe].len().min(len.into());
                let waits = count == 0 && len > 0 && self.has((pipe, true));
                if waits {
                    Err(Errno::EAGAIN)
                } else {
                    Ok(self.pipes[pipe].drain(..count).collect())
                }
            }
            _ => Err(Errno::EBADF),
        };
        let room = reserve(256);
        let read = sys!(read, fd, room, usize::from(len)).map(|count| peek(room, count));
        assert_eq!(read, expected);
    }

    fn step(&mut self, step: OnFiles) {
        match step {
            OnFiles::Pipe => self.pipe(),
            OnFiles::Dup(from) => {
                let end = self.ends.get(&from).copied();
                let expected = end.map(|_| self.free()).ok_or(Errno::EBADF);
                assert_eq!(sys!(dup, from), expected);
                if let (Ok(fd), Some(end)) = (expected, end) {
                    self.ends.insert(fd, end);
                }
            }
            OnFiles::DupTo(from, to) => {
                let end = self.ends.get(&from).copied();
                let expected = match end {
                    _ if from == to => Err(Errno::EINVAL),
                    Some(_) => Ok(to),
                    None => Err(Errno::EBADF),
                };
                assert_eq!(sys!(dup3, from, to, 0), expected);
                if expected.is_ok() {
                    self.ends.extend(end.map(|end| (to, end)));
                }
            }
            OnFiles::Close(fd) => {
                let expected = self.ends.remove(&fd).map(|_| 0).ok_or(Errno::EBADF);
                assert_eq!(sys!(close, fd), expected);
            }
            OnFiles::Write(fd, len) => self.write(fd, len),
            OnFiles::Read(fd, len) => self.read(fd, len),
        }
        // Bytes in a pipe without a reader are lost, and do not return with a new reader.
        for pipe in 0..self.pipes.len() {
            if !self.has((pipe, false)) {
                self.pipes[pipe].clear();
            }
        }
    }
}

#[test]
fn descriptors_and_pipes_do_as_their_model() {
    each(on_files(), |steps| {
        let ignore = put(&[1usize, 0, 0, 0].map(usize::to_ne_bytes).concat());
        sys!(rt_sigaction, SIGPIPE, ignore, 0, 8).unwrap();
        let mut files = Files::default();
        steps.into_iter().for_each(|step| files.step(step));
    });
}

#[derive(Clone, Debug)]
enum OnMemory {
    Map(usize, usize, bool),
    Unmap(usize, usize),
    Protect(usize, usize, bool),
    Move(usize, usize),
    Poke(usize, u8),
    Peek(usize),
    /// A child changes everything it can.
    Fork,
}

const PAGES: usize = 24;
const PAGE: usize = 4096;
const WINDOW: usize = 0x3000_0000_0000;

fn on_memory() -> impl Strategy<Value = Vec<OnMemory>> {
    let (page, len) = (0..PAGES, 1..6usize);
    let one = prop_oneof![
        (page.clone(), len.clone(), any::<bool>())
            .prop_map(|(at, len, w)| OnMemory::Map(at, len, w)),
        (page.clone(), len.clone()).prop_map(|(at, len)| OnMemory::Unmap(at, len)),
        (page.clone(), len, any::<bool>()).prop_map(|(at, len, w)| OnMemory::Protect(at, len, w)),
        (page.clone(), page.clone()).prop_map(|(from, to)| OnMemory::Move(from, to)),
        (page.clone(), any::<u8>()).prop_map(|(at, byte)| OnMemory::Poke(at, byte)),
        page.prop_map(OnMemory::Peek),
        Just(OnMemory::Fork),
    ];
    prop::collection::vec(one, 1..40)
}

/// Pages: whether they may be written, and their content.
struct Pages([Option<(bool, u8)>; PAGES]);

fn rights(write: bool) -> u32 {
    if write {
        PROT_READ | PROT_WRITE
    } else {
        PROT_READ
    }
}

impl Pages {
    fn poke(&mut self, at: usize, byte: u8) {
        let expected = match &mut self.0[at] {
            Some((true, held)) => {
                *held = byte;
                Ok(())
            }
            _ => Err(Errno::EFAULT),
        };
        assert_eq!(poke(WINDOW + at * PAGE + 7, &[byte]), expected);
    }

    fn check(&self, at: usize) {
        let to = reserve(1);
        let address = WINDOW + at * PAGE + 7;
        // The kernel reads it: a part of a vector of itself.
        let parts = |at: usize| put(&[at, 1].map(usize::to_ne_bytes).concat());
        let own = sys!(getpid).unwrap();
        let read = sys!(process_vm_readv, own, parts(to), 1, parts(address), 1, 0);
        match self.0[at] {
            Some((_, byte)) => assert_eq!((read, peek(to, 1)), (Ok(1), vec![byte])),
            None => assert_eq!(read, Err(Errno::EFAULT)),
        }
    }

    fn step(&mut self, step: OnMemory) {
        match step {
            OnMemory::Map(at, len, write) => {
                let len = len.min(PAGES - at);
                let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
                let address = WINDOW + at * PAGE;
                let mapped = sys!(mmap, address, len * PAGE, rights(write), flags, -1, 0);
                assert_eq!(mapped, Ok(address));
                self.0[at..at + len].fill(Some((write, 0)));
            }
            OnMemory::Unmap(at, len) => {
                let len = len.min(PAGES - at);
                assert_eq!(sys!(munmap, WINDOW + at * PAGE, len * PAGE), Ok(0));
                self.0[at..at + len].fill(None);
            }
            OnMemory::Protect(at, len, write) => {
                let len = len.min(PAGES - at);
                let there = self.0[at..at + len]
                    .iter()
                    .take_while(|page| page.is_some());
                let there = there.count();
                let expected = if there == len {
                    Ok(0)
                } else {
                    Err(Errno::ENOMEM)
                };
                let address = WINDOW + at * PAGE;
                assert_eq!(sys!(mprotect, address, len * PAGE, rights(write)), expected);
                for page in self.0[at..at + there].iter_mut().flatten() {
                    page.0 = write;
                }
            }
            OnMemory::Move(from, to) if from != to => {
                let (old, new) = (WINDOW + from * PAGE, WINDOW + to * PAGE);
                let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
                let moved = sys!(mremap, old, PAGE, PAGE, flags, new);
                match self.0[from].take() {
                    Some(page) => {
                        assert_eq!(moved, Ok(new));
                        self.0[to] = Some(page);
                    }
                    None => assert_eq!(moved, Err(Errno::EFAULT)),
                }
            }
            OnMemory::Move(..) => {}
            OnMemory::Poke(at, byte) => self.poke(at, byte),
            OnMemory::Peek(at) => self.check(at),
            OnMemory::Fork => {
                let mut copy = Pages(self.0);
                let child = fork(move || {
                    for at in 0..PAGES {
                        copy.check(at);
                        copy.poke(at, 0xcd);
                    }
                    sys!(exit_group, 9).unwrap();
                });
                let status = reserve(4);
                sys!(wait4, child.unwrap(), status, 0, 0).unwrap();
                assert_eq!(peek(status, 2), [0, 9]);
            }
        }
    }
}

#[test]
fn memory_does_as_its_model() {
    each(on_memory(), |steps| {
        let mut pages = Pages([None; PAGES]);
        steps.into_iter().for_each(|step| pages.step(step));
        (0..PAGES).for_each(|at| pages.check(at));
    });
}

#[derive(Clone, Debug)]
enum OnSignals {
    Block(u32),
    Unblock(u32),
    Send(u32),
}

/// Two that are told once however often they are sent, and two of real time.
const SIGNALS: [u32; 4] = [SIGUSR1, SIGUSR2, 34, 35];

fn on_signals() -> impl Strategy<Value = Vec<OnSignals>> {
    let signal = || prop::sample::select(&SIGNALS[..]);
    let one = prop_oneof![
        signal().prop_map(OnSignals::Block),
        signal().prop_map(OnSignals::Unblock),
        signal().prop_map(OnSignals::Send),
    ];
    prop::collection::vec(one, 1..40)
}

#[test]
fn signals_come_as_often_as_their_model_says() {
    each(on_signals(), |steps| {
        let counts: Arc<[AtomicU32; 4]> = Arc::default();
        for (at, &signal) in SIGNALS.iter().enumerate() {
            let counts = counts.clone();
            let address = handler(move || _ = counts[at].fetch_add(1, Relaxed));
            let action = put(&[address, 0, 0, 0].map(usize::to_ne_bytes).concat());
            sys!(rt_sigaction, signal, action, 0, 8).unwrap();
        }
        let place = |signal| SIGNALS.iter().position(|other| *other == signal).unwrap();
        let (mut blocked, mut pending, mut seen) = ([false; 4], [0; 4], [0; 4]);
        for step in steps {
            let (signal, how) = match step {
                OnSignals::Block(signal) => (signal, Some(SIG_BLOCK)),
                OnSignals::Unblock(signal) => (signal, Some(SIG_UNBLOCK)),
                OnSignals::Send(signal) => (signal, None),
            };
            let at = place(signal);
            if let Some(how) = how {
                let set = put(&(1u64 << (signal - 1)).to_ne_bytes());
                sys!(rt_sigprocmask, how, set, 0, 8).unwrap();
                blocked[at] = how == SIG_BLOCK;
            } else {
                sys!(kill, sys!(getpid).unwrap(), signal).unwrap();
                pending[at] = if at < 2 { 1 } else { pending[at] + 1 };
            }
            if !blocked[at] {
                seen[at] += std::mem::take(&mut pending[at]);
            }
            let found: Vec<u32> = counts.iter().map(|count| count.load(Relaxed)).collect();
            assert_eq!(found, seen);
        }
    });
}

#[test]
fn timers_strike_as_often_as_time_says() {
    each((1..50u64, 1..50u64, 0..500u64), |(first, every, sleep)| {
        let ms = |ms: u64| [ms / 1000, ms % 1000 * 1_000_000];
        let timer = sys!(timerfd_create, CLOCK_MONOTONIC, O_NONBLOCK).unwrap();
        let setting = [ms(every), ms(first)].concat();
        let setting: Vec<u8> = setting.into_iter().flat_map(u64::to_ne_bytes).collect();
        sys!(timerfd_settime, timer, 0, &*setting, 0).unwrap();
        sys!(nanosleep, put(&ms(sleep).map(u64::to_ne_bytes).concat()), 0).unwrap();
        let room = reserve(8);
        let least = (sleep + every).saturating_sub(first) / every;
        let found = match sys!(read, timer, room, 8) {
            Ok(_) => u64::from_ne_bytes(peek(room, 8).try_into().unwrap()),
            Err(error) => {
                assert_eq!(error, Errno::EAGAIN);
                0
            }
        };
        // A call takes less than a millisecond, which may be the one that was missing.
        assert!((least..=least + 1).contains(&found), "{found}, not {least}");
    });
}

/// Calls that end the machine or the process, or wait forever.
const LEFT_OUT: [&str; 6] = ["reboot", "exit", "exit_group", "clone", "clone3", "vhangup"];

#[test]
fn any_call_returns_or_ends_its_process_alone() {
    let left_out = LEFT_OUT.map(number);
    let argument = prop_oneof![
        0..8usize,
        any::<usize>(),
        Just(usize::MAX),
        Just(WINDOW),
        Just(WINDOW + PAGE - 4),
        (0..64u32).prop_map(|bit| 1 << bit),
    ];
    let call = (0..470usize, prop::array::uniform6(argument));
    let calls = prop::collection::vec(call, 1..50);
    let calls = calls.prop_map(move |mut calls| {
        calls.retain(|(number, _)| !left_out.contains(number));
        calls
    });
    each(calls, |calls| {
        let child = fork(move || {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
            sys!(mmap, WINDOW, PAGE, rights(true), flags, -1, 0).unwrap();
            for (number, arguments) in calls {
                _ = raw(number, &arguments);
            }
        });
        sys!(
            setitimer,
            ITIMER_REAL,
            put(&[0u64, 0, 60, 0].map(u64::to_ne_bytes).concat()),
            0
        )
        .unwrap();
        let nothing = put(&[handler(|| {}), 0, 0, 0].map(usize::to_ne_bytes).concat());
        sys!(rt_sigaction, SIGALRM, nothing, 0, 8).unwrap();
        let child = child.unwrap();
        if sys!(wait4, child, 0, 0, 0) == Err(Errno::EINTR) {
            sys!(kill, child, SIGKILL).unwrap();
        }
    });
}
