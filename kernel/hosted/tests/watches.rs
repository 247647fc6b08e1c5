//! epoll, compared with a model of the events that it reports.

mod each;

use each::each;
use hosted::*;
use linux_raw_sys::general::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Drain,
    Wait,
    Rearm,
}

fn event(events: u32) -> usize {
    // The structure is packed on none of these architectures.
    put(&[u64::from(events), 7].map(u64::to_ne_bytes).concat())
}

#[test]
fn epoll_tells_once_or_as_long_as_it_is_so() {
    let step = prop::sample::select(vec![
        Step::Write,
        Step::Drain,
        Step::Wait,
        Step::Wait,
        Step::Rearm,
    ]);
    let flags = prop::sample::select(vec![0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT]);
    each(
        (flags, prop::collection::vec(step, 1..30)),
        |(flags, steps)| {
            let pair = reserve(8);
            sys!(pipe2, pair, O_NONBLOCK).unwrap();
            let [from, to] = [0, 4].map(|at| peek(pair + at, 1)[0] as usize);
            let set = sys!(epoll_create1, 0).unwrap();
            sys!(epoll_ctl, set, EPOLL_CTL_ADD, from, event(EPOLLIN | flags)).unwrap();
            // Whether bytes are there, whether it is armed, whether something arrived since its
            // last report.
            let (mut held, mut asked, mut news) = (0, true, false);
            let room = reserve(64);
            for step in steps {
                match step {
                    Step::Write => {
                        sys!(write, to, "x", 1).unwrap();
                        held += 1;
                        news = true;
                    }
                    Step::Drain => {
                        let expected = if held > 0 {
                            Ok(held)
                        } else {
                            Err(Errno::EAGAIN)
                        };
                        assert_eq!(sys!(read, from, room, 64), expected);
                        held = 0;
                    }
                    Step::Rearm => {
                        sys!(epoll_ctl, set, EPOLL_CTL_MOD, from, event(EPOLLIN | flags)).unwrap();
                        (asked, news) = (true, true);
                    }
                    Step::Wait => {
                        let edge = flags & EPOLLET != 0;
                        let tells = held > 0 && asked && (news || !edge);
                        assert_eq!(sys!(epoll_pwait, set, room, 4, 0, 0, 8), Ok(tells.into()));
                        if tells {
                            asked = flags & EPOLLONESHOT == 0;
                            assert_eq!(peek(room, 4), EPOLLIN.to_ne_bytes());
                            assert_eq!(peek(room + 8, 8), 7u64.to_ne_bytes());
                        }
                        news = false;
                    }
                }
            }
        },
    );
}

#[test]
fn every_process_of_a_group_gets_sigio_of_every_file() {
    const FILES: usize = 3;
    run(|| {
        let set = || put(&(1u64 << (SIGIO - 1)).to_ne_bytes());
        sys!(rt_sigprocmask, SIG_BLOCK, set(), 0, 8).unwrap();
        sys!(setpgid, 0, 0).unwrap();
        let group = sys!(getpid).unwrap();
        let pair = reserve(8);
        sys!(pipe2, pair, 0).unwrap();
        let [from, to] = [0, 4].map(|at| peek(pair + at, 1)[0] as usize);
        let path = format!("/proc/self/fd/{from}");
        for _ in 0..FILES {
            let file = sys!(openat, AT_FDCWD, &*path, O_RDONLY, 0).unwrap();
            sys!(fcntl, file, F_SETOWN, group.wrapping_neg()).unwrap();
            sys!(fcntl, file, F_SETSIG, SIGIO as usize).unwrap();
            sys!(fcntl, file, F_SETFL, FASYNC).unwrap();
        }
        let wait = move || {
            let time = put(&[60u64, 0].map(u64::to_ne_bytes).concat());
            assert_eq!(sys!(rt_sigtimedwait, set(), 0, time, 8), Ok(SIGIO as usize));
        };
        let child = fork(wait).unwrap();
        sys!(write, to, "x", 1).unwrap();
        wait();
        let status = reserve(4);
        assert_eq!(sys!(wait4, child, status, 0, 0), Ok(child));
        assert_eq!(peek(status, 4), [0; 4]);
    });
}
