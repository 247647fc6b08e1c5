//! The thread that commits transactions when they are old enough.

use super::mounted::each;
use super::{errno, to_disk};
use crate::errno::Result;
use crate::fs::inode::Time;
use crate::sync::SleepMutex;
use crate::task::wait_queue::sleep_killable;
use crate::task::{clock, spawn_kernel};

/// How often it looks, in nanoseconds.
const INTERVAL: u64 = 1_000_000_000;

/// Makes the thread, if there is none.
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
        each(|fs| {
            fs.release_clean();
            let done = fs.lock().and_then(|mut fs| {
                let now = to_disk(Time::now());
                fs.commit_if_due(now).map_err(errno)
            });
            if let Err(error) = done {
                crate::log!("ext4: commit: {error:?}");
            }
        });
    }
}
