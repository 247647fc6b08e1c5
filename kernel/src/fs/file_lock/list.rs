//! The lines of /proc/locks.

use super::super::device;
use super::super::seq_file::Text;
use super::context::{self, Key};
use super::{Lock, Owner, waiting};
use crate::errno::Result;
use crate::hash::{self, HashMap};
use crate::put;
use crate::task::sched::cond_resched_killable;

/// Writes a line for each lock, and for each that is waited for, with the number of one that its
/// inode has.
pub fn list(text: &mut Text) {
    // Without memory the list is as far as it came.
    _ = write(text);
}

fn write(text: &mut Text) -> Result<()> {
    let (mut number, mut last): (usize, HashMap<Key, usize>) = (0, hash::new());
    context::for_each(|context| {
        let mut locks = context.after(None)?;
        while !locks.is_empty() {
            for lock in &locks {
                number += 1;
                put!(text, "{number}: ");
                put_line(text, &context.key, lock);
            }
            cond_resched_killable()?;
            locks = context.after(locks.last())?;
        }
        if last.try_reserve(1).is_ok() {
            last.insert(context.key, number);
        }
        Ok(())
    })?;
    for (key, lock) in &waiting::list()? {
        if let Some(number) = last.get(key) {
            put!(text, "{number}: -> ");
            put_line(text, key, lock);
        }
    }
    Ok(())
}

fn put_line(text: &mut Text, (device, inode): &Key, lock: &Lock) {
    let (kind, process) = match lock.owner {
        Owner::Flock(_) => ("FLOCK ", lock.process),
        Owner::OpenFile(_) => ("OFDLCK", -1),
        Owner::Process(_) => ("POSIX ", lock.process),
    };
    let way = if lock.exclusive { "WRITE" } else { "READ " };
    let (major, minor) = device::split(*device);
    put!(
        text,
        "{kind} ADVISORY  {way} {process} {major:02x}:{minor:02x}:{inode} {} ",
        lock.first
    );
    // The last byte that a file can have, or beyond.
    if lock.last >= i64::MAX as u64 {
        text.push(b"EOF\n");
    } else {
        put!(text, "{}\n", lock.last);
    }
}
