//! The debts of changes of translations, which must be paid before a change may be relied on:
//! `docs/translation.md` as code.
//!
//! The kernel names the change that it makes; this crate answers with the debt; the architecture
//! pays it. The decisions are constant functions of the change, so that a compiled kernel contains
//! only the payment; in [`owed`] debts are values that cannot get lost. [`model`] is a machine that
//! keeps whatever a real one may keep, on which the decisions are tested.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod model;
pub mod owed;

/// A change of one entry of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Invalid to valid, an address of a program: a fault on it is resolved by trying again.
    FillUser,
    /// Invalid to valid, an address of the kernel: nobody expects a fault on it.
    FillKernel,
    /// Valid to invalid.
    Clear,
    /// Valid to valid with another frame, or with other memory attributes.
    Replace,
    /// Valid to valid, something is no longer allowed.
    Protect,
    /// Valid to valid, something more is allowed (dirty state set by software included).
    Widen,
    /// The Access flag set.
    Touch,
    /// The Access flag cleared.
    Age,
    /// An empty table hung below an invalid entry.
    LinkTable,
    /// A table taken out of the tree; its frame is to be freed.
    UnlinkTable,
    /// Pages become a block, or a block pages: the frames may be the same.
    Resize,
    /// The entries of a run of contiguous pages become entries of their own, with the same frames
    /// and rights. Every change of one page of a run but its Access flag comes after it.
    Unfold,
}

impl Change {
    /// All of them.
    pub const ALL: [Change; 12] = [
        Change::FillUser,
        Change::FillKernel,
        Change::Clear,
        Change::Replace,
        Change::Protect,
        Change::Widen,
        Change::Touch,
        Change::Age,
        Change::LinkTable,
        Change::UnlinkTable,
        Change::Resize,
        Change::Unfold,
    ];
}

/// The copies that every CPU which may hold them must forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalidation {
    /// Nothing.
    Nothing,
    /// The last-level entry of the page.
    Page,
    /// The last-level entries of all pages of the run.
    Run,
    /// All of the address space, intermediate levels included.
    Space,
}

/// The debt of a change, to be paid before the change may be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Debt {
    /// The entry must be invalid, and forgotten, before it takes its new value: break before make.
    pub break_first: bool,
    /// The store must be visible to every table walk, this CPU's next instructions' included,
    /// before going on.
    pub publish: bool,
    /// The copies that must be forgotten before the frame or table of the old value is used again.
    pub invalidate: Invalidation,
}

impl Debt {
    /// Nothing owed.
    pub const NONE: Debt = Debt {
        break_first: false,
        publish: false,
        invalidate: Invalidation::Nothing,
    };
}

/// The debt of a change at stage 1 on arm64 (Arm ARM, DDI 0487: "TLB maintenance" and, in it,
/// "Using break-before-make when updating translation table entries").
pub const fn arm64(change: Change) -> Debt {
    match change {
        // An entry that faults (translation, address size, Access flag) is never cached. A walk
        // that comes before the store faults, finds the entry sufficient, and is tried again. Nor
        // does anything depend on a page's age: a stale young entry hides uses until it falls out
        // of the TLB.
        Change::FillUser | Change::Touch | Change::Age => Debt::NONE,
        // As above, but the walk must not come before the store.
        Change::FillKernel | Change::LinkTable => Debt {
            publish: true,
            ..Debt::NONE
        },
        Change::Clear | Change::Protect => Debt {
            invalidate: Invalidation::Page,
            ..Debt::NONE
        },
        // Needs no break, but a stale entry would repeat the permission fault for as long as it is
        // kept.
        Change::Widen => Debt {
            invalidate: Invalidation::Page,
            ..Debt::NONE
        },
        // R_WHZWS: a change of the output address or the memory type.
        Change::Replace => Debt {
            break_first: true,
            invalidate: Invalidation::Page,
            ..Debt::NONE
        },
        Change::UnlinkTable => Debt {
            invalidate: Invalidation::Space,
            ..Debt::NONE
        },
        // R_WHZWS too: a change of the size. The table goes or comes with it.
        Change::Resize => Debt {
            break_first: true,
            invalidate: Invalidation::Space,
            ..Debt::NONE
        },
        // R_WHZWS again: a change of the Contiguous bit. A CPU may hold the run as one entry, and
        // entries of its pages beside that.
        Change::Unfold => Debt {
            break_first: true,
            invalidate: Invalidation::Run,
            ..Debt::NONE
        },
    }
}
