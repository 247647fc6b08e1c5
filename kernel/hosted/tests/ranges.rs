//! Addresses and times at the ends of their ranges.

use hosted::*;
use linux_raw_sys::general::*;

const PAGE: usize = 4096;
/// The first address beyond any program's memory.
const END: usize = 1 << 47;
const RW: u32 = PROT_READ | PROT_WRITE;

fn map(at: usize, len: usize, flags: u32) -> Result<usize, Errno> {
    sys!(
        mmap,
        at,
        len,
        RW,
        MAP_PRIVATE | MAP_ANONYMOUS | flags,
        -1,
        0
    )
}

/// Lengths that, as pages, exceed the address space.
const LONG: [usize; 4] = [END, isize::MAX as usize, usize::MAX - PAGE, usize::MAX];

#[test]
fn mappings_end_with_the_addresses() {
    run(|| {
        assert_eq!(map(0, 0, 0), Err(Errno::EINVAL));
        for len in LONG {
            assert_eq!(map(0, len, 0), Err(Errno::ENOMEM), "{len:x}");
            assert_eq!(
                map(PAGE << 10, len, MAP_FIXED),
                Err(Errno::ENOMEM),
                "{len:x}"
            );
        }
        let last = END - PAGE;
        assert_eq!(map(last, 2 * PAGE, MAP_FIXED), Err(Errno::ENOMEM));
        assert_eq!(map(END, PAGE, MAP_FIXED), Err(Errno::ENOMEM));
        assert_eq!(map(last + 1, PAGE, MAP_FIXED), Err(Errno::EINVAL));
        assert_eq!(map(last, PAGE, MAP_FIXED), Ok(last));
        assert_eq!(map(last, 1, MAP_FIXED_NOREPLACE), Err(Errno::EEXIST));
        assert_eq!(poke(last + PAGE - 1, b"x"), Ok(()));
        assert_eq!(poke(last + PAGE - 1, b"xy"), Err(Errno::EFAULT));

        assert_eq!(sys!(munmap, last, 2 * PAGE), Err(Errno::EINVAL));
        assert_eq!(sys!(munmap, last, 0), Err(Errno::EINVAL));
        assert_eq!(sys!(munmap, last + 1, PAGE), Err(Errno::EINVAL));
        assert_eq!(sys!(munmap, END, PAGE), Err(Errno::EINVAL));
        for len in LONG {
            assert_eq!(sys!(munmap, last, len), Err(Errno::EINVAL), "{len:x}");
            assert_eq!(sys!(mprotect, last, len, RW), Err(Errno::ENOMEM), "{len:x}");
        }
        assert_eq!(sys!(mprotect, last, 2 * PAGE, RW), Err(Errno::ENOMEM));
        assert_eq!(sys!(mprotect, last, 0, RW), Ok(0));
        assert_eq!(sys!(mprotect, last, PAGE, PROT_READ), Ok(0));
        assert_eq!(poke(last, b"x"), Err(Errno::EFAULT));
        assert_eq!(sys!(munmap, last, PAGE), Ok(0));
    });
}

#[test]
fn moves_stay_within_the_addresses() {
    run(|| {
        let at = map(0, 4 * PAGE, 0).unwrap();
        let last = END - PAGE;
        let remap = |old, new, flags, to| sys!(mremap, at, old, new, flags, to);
        let fixed = MREMAP_MAYMOVE | MREMAP_FIXED;
        assert_eq!(remap(PAGE, 0, 0, 0), Err(Errno::EINVAL));
        assert_eq!(sys!(mremap, at + 1, PAGE, PAGE, 0, 0), Err(Errno::EINVAL));
        assert_eq!(
            remap(5 * PAGE, 6 * PAGE, MREMAP_MAYMOVE, 0),
            Err(Errno::EFAULT)
        );
        assert_eq!(remap(PAGE, PAGE, MREMAP_FIXED, last), Err(Errno::EINVAL));
        assert_eq!(remap(PAGE, 2 * PAGE, fixed, last), Err(Errno::EINVAL));
        assert_eq!(remap(PAGE, PAGE, fixed, last + 1), Err(Errno::EINVAL));
        assert_eq!(
            remap(2 * PAGE, 2 * PAGE, fixed, at + PAGE),
            Err(Errno::EINVAL)
        );
        assert_eq!(remap(2 * PAGE, PAGE, fixed, at + PAGE), Err(Errno::EINVAL));
        for len in [END, isize::MAX as usize, usize::MAX - PAGE] {
            let grown = remap(4 * PAGE, len, MREMAP_MAYMOVE, 0);
            assert!(
                matches!(grown, Err(Errno::ENOMEM | Errno::EINVAL)),
                "{len:x}"
            );
        }
        poke(at + PAGE, b"moved").unwrap();
        assert_eq!(sys!(mremap, at + PAGE, PAGE, PAGE, fixed, last), Ok(last));
        assert_eq!(peek(last, 5), b"moved");
        assert_eq!(poke(at + PAGE, b"x"), Err(Errno::EFAULT));
        // Shorter, and longer again where there is room.
        assert_eq!(
            sys!(mremap, at + 2 * PAGE, 2 * PAGE, PAGE, 0, 0),
            Ok(at + 2 * PAGE)
        );
        assert_eq!(poke(at + 3 * PAGE, b"x"), Err(Errno::EFAULT));
        assert_eq!(
            sys!(mremap, at + 2 * PAGE, PAGE, 2 * PAGE, 0, 0),
            Ok(at + 2 * PAGE)
        );
        assert_eq!(sys!(mremap, at, PAGE, 3 * PAGE, 0, 0), Err(Errno::ENOMEM));
    });
}

#[test]
fn a_file_is_mapped_no_further_than_offsets_go() {
    run(|| {
        let fd = sys!(memfd_create, "mapped", 0).unwrap();
        let map = |len: usize, at: usize| sys!(mmap, 0, len, PROT_READ, MAP_SHARED, fd, at);
        assert_eq!(map(PAGE, 1), Err(Errno::EINVAL));
        assert_eq!(map(2 * PAGE, usize::MAX - PAGE + 1), Err(Errno::EOVERFLOW));
        assert!(map(PAGE, PAGE).is_ok());
    });
}

/// A time of seconds and nanoseconds.
fn time(seconds: i64, ns: i64) -> usize {
    put(&[seconds, ns].map(i64::to_ne_bytes).concat())
}

#[test]
fn times_have_fewer_nanoseconds_than_a_second() {
    run(|| {
        let pair = reserve(8);
        sys!(pipe2, pair, 0).unwrap();
        let timer = sys!(timerfd_create, CLOCK_MONOTONIC, 0).unwrap();
        let poll = put(&[peek(pair, 4), vec![1, 0, 0, 0]].concat());
        let word = put(&[0; 4]);
        let set = put(&(1u64 << (SIGUSR1 - 1)).to_ne_bytes());
        sys!(rt_sigprocmask, SIG_BLOCK, set, 0, 8).unwrap();
        let bad = [
            (0, -1),
            (0, 1_000_000_000),
            (-1, 0),
            (0, i64::MAX),
            (i64::MIN, 0),
        ];
        let good = [(0, 0), (0, 999_999_999), (1, 0)];
        for (seconds, ns) in bad.into_iter().chain(good) {
            let at = time(seconds, ns);
            let ok = good.contains(&(seconds, ns));
            let expected = |done| if ok { done } else { Err(Errno::EINVAL) };
            let what = format!("{seconds} {ns}");
            assert_eq!(sys!(nanosleep, at, 0), expected(Ok(0)), "{what}");
            assert_eq!(
                sys!(clock_nanosleep, 1, 0, at, 0),
                expected(Ok(0)),
                "{what}"
            );
            assert_eq!(sys!(ppoll, poll, 1, at, 0, 8), expected(Ok(0)), "{what}");
            let waited = sys!(futex, word, FUTEX_WAIT, 0, at, 0, 0);
            assert_eq!(waited, expected(Err(Errno::ETIMEDOUT)), "{what}");
            let came = sys!(rt_sigtimedwait, set, 0, at, 8);
            assert_eq!(came, expected(Err(Errno::EAGAIN)), "{what}");
            let armed = put(&[0, 0, seconds, ns].map(i64::to_ne_bytes).concat());
            assert_eq!(
                sys!(timerfd_settime, timer, 0, armed, 0),
                expected(Ok(0)),
                "{what}"
            );
        }
        // An endless time is valid.
        let long = put(&[0, 0, i64::MAX, 999_999_999].map(i64::to_ne_bytes).concat());
        assert_eq!(sys!(timerfd_settime, timer, 0, long, 0), Ok(0));
    });
}

const FUTEX_WAIT: u32 = 0;
