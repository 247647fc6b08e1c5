//! Files and pipes at the ends of offset and length ranges, compared with models.

mod each;

use std::collections::{BTreeMap, VecDeque};

use each::each;
use hosted::*;
use linux_raw_sys::general::*;
use proptest::prelude::*;

const END: u64 = i64::MAX as u64;
const LEN: usize = 300;

fn open(path: &str, flags: u32) -> usize {
    sys!(openat, AT_FDCWD, path, flags, 0o666).unwrap()
}

/// A new file without a name.
fn file() -> usize {
    sys!(memfd_create, "file", 0).unwrap()
}

#[derive(Clone, Debug)]
enum OnFile {
    Write(u64, usize),
    Read(u64, usize),
    Truncate(u64),
    Copy(u64, u64, usize),
}

/// Small offsets, offsets about a page, and the last possible ones.
fn place() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 0..40u64,
        2 => 4000..4200u64,
        1 => END - 40..=END,
    ]
}

/// An offset, or one beyond the end of the largest file.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        10 => place(),
        1 => prop::sample::select(vec![END + 1, u64::MAX - 1, u64::MAX]),
    ]
}

fn on_file() -> impl Strategy<Value = Vec<OnFile>> {
    let len = || 0..LEN;
    let count = prop_oneof![4 => len(), 1 => Just(isize::MAX as usize), 1 => Just(usize::MAX)];
    let one = prop_oneof![
        (offset(), len()).prop_map(|(at, len)| OnFile::Write(at, len)),
        (offset(), len()).prop_map(|(at, len)| OnFile::Read(at, len)),
        offset().prop_map(OnFile::Truncate),
        (0..4200u64, place(), count).prop_map(|(from, to, len)| OnFile::Copy(from, to, len)),
        // Adjacent ranges, or nearly adjacent.
        (0..40u64, 0..3u64, 1..9usize).prop_map(|(from, more, len)| {
            OnFile::Copy(from, from + len as u64 + more - 1, len)
        }),
        // The largest lengths, from the start and to the start.
        (0..3u64, 0..3u64).prop_map(|(from, to)| OnFile::Copy(from, to, usize::MAX - 1)),
        (0..40u64).prop_map(|from| OnFile::Copy(from, END, 0)),
    ];
    prop::collection::vec(one, 1..30)
}

/// The bytes that are not zero, and the size.
#[derive(Default)]
struct Content {
    bytes: BTreeMap<u64, u8>,
    size: u64,
    next: u8,
}

/// EINVAL if a transfer begins or ends outside.
fn check(at: u64, len: usize) -> Result<(), Errno> {
    let end = i64::try_from(at).ok();
    let end = end.and_then(|at| at.checked_add(len as i64));
    end.map(|_| ()).ok_or(Errno::EINVAL)
}

impl Content {
    fn set(&mut self, at: u64, bytes: &[u8]) {
        for (at, &byte) in (at..).zip(bytes) {
            self.bytes.insert(at, byte);
            self.size = self.size.max(at + 1);
        }
    }

    fn get(&self, at: u64, len: usize) -> Vec<u8> {
        let len = (len as u64).min(self.size.saturating_sub(at));
        let byte = |at| self.bytes.get(&at).copied().unwrap_or(0);
        (at..at + len).map(byte).collect()
    }

    /// The length of the copy.
    fn copy(&mut self, from: u64, to: u64, len: usize) -> Result<usize, Errno> {
        if from.max(to).checked_add(len as u64).is_none() {
            return Err(Errno::EOVERFLOW);
        }
        let len = (len as u64).min(self.size.saturating_sub(from));
        if to == END {
            return Err(Errno::EFBIG);
        }
        let len = len.min(END - to);
        if from < to + len && to < from + len {
            return Err(Errno::EINVAL);
        }
        let bytes = self.get(from, len as usize);
        self.set(to, &bytes);
        Ok(bytes.len())
    }

    fn step(&mut self, fd: usize, step: OnFile) {
        match step {
            OnFile::Write(at, len) => {
                self.next += 1;
                let bytes: Vec<u8> = (0..len).map(|at| at as u8 ^ self.next).collect();
                let written = sys!(pwrite64, fd, &*bytes, len, at);
                assert_eq!(written, check(at, len).map(|()| len));
                if written.is_ok() {
                    self.set(at, &bytes);
                }
            }
            OnFile::Read(at, len) => {
                let room = reserve(LEN);
                let read = sys!(pread64, fd, room, len, at).map(|count| peek(room, count));
                assert_eq!(read, check(at, len).map(|()| self.get(at, len)));
            }
            OnFile::Truncate(size) => {
                assert_eq!(sys!(ftruncate, fd, size), check(size, 0).map(|()| 0));
                if size <= END {
                    self.bytes.retain(|at, _| *at < size);
                    self.size = size;
                }
            }
            // A long copy is skipped, as it would take too much time.
            OnFile::Copy(from, _, len) if self.size.saturating_sub(from).min(len as u64) > 5000 => {
            }
            OnFile::Copy(from, to, len) => {
                let places = [from, to].map(|at| put(&at.to_ne_bytes()));
                let copied = sys!(copy_file_range, fd, places[0], fd, places[1], len, 0);
                assert_eq!(copied, self.copy(from, to, len));
            }
        }
        let room = reserve(1024);
        sys!(fstat, fd, room).unwrap();
        // st_size of include/uapi/asm-generic/stat.h.
        assert_eq!(peek(room + 48, 8), self.size.to_ne_bytes());
    }
}

#[test]
fn a_file_is_as_its_model_to_its_last_byte() {
    each(on_file(), |steps| {
        let fd = file();
        let mut content = Content::default();
        steps.into_iter().for_each(|step| content.step(fd, step));
    });
}

#[test]
fn allocations_end_where_offsets_do() {
    run(|| {
        let fd = file();
        let allocate = |at: i64, len: i64| sys!(fallocate, fd, 0, at, len);
        assert_eq!(allocate(-1, 1), Err(Errno::EINVAL));
        assert_eq!(allocate(0, 0), Err(Errno::EINVAL));
        assert_eq!(allocate(i64::MAX, 1), Err(Errno::EFBIG));
        assert_eq!(allocate(1, i64::MAX), Err(Errno::EFBIG));
        assert_eq!(allocate(0, 4096), Ok(0));
    });
}

#[test]
fn pieces_have_a_number_a_length_and_a_sum() {
    let len = prop::sample::select(vec![
        0,
        1,
        7,
        1 << 48,
        isize::MAX as usize,
        isize::MAX as usize + 1,
        usize::MAX,
    ]);
    each(prop::collection::vec(len, 0..4), |lens| {
        let pair = reserve(8);
        sys!(pipe2, pair, O_NONBLOCK).unwrap();
        let [from, to] = [0, 4].map(|at| peek(pair + at, 1)[0] as usize);
        sys!(write, to, "0123456789", 10).unwrap();
        let pieces: Vec<u8> = lens
            .iter()
            .flat_map(|len| [reserve(16), *len])
            .flat_map(usize::to_ne_bytes)
            .collect();
        let expected = if lens.iter().any(|len| isize::try_from(*len).is_err()) {
            Err(Errno::EINVAL)
        } else if lens.len() > 1 && lens.iter().any(|len| *len > 7) {
            // Longer than any program's memory.
            Err(Errno::EFAULT)
        } else {
            Ok(lens.iter().sum::<usize>().min(10))
        };
        let pieces = put(&pieces);
        assert_eq!(sys!(readv, from, pieces, lens.len()), expected);
    });
    run(|| {
        let (fd, none) = (file(), put(&[0; 16 * 1025]));
        assert_eq!(sys!(writev, fd, none, 1024), Ok(0));
        assert_eq!(sys!(writev, fd, none, 1025), Err(Errno::EINVAL));
        assert_eq!(sys!(writev, fd, none, usize::MAX), Err(Errno::EINVAL));
    });
}

#[derive(Clone, Debug)]
enum OnPipes {
    Write(usize, usize),
    Read(usize, usize),
    Splice(usize, usize, usize),
    Tee(usize, usize, usize),
}

fn on_pipes() -> impl Strategy<Value = Vec<OnPipes>> {
    let len = || prop_oneof![4 => 0..60usize, 1 => Just(usize::MAX)];
    let two = || (0..2usize, 0..2usize, len());
    let one = prop_oneof![
        (0..2usize, 1..60usize).prop_map(|(pipe, len)| OnPipes::Write(pipe, len)),
        (0..2usize, 0..60usize).prop_map(|(pipe, len)| OnPipes::Read(pipe, len)),
        two().prop_map(|(from, to, len)| OnPipes::Splice(from, to, len)),
        two().prop_map(|(from, to, len)| OnPipes::Tee(from, to, len)),
    ];
    // Few enough that no pipe becomes full.
    prop::collection::vec(one, 1..12)
}

#[test]
fn splice_and_tee_move_what_there_is() {
    each(on_pipes(), |steps| {
        let ends = [(); 2].map(|()| {
            let pair = reserve(8);
            sys!(pipe2, pair, O_NONBLOCK).unwrap();
            [0, 4].map(|at| peek(pair + at, 1)[0] as usize)
        });
        let mut held = [(); 2].map(|()| VecDeque::new());
        let mut next = 0u8;
        for step in steps {
            match step {
                OnPipes::Write(pipe, len) => {
                    let bytes: Vec<u8> = (0..len).map(|at| at as u8 ^ next).collect();
                    next = next.wrapping_add(0x40);
                    assert_eq!(sys!(write, ends[pipe][1], &*bytes, len), Ok(len));
                    held[pipe].extend(bytes);
                }
                OnPipes::Read(pipe, len) => {
                    let room = reserve(64);
                    let read = sys!(read, ends[pipe][0], room, len);
                    if len > 0 && held[pipe].is_empty() {
                        assert_eq!(read, Err(Errno::EAGAIN));
                        continue;
                    }
                    let len = len.min(held[pipe].len());
                    let bytes: Vec<u8> = held[pipe].drain(..len).collect();
                    assert_eq!(read.map(|count| peek(room, count)), Ok(bytes));
                }
                OnPipes::Splice(from, to, len) | OnPipes::Tee(from, to, len) => {
                    let moves = matches!(step, OnPipes::Splice(..));
                    let (input, out) = (ends[from][0], ends[to][1]);
                    let done = match moves {
                        true => sys!(splice, input, 0, out, 0, len, SPLICE_F_NONBLOCK),
                        false => sys!(tee, input, out, len, SPLICE_F_NONBLOCK),
                    };
                    let expected = match len {
                        0 => Ok(0),
                        _ if from == to => Err(Errno::EINVAL),
                        _ if held[from].is_empty() => Err(Errno::EAGAIN),
                        _ => Ok(len.min(held[from].len())),
                    };
                    assert_eq!(done, expected);
                    let bytes: Vec<u8> =
                        held[from].iter().copied().take(done.unwrap_or(0)).collect();
                    if moves {
                        held[from].drain(..bytes.len());
                    }
                    held[to].extend(bytes);
                }
            }
        }
    });
}

const SPLICE_F_NONBLOCK: u32 = 2;

/// A lock of an open file: its owner, its kind, its start and its length.
type Lock = (usize, u32, i64, i64);

fn lock() -> impl Strategy<Value = Lock> {
    let start = prop_oneof![4 => -2..8i64, 2 => i64::MAX - 4..=i64::MAX, 1 => Just(i64::MIN)];
    let len = prop_oneof![
        6 => -3..6i64,
        1 => prop::sample::select(vec![i64::MAX, i64::MAX - 4, i64::MIN, i64::MIN + 1]),
    ];
    let kind = prop::sample::select(vec![F_RDLCK, F_WRLCK, F_UNLCK]);
    (0..2usize, kind, start, len)
}

/// The first byte and the last of a lock (fcntl_locking(2), POSIX).
fn span(start: i64, len: i64) -> Result<(i64, i64), Errno> {
    if start < 0 {
        return Err(Errno::EINVAL);
    }
    let last = start as i128 + len as i128 - 1;
    match len {
        0 => Ok((start, i64::MAX)),
        1.. if last > i64::MAX as i128 => Err(Errno::EOVERFLOW),
        1.. => Ok((start, last as i64)),
        _ if last + 1 < 0 => Err(Errno::EINVAL),
        _ => Ok((start + len, start - 1)),
    }
}

#[test]
fn locks_reach_to_the_last_byte() {
    each(prop::collection::vec(lock(), 1..40), |locks| {
        let own = file();
        let path = format!("/proc/self/fd/{own}");
        let fds = [open(&path, O_RDWR), open(&path, O_RDWR)];
        // The kind of lock that each of the two files has on each byte that a case can name.
        let places: Vec<i64> = (0..14).chain(i64::MAX - 10..=i64::MAX).collect();
        let mut held = [vec![F_UNLCK; places.len()], vec![F_UNLCK; places.len()]];
        for (who, kind, start, len) in locks {
            let mut block = Vec::new();
            block.extend((kind as u16).to_ne_bytes());
            block.extend([0; 6]);
            block.extend([start, len, 0].map(i64::to_ne_bytes).concat());
            let span = span(start, len);
            let within = |at: &usize| span.is_ok_and(|(a, b)| (a..=b).contains(&places[*at]));
            let hit: Vec<usize> = (0..places.len()).filter(within).collect();
            let met = hit.iter().any(|at| match held[1 - who][*at] {
                F_WRLCK => kind != F_UNLCK,
                F_RDLCK => kind == F_WRLCK,
                _ => false,
            });
            let expected = match span {
                Ok(_) if met => Err(Errno::EAGAIN),
                other => other.map(|_| 0),
            };
            let result = sys!(fcntl, fds[who], F_OFD_SETLK, &*block);
            assert_eq!(result, expected, "{who} {kind} {start} {len}");
            if expected.is_ok() {
                hit.into_iter().for_each(|at| held[who][at] = kind);
            }
        }
    });
}

/// Adds seals; the second half of each case checks their effect.
#[test]
fn seals_hold() {
    const ALL: u32 = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
    each((0..=ALL, 0..=ALL), |(first, second)| {
        let fd = sys!(memfd_create, "sealed", MFD_ALLOW_SEALING).unwrap();
        sys!(ftruncate, fd, 8192).unwrap();
        let mut seals = 0;
        for more in [first, second] {
            let refused = seals & F_SEAL_SEAL != 0;
            let expected = if refused { Err(Errno::EPERM) } else { Ok(0) };
            assert_eq!(sys!(fcntl, fd, F_ADD_SEALS, more), expected);
            seals |= if refused { 0 } else { more };
            assert_eq!(sys!(fcntl, fd, F_GET_SEALS, 0), Ok(seals as usize));
        }
        let allowed = |seal: u32, done: usize| match seals & seal {
            0 => Ok(done),
            _ => Err(Errno::EPERM),
        };
        let writes = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
        assert_eq!(sys!(pwrite64, fd, "x", 1, 0), allowed(writes, 1));
        assert_eq!(sys!(ftruncate, fd, 8192), Ok(0));
        assert_eq!(sys!(ftruncate, fd, 8193), allowed(F_SEAL_GROW, 0));
        assert_eq!(sys!(ftruncate, fd, 100), allowed(F_SEAL_SHRINK, 0));
        let shared = sys!(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0).map(|_| 0);
        assert_eq!(shared, allowed(writes, 0));
        assert!(sys!(mmap, 0, 4096, PROT_READ, MAP_SHARED, fd, 0).is_ok());
        assert!(sys!(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0).is_ok());
    });
}

#[test]
fn no_file_grows_beyond_its_limit() {
    const RLIMIT_FSIZE: u32 = 1;
    let limits = (1..300u64).prop_flat_map(|limit| {
        let at = prop_oneof![0..400u64, limit - 1..=limit + 1];
        (Just(limit), at, 1..300usize)
    });
    each(limits, |(limit, at, len)| {
        let ignore = put(&[1usize, 0, 0, 0].map(usize::to_ne_bytes).concat());
        sys!(rt_sigaction, SIGXFSZ, ignore, 0, 8).unwrap();
        let fd = open("/tmp/limited", O_RDWR | O_CREAT | O_TRUNC);
        let limits = put(&[limit, limit].map(u64::to_ne_bytes).concat());
        sys!(prlimit64, 0, RLIMIT_FSIZE, limits, 0).unwrap();
        let expected = match limit.checked_sub(at) {
            None | Some(0) => Err(Errno::EFBIG),
            Some(room) => Ok(len.min(room as usize)),
        };
        assert_eq!(sys!(pwrite64, fd, &[1; 300][..], len, at), expected);
        let cut = if at > limit { Err(Errno::EFBIG) } else { Ok(0) };
        assert_eq!(sys!(ftruncate, fd, at), cut);
    });
}
