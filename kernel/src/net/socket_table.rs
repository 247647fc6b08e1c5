//! All open sockets, by number.

use super::socket::Socket;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use crate::task::sched::cond_resched_killable;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use radix::Radix;

static ALL: Mutex<Radix<Weak<dyn Socket>>> = Mutex::new(Radix::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The number of sockets.
pub fn count() -> usize {
    COUNT.load(Relaxed)
}

/// Enters an open socket.
pub fn enter(socket: &Arc<dyn Socket>) -> Result<()> {
    let number = socket.base().number as usize;
    let added = ALL.lock().insert(number, Arc::downgrade(socket));
    added.map_err(|_| Errno::ENOMEM)?;
    COUNT.fetch_add(1, Relaxed);
    Ok(())
}

/// Removes a closed socket.
pub fn leave(number: u64) {
    let (number, mut gone) = (number as usize, None);
    ALL.lock()
        .remove_range(number, number, &mut |socket| gone = Some(socket));
    COUNT.fetch_sub(1, Relaxed);
    drop(gone);
}

/// Passes the sockets from number `next` on to `show`, without the lock, until it returns false;
/// returns whether it did.
pub fn each_from(next: &mut usize, mut show: impl FnMut(&Arc<dyn Socket>) -> bool) -> bool {
    while cond_resched_killable().is_ok() {
        let socket = {
            let all = ALL.lock();
            let Some(number) = all.next_item(*next) else {
                return false;
            };
            *next = number + 1;
            all.get(number).and_then(Weak::upgrade)
        };
        if socket.is_some_and(|socket| !show(&socket)) {
            return true;
        }
    }
    false
}

/// Passes every socket to `show`.
pub fn each(mut show: impl FnMut(&Arc<dyn Socket>)) {
    each_from(&mut 0, |socket| {
        show(socket);
        true
    });
}
