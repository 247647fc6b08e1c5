//! Large epoll sets and many inotify watches.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::{fs, ptr};

use super::{EACH, Row, among};
use crate::meter::{Done, Meter};
use crate::sys::{call, eventfd, many, name, owned};

pub const ROWS: &[Row] = &[
    among(
        "epoll_add",
        10_000,
        add,
        "EPOLL_CTL_ADD to a set of N that are not ready",
    ),
    among(
        "epoll_del",
        10_000,
        del,
        "EPOLL_CTL_DEL from a set of N that are not ready",
    ),
    among(
        "epoll_del_ready",
        10_000,
        del_ready,
        "EPOLL_CTL_DEL from a set of N that are ready",
    ),
    among(
        "epoll_mod",
        10_000,
        modify,
        "EPOLL_CTL_MOD of one of N that are not ready",
    ),
    among(
        "epoll_wait_one",
        10_000,
        wait_one,
        "one of N made ready, awaited and read",
    ),
    among(
        "epoll_wait_all",
        10_000,
        wait_all,
        "epoll_pwait of N that are ready, by event",
    ),
    among(
        "epoll_close_member",
        10_000,
        close_member,
        "a member of N made, added and closed",
    ),
    among(
        "epoll_close",
        10_000,
        close,
        "close of a set of N, by member",
    ),
    among(
        "inotify_add",
        10_000,
        watch,
        "a watch added and removed beside N of an instance",
    ),
    among(
        "inotify_event",
        10_000,
        event,
        "N events of different files read, by event",
    ),
];

/// An epoll set and its members.
struct Set {
    epoll: OwnedFd,
    members: Vec<OwnedFd>,
}

impl Set {
    fn new(number: usize, value: u32) -> io::Result<Self> {
        let epoll = owned(call!(SYS_epoll_create1, 0)?);
        let members = many(number, |_| eventfd(value))?;
        let set = Self { epoll, members };
        set.members
            .iter()
            .try_for_each(|member| set.control(libc::EPOLL_CTL_ADD, member, libc::EPOLLIN))?;
        Ok(set)
    }

    fn control(&self, operation: i32, member: &OwnedFd, events: i32) -> Done {
        let (epoll, fd) = (self.epoll.as_raw_fd(), member.as_raw_fd());
        let event = libc::epoll_event {
            events: events as u32,
            u64: fd as u64,
        };
        call!(SYS_epoll_ctl, epoll, operation, fd, &raw const event).map(drop)
    }

    fn add(&self, member: &OwnedFd) -> Done {
        self.control(libc::EPOLL_CTL_ADD, member, libc::EPOLLIN)
    }

    fn del(&self, member: &OwnedFd) -> Done {
        self.control(libc::EPOLL_CTL_DEL, member, 0)
    }

    fn wait(&self, events: &mut [libc::epoll_event]) -> io::Result<usize> {
        let (fd, none) = (self.epoll.as_raw_fd(), ptr::null::<u8>());
        call!(
            SYS_epoll_pwait,
            fd,
            events.as_mut_ptr(),
            events.len(),
            0,
            none,
            8
        )
    }
}

fn add(meter: &mut Meter) -> Done {
    let (set, more) = (Set::new(meter.size(), 0)?, many(EACH, |_| eventfd(0))?);
    let mut first = true;
    let prepare = || match std::mem::take(&mut first) {
        true => Ok(()),
        false => more.iter().try_for_each(|member| set.del(member)),
    };
    meter.batches(EACH, prepare, || {
        more.iter().try_for_each(|member| set.add(member))
    })
}

fn dels(meter: &mut Meter, value: u32) -> Done {
    let (set, more) = (
        Set::new(meter.size(), value)?,
        many(EACH, |_| eventfd(value))?,
    );
    meter.batches(
        EACH,
        || more.iter().try_for_each(|member| set.add(member)),
        || more.iter().try_for_each(|member| set.del(member)),
    )
}

fn del(meter: &mut Meter) -> Done {
    dels(meter, 0)
}

fn del_ready(meter: &mut Meter) -> Done {
    dels(meter, 1)
}

fn modify(meter: &mut Meter) -> Done {
    let set = Set::new(meter.size(), 0)?;
    let member = &set.members[meter.size() / 2];
    meter.repeat(EACH, |_| {
        set.control(libc::EPOLL_CTL_MOD, member, libc::EPOLLIN)
    })
}

fn wait_one(meter: &mut Meter) -> Done {
    let set = Set::new(meter.size(), 0)?;
    let member = set.members[meter.size() / 2].as_raw_fd();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
    let mut value = 1u64;
    meter.repeat(EACH, |_| {
        call!(SYS_write, member, &raw const value, 8)?;
        set.wait(&mut events)?;
        call!(SYS_read, member, &raw mut value, 8).map(drop)
    })
}

fn wait_all(meter: &mut Meter) -> Done {
    let size = meter.size();
    let set = Set::new(size, 1)?;
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; size];
    meter.batches(
        size * EACH,
        || Ok(()),
        || (0..EACH).try_for_each(|_| set.wait(&mut events).map(drop)),
    )
}

fn close_member(meter: &mut Meter) -> Done {
    let set = Set::new(meter.size(), 0)?;
    meter.repeat(EACH, |_| {
        let member = eventfd(0)?;
        set.add(&member)
    })
}

fn close(meter: &mut Meter) -> Done {
    let size = meter.size();
    let members = many(size, |_| eventfd(0))?;
    let next = std::cell::RefCell::new(None);
    let prepare = || {
        let set = Set::new(0, 0)?;
        members.iter().try_for_each(|member| set.add(member))?;
        *next.borrow_mut() = Some(set);
        Ok(())
    };
    meter.batches(size, prepare, || {
        drop(next.take());
        Ok(())
    })
}

/// An inotify instance that watches `number` files, and the files with one more.
fn watched(number: usize) -> io::Result<(OwnedFd, Vec<CString>)> {
    let instance = owned(call!(SYS_inotify_init1, libc::IN_NONBLOCK)?);
    let files = many(number + 1, |index| {
        let path = format!("{index}");
        fs::write(&path, "")?;
        Ok(name(path))
    })?;
    for path in &files[..number] {
        watch_one(&instance, path)?;
    }
    Ok((instance, files))
}

fn watch_one(instance: &OwnedFd, path: &CString) -> io::Result<usize> {
    let events = libc::IN_ATTRIB;
    call!(
        SYS_inotify_add_watch,
        instance.as_raw_fd(),
        path.as_ptr(),
        events
    )
}

fn watch(meter: &mut Meter) -> Done {
    let (instance, files) = watched(meter.size())?;
    let last = &files[meter.size()];
    let mut told = vec![0u8; 4096];
    meter.repeat(EACH, |_| {
        let watch = watch_one(&instance, last)?;
        call!(SYS_inotify_rm_watch, instance.as_raw_fd(), watch)?;
        call!(
            SYS_read,
            instance.as_raw_fd(),
            told.as_mut_ptr(),
            told.len()
        )
        .map(drop)
    })
}

fn event(meter: &mut Meter) -> Done {
    let size = meter.size();
    let (instance, files) = watched(size)?;
    let mut told = vec![0u8; 4096];
    let none = ptr::null::<u8>();
    let change =
        |path: &CString| call!(SYS_utimensat, libc::AT_FDCWD, path.as_ptr(), none, 0).map(drop);
    meter.batches(
        size,
        || files[..size].iter().try_for_each(change),
        || loop {
            match call!(
                SYS_read,
                instance.as_raw_fd(),
                told.as_mut_ptr(),
                told.len()
            ) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        },
    )
}
