//! What a change of a translation owes before it may be relied on: `docs/translation.md` as code.
//!
//! The kernel names the change that it makes; this crate answers with the debt; the architecture pays it. The decisions
//! are constant functions of the change, so that a compiled kernel holds the payment alone.
#![no_std]
#![forbid(unsafe_code)]

/// A change of one entry of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Invalid to valid, an address of a program: a fault on it is cured by trying again.
    FillUser,
    /// Invalid to valid, an address of the kernel: nobody expects a fault on it.
    FillKernel,
    /// Valid to invalid.
    Clear,
    /// Valid to valid with another frame, or other memory attributes.
    Replace,
    /// Valid to valid, something is no longer allowed.
    Narrow,
    /// Valid to valid, something more is allowed (dirty state set by software included).
    Widen,
    /// The Access flag set.
    Touch,
    /// The Access flag or the dirty state cleared.
    Age,
    /// An empty table hung below an invalid entry.
    LinkTable,
    /// A table taken out of the tree; its frame is to be freed.
    UnlinkTable,
}

impl Change {
    /// All of them.
    pub const ALL: [Change; 10] = [
        Change::FillUser,
        Change::FillKernel,
        Change::Clear,
        Change::Replace,
        Change::Narrow,
        Change::Widen,
        Change::Touch,
        Change::Age,
        Change::LinkTable,
        Change::UnlinkTable,
    ];
}

/// What caches of translations must forget, on every CPU that may hold it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forget {
    /// Nothing.
    Nothing,
    /// The last-level entry of the page.
    Page,
    /// All of the address space, intermediate levels included.
    Space,
}

/// What a change owes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Debt {
    /// The entry must be invalid, and forgotten, before it takes its new value: break before make.
    pub break_first: bool,
    /// The store must be visible to every table walker, this CPU's next instructions included, before going on.
    pub publish: bool,
    /// What must be forgotten before what the old value named is used for anything else.
    pub forget: Forget,
}

const NONE: Debt = Debt {
    break_first: false,
    publish: false,
    forget: Forget::Nothing,
};

/// What a change at stage 1 owes on arm64 (Arm ARM DDI 0487, D8.16 and D8.17: TLB maintenance and its ordering).
pub const fn arm64(change: Change) -> Debt {
    match change {
        // R_SQBCS: an invalid entry is never cached. A walk that comes before the store faults, and is tried again.
        Change::FillUser => NONE,
        // The same, but the walk must not come before the store.
        Change::FillKernel | Change::LinkTable => Debt {
            publish: true,
            ..NONE
        },
        Change::Clear | Change::Narrow | Change::Age => Debt {
            forget: Forget::Page,
            ..NONE
        },
        // A stale entry repeats the permission fault for as long as it is kept.
        Change::Widen => Debt {
            forget: Forget::Page,
            ..NONE
        },
        // R_FYYPF..: an entry with a clear Access flag may not be cached.
        Change::Touch => NONE,
        // R_WHZWS: two CPUs may not see different output addresses for one input.
        Change::Replace => Debt {
            break_first: true,
            forget: Forget::Page,
            ..NONE
        },
        Change::UnlinkTable => Debt {
            forget: Forget::Space,
            ..NONE
        },
    }
}
