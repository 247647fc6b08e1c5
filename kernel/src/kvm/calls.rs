//! The filter that decides which of a guest's SMCCC calls the VMM answers, and which are denied
//! (KVM_ARM_VM_SMCCC_FILTER).

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::uapi::{CallFilter, DeviceAttribute};
use super::vm::Machine;
use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::sync::Mutex;
use tree::{Member, Tree};

/// How a call is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The kernel answers the call.
    Handle,
    /// The call is answered as an unknown one.
    Deny,
    /// The VMM answers the call.
    Forward,
}

/// The architecture's own functions, in both widths. No VMM can filter them, because they report
/// errata of the CPU.
const RESERVED: [Range; 2] = [Range::handled(0x8000_0000), Range::handled(0xc000_0000)];

/// The approximate memory of a range in the tree.
const NODE: usize = 2 * size_of::<Range>();

/// A range of functions; `last` is included.
#[derive(Clone, Copy)]
struct Range {
    first: u32,
    last: u32,
    action: Action,
}

impl Member for Range {
    type Key = u32;
    type Sum = ();

    fn key(&self) -> u32 {
        self.last
    }

    fn sum(&self) {}

    fn join((): (), (): ()) {}
}

impl Range {
    const fn handled(first: u32) -> Self {
        Range {
            first,
            last: first | 0xffff,
            action: Action::Handle,
        }
    }
}

/// The VMM's choices for ranges of calls, made before its guest has run.
pub struct Filter {
    is_set: AtomicBool,
    /// No two overlap.
    ranges: Mutex<Tree<Range>>,
}

impl Filter {
    /// An empty filter.
    pub fn new() -> Self {
        Filter {
            is_set: AtomicBool::new(false),
            ranges: Mutex::new(Tree::new()),
        }
    }

    /// Whether the VMM has made any choice.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Relaxed)
    }

    /// How calls of `function` are handled.
    pub fn action(&self, function: u32) -> Action {
        if !self.is_set() {
            return Action::Handle;
        }
        let ranges = self.ranges.lock();
        let range = ranges.from(&function);
        let range = range.filter(|range| range.first <= function);
        range.map_or(Action::Handle, |range| range.action)
    }

    /// The memory that it takes, approximately.
    pub fn held(&self) -> usize {
        self.ranges.lock().len() * NODE
    }

    fn add(&self, new: Range) -> Result<()> {
        let mut ranges = self.ranges.lock();
        let room = ranges.reserve(1 + RESERVED.len());
        room.map_err(|_| Errno::ENOMEM)?;
        if ranges.is_empty() {
            for reserved in RESERVED {
                ranges.insert(reserved).map_err(|_| Errno::ENOMEM)?;
            }
        }
        let next = ranges.from(&new.first);
        if next.is_some_and(|range| range.first <= new.last) {
            return Err(Errno::EEXIST);
        }
        ranges.insert(new).map_err(|_| Errno::ENOMEM)?;
        self.is_set.store(true, Relaxed);
        Ok(())
    }
}

impl Machine {
    /// Adds a range that the VMM chose.
    ///
    /// # Errors
    /// EFAULT, EINVAL, EBUSY (a virtual CPU has run), EEXIST (a choice was made for some of these
    /// already), ENOMEM.
    pub fn filter_calls(&self, wanted: &DeviceAttribute) -> Result<usize> {
        let wanted: CallFilter = UserPtr::new(wanted.address as usize).read()?;
        let action = match wanted.action {
            0 => Action::Handle,
            1 => Action::Deny,
            2 => Action::Forward,
            _ => return Err(Errno::EINVAL),
        };
        let behind = wanted.count.checked_sub(1);
        let last = behind.and_then(|behind| wanted.first.checked_add(behind));
        let last = last.filter(|_| wanted.zeroes == [0; 15]);
        let range = Range {
            first: wanted.first,
            last: last.ok_or(Errno::EINVAL)?,
            action,
        };
        if self.has_run() {
            return Err(Errno::EBUSY);
        }
        self.calls.add(range).map(|()| 0)
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn ranges_of_calls_do_not_overlap() {
        let filter = Filter::new();
        let range = |first, last| Range { first, last, action: Action::Deny };
        let empty = filter.held();
        for (first, last) in [(20, 29), (0, 9)] {
            assert_eq!(filter.add(range(first, last)), Ok(()));
        }
        for (first, last) in [(9, 10), (15, 20), (29, 29), (0, 40), (0x8000_0000, 0x8000_0000)] {
            assert_eq!(filter.add(range(first, last)), Err(Errno::EEXIST));
        }
        assert_eq!(filter.add(range(10, 19)), Ok(()));
        for denied in [0, 10, 29] {
            assert_eq!(filter.action(denied), Action::Deny);
        }
        for handled in [30, 0xc000_0000] {
            assert_eq!(filter.action(handled), Action::Handle);
        }
        assert!(filter.held() > empty);
    }
}
