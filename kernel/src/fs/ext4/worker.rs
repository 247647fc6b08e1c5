//! The thread that commits transactions when they are old enough (Linux's jbd2).

use super::mounted::MOUNTED;
use super::{tell, to_disk};
use crate::errno::Result;
use crate::fs::inode::Time;
use crate::fs::recent::Recent;
use crate::mm::frame;
use crate::sync::SleepMutex;
use crate::task::wait_queue::sleep_killable;
use crate::task::{clock, spawn_kernel};

/// The interval of its checks, in nanoseconds.
const INTERVAL: u64 = 1_000_000_000;

/// Creates the thread, if it does not exist yet.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub fn start() -> Result<()> {
    static STARTED: SleepMutex<bool> = SleepMutex::new(false);
    let mut started = STARTED.lock();
    if !*started {
        spawn_kernel("jbd2", run, 0)?;
        *started = true;
    }
    Ok(())
}

fn run(_: usize) -> ! {
    loop {
        sleep_killable(clock::deadline_in(INTERVAL));
        MOUNTED.each(|ext4| {
            ext4.release_clean();
            if frame::is_scarce() {
                Recent::shrink(&ext4.recent, Recent::len(&ext4.recent) / 2);
            }
            // It may have been unmounted by now.
            let Ok(mut fs) = ext4.lock() else { return };
            if fs.is_aborted() {
                return;
            }
            let done = match frame::is_scarce() {
                true => fs.relieve(),
                false => fs.commit_if_due(to_disk(Time::now())),
            };
            if let Err(error) = done {
                tell(format_args!("commit: {error:?}"));
            }
        });
    }
}
