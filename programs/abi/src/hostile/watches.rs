//! Members of epoll sets: the limit is per user, not per set.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::become_user;
use crate::{error, in_child, tell_ok};

const LIMIT: &str = "/proc/sys/fs/epoll/max_user_watches";

/// Runs this part.
pub fn run() {
    let before = fs::read_to_string(LIMIT).unwrap_or_default();
    println!(
        "{}",
        before.trim().parse().is_ok_and(|limit: usize| limit > 1000)
    );
    tell_ok("limit", fs::write(LIMIT, "100").is_ok());
    in_child(|| {
        become_user();
        let sets = [(); 2].map(|()| set());
        let files: Vec<_> = (0..100).map(|_| eventfd()).collect();
        let more = eventfd();
        let added = files
            .iter()
            .enumerate()
            .filter(|(index, file)| add(&sets[index % 2], file));
        println!("added: {}", added.count());
        tell_ok("one more", add(&sets[0], &more));
        tell_ok("one less", remove(&sets[1], &files[1]));
        tell_ok("one more", add(&sets[0], &more));
        drop(files);
        tell_ok("of closed files", add(&sets[1], &eventfd()));
        drop(sets);
        tell_ok("after all", add(&set(), &eventfd()));
    });
    tell_ok("limit", fs::write(LIMIT, before).is_ok());
}

fn owned(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{}", error());
    // SAFETY: the descriptor is new, and nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn set() -> OwnedFd {
    // SAFETY: creates a descriptor.
    owned(unsafe { libc::epoll_create1(0) })
}

fn eventfd() -> OwnedFd {
    // SAFETY: creates a descriptor.
    owned(unsafe { libc::eventfd(0, 0) })
}

fn control(set: &OwnedFd, operation: i32, file: &OwnedFd) -> bool {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: the event is live.
    unsafe { libc::epoll_ctl(set.as_raw_fd(), operation, file.as_raw_fd(), &mut event) == 0 }
}

fn add(set: &OwnedFd, file: &OwnedFd) -> bool {
    control(set, libc::EPOLL_CTL_ADD, file)
}

fn remove(set: &OwnedFd, file: &OwnedFd) -> bool {
    control(set, libc::EPOLL_CTL_DEL, file)
}
