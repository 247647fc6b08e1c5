//! Pages of a file that lie one after the other in memory, changed one by one beside a model.

mod each;

use each::each;
use hosted::*;
use linux_raw_sys::general::*;
use proptest::prelude::*;

const PAGE: usize = 4096;
const RUN: usize = 16;
const PAGES: usize = 3 * RUN;
const WINDOW: usize = 0x4000_0000;

#[derive(Clone, Debug)]
enum Step {
    Map(usize, usize, bool, bool),
    Unmap(usize, usize),
    Protect(usize, usize, bool),
    Discard(usize, usize),
    Move(usize, usize),
    /// The program writes.
    Poke(usize, u8),
    /// Somebody else writes the file.
    Write(usize, u8),
    Punch(usize),
    ReadAll,
    ClearRefs,
    Fork,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..PAGES, 1..2 * RUN, any::<bool>(), any::<bool>())
            .prop_map(|(at, len, shared, write)| Step::Map(at, len, shared, write)),
        (0..3usize, any::<bool>(), any::<bool>()).prop_map(|(run, shared, write)| Step::Map(
            run * RUN,
            RUN,
            shared,
            write
        )),
        (0..PAGES, 1..RUN).prop_map(|(at, len)| Step::Unmap(at, len)),
        (0..PAGES, 1..2 * RUN, any::<bool>())
            .prop_map(|(at, len, write)| Step::Protect(at, len, write)),
        (0..PAGES, 1..2 * RUN).prop_map(|(at, len)| Step::Discard(at, len)),
        (0..PAGES, 0..PAGES).prop_map(|(from, to)| Step::Move(from, to)),
        (0..PAGES, any::<u8>()).prop_map(|(at, byte)| Step::Poke(at, byte)),
        (0..PAGES, any::<u8>()).prop_map(|(at, byte)| Step::Write(at, byte)),
        (0..PAGES).prop_map(Step::Punch),
        Just(Step::ReadAll),
        Just(Step::ClearRefs),
        Just(Step::Fork),
    ];
    prop::collection::vec(step, 1..40)
}

/// A mapped page of the file.
#[derive(Clone, Copy)]
struct Mapped {
    /// Its number in the file.
    number: usize,
    shared: bool,
    write: bool,
    /// What the program wrote to its own copy.
    own: Option<u8>,
}

struct Model {
    fd: usize,
    file: [u8; PAGES],
    window: [Option<Mapped>; PAGES],
}

fn rights(write: bool) -> u32 {
    if write {
        PROT_READ | PROT_WRITE
    } else {
        PROT_READ
    }
}

fn address(at: usize) -> usize {
    WINDOW + at * PAGE
}

impl Model {
    fn new() -> Self {
        let flags = O_RDWR | O_CREAT | O_TRUNC;
        let fd = sys!(openat, AT_FDCWD, "/tmp/runs", flags, 0o600).unwrap();
        let file: [u8; PAGES] = core::array::from_fn(|number| number as u8 + 1);
        let mut bytes = vec![0; PAGES * PAGE];
        file.iter()
            .enumerate()
            .for_each(|(number, byte)| bytes[number * PAGE] = *byte);
        // Away from the window.
        let kind = MAP_PRIVATE | MAP_ANONYMOUS;
        let from = sys!(mmap, 0, bytes.len(), rights(true), kind, -1, 0).unwrap();
        poke(from, &bytes).unwrap();
        assert_eq!(sys!(pwrite64, fd, from, bytes.len(), 0), Ok(bytes.len()));
        sys!(munmap, from, bytes.len()).unwrap();
        Model {
            fd,
            file,
            window: [None; PAGES],
        }
    }

    fn expected(&self, at: usize) -> Option<u8> {
        self.window[at].map(|page| page.own.unwrap_or(self.file[page.number]))
    }

    fn check(&self) {
        for at in 0..PAGES {
            if let Some(byte) = self.expected(at) {
                assert_eq!(peek(address(at), 1), [byte], "page {at}");
            }
            // The kernel reads it, by its own look at the table.
            let parts = |at: usize| put(&[at, 1].map(usize::to_ne_bytes).concat());
            let (own, to) = (sys!(getpid).unwrap(), reserve(1));
            let read = sys!(
                process_vm_readv,
                own,
                parts(to),
                1,
                parts(address(at)),
                1,
                0
            );
            match self.expected(at) {
                Some(byte) => assert_eq!((read, peek(to, 1)), (Ok(1), vec![byte]), "page {at}"),
                None => assert_eq!(read, Err(Errno::EFAULT), "page {at}"),
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Map(at, len, shared, write) => {
                let len = len.min(PAGES - at);
                let kind = if shared { MAP_SHARED } else { MAP_PRIVATE } | MAP_FIXED;
                let (to, size) = (address(at), len * PAGE);
                let mapped = sys!(mmap, to, size, rights(write), kind, self.fd, at * PAGE);
                assert_eq!(mapped, Ok(to));
                for number in at..at + len {
                    self.window[number] = Some(Mapped {
                        number,
                        shared,
                        write,
                        own: None,
                    });
                }
            }
            Step::Unmap(at, len) => {
                let len = len.min(PAGES - at);
                assert_eq!(sys!(munmap, address(at), len * PAGE), Ok(0));
                self.window[at..at + len].fill(None);
            }
            Step::Protect(at, len, write) => {
                let len = len.min(PAGES - at);
                _ = sys!(mprotect, address(at), len * PAGE, rights(write));
                let there = self.window[at..at + len].iter_mut();
                for page in there.take_while(|page| page.is_some()).flatten() {
                    page.write = write;
                }
            }
            Step::Discard(at, len) => {
                let len = len.min(PAGES - at);
                _ = sys!(madvise, address(at), len * PAGE, MADV_DONTNEED);
                for page in self.window[at..at + len].iter_mut().flatten() {
                    page.own = None;
                }
            }
            Step::Move(from, to) if from != to => {
                let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
                let moved = sys!(mremap, address(from), PAGE, PAGE, flags, address(to));
                if let Some(page) = self.window[from].take() {
                    assert_eq!(moved, Ok(address(to)));
                    self.window[to] = Some(page);
                }
            }
            Step::Move(..) => {}
            Step::Poke(at, byte) => {
                let written = poke(address(at), &[byte]);
                match &mut self.window[at] {
                    Some(page) if page.write => {
                        assert_eq!(written, Ok(()));
                        match page.shared {
                            true => self.file[page.number] = byte,
                            false => page.own = Some(byte),
                        }
                    }
                    _ => assert_eq!(written, Err(Errno::EFAULT)),
                }
            }
            Step::Write(number, byte) => {
                assert_eq!(
                    sys!(pwrite64, self.fd, put(&[byte]), 1, number * PAGE),
                    Ok(1)
                );
                self.file[number] = byte;
            }
            Step::Punch(number) => {
                let mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
                sys!(fallocate, self.fd, mode, number * PAGE, PAGE).unwrap();
                self.file[number] = 0;
            }
            Step::ReadAll => {
                (0..PAGES)
                    .filter(|at| self.window[*at].is_some())
                    .for_each(|at| _ = peek(address(at), 1));
            }
            Step::ClearRefs => {
                let refs = sys!(openat, AT_FDCWD, "/proc/self/clear_refs", O_WRONLY).unwrap();
                assert_eq!(sys!(write, refs, "1", 1), Ok(1));
                sys!(close, refs).unwrap();
            }
            Step::Fork => {
                let mut copy = Model { ..*self };
                let child = fork(move || {
                    copy.check();
                    (0..PAGES).for_each(|at| {
                        // What is shared is the parent's too.
                        if copy.window[at].is_none_or(|page| !page.shared) {
                            copy.step(Step::Poke(at, 0xcd));
                        }
                    });
                    copy.check();
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
fn pages_of_runs_do_as_their_model() {
    each(steps(), |steps| {
        let mut model = Model::new();
        for step in steps {
            model.step(step);
        }
        model.check();
        sys!(unlinkat, AT_FDCWD, "/tmp/runs", 0).unwrap();
    });
}
