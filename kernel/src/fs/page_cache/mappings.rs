//! All mappings, for code that writes back or reclaims pages of any of them.

use super::Mapping;
use crate::errno::Result;
use crate::mm::heap::check_room;
use crate::sync::Mutex;
use crate::task::sched::cond_resched;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::ops::Bound::{Excluded, Unbounded};

/// The mappings, by number.
static ALL: Mutex<BTreeMap<usize, Weak<Mapping>>> = Mutex::new(BTreeMap::new());

/// Adds a mapping.
///
/// # Errors
/// ENOMEM.
pub(super) fn add(mapping: &Arc<Mapping>) -> Result<()> {
    let _room = check_room()?;
    let mut all = ALL.lock();
    all.insert(mapping.number.get(), Arc::downgrade(mapping));
    Ok(())
}

/// Removes the mapping with this number, if it was added.
pub(super) fn remove(number: usize) {
    ALL.lock().remove(&number);
}

/// The number of mappings.
pub(super) fn count() -> usize {
    ALL.lock().len()
}

/// The first number above `after`, and its mapping, unless that is just being dropped.
pub(super) fn next(after: usize) -> Option<(usize, Option<Arc<Mapping>>)> {
    let all = ALL.lock();
    let (&number, mapping) = all.range((Excluded(after), Unbounded)).next()?;
    Some((number, mapping.upgrade()))
}

/// Calls `visit` with every mapping, without locks.
pub(super) fn each(mut visit: impl FnMut(&Arc<Mapping>)) {
    let mut after = 0;
    while let Some((number, mapping)) = next(after) {
        if let Some(mapping) = mapping {
            visit(&mapping);
        }
        after = number;
        cond_resched();
    }
}
