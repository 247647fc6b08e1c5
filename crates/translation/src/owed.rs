//! Debts as values. A change of an entry returns an [`Owed`] of its kind, and only a payment takes
//! it. It has no size, so that a release kernel contains only the payment; with debug assertions,
//! dropping an unpaid one panics.
//!
//! ```compile_fail
//! #![deny(unused_must_use)]
//! fn clear() -> translation::owed::Owed<translation::owed::Clear> {
//!     translation::owed::Owed::new()
//! }
//! fn forgets_to_pay() {
//!     clear();
//! }
//! ```

use core::marker::PhantomData;
use core::mem;
use core::ops::Range;

use crate::Change;

/// A kind of change as a type.
pub trait Kind {
    /// Its value.
    const CHANGE: Change;
}

/// A kind of change that may stay unpaid: a CPU that has not seen it faults, and that fault's
/// handler pays for this CPU.
pub trait Resolvable: Kind {}

macro_rules! kinds {
    ($($kind:ident)*) => {
        $(
            #[doc = concat!("[`Change::", stringify!($kind), "`].")]
            pub enum $kind {}

            impl Kind for $kind {
                const CHANGE: Change = Change::$kind;
            }
        )*
    };
}

kinds!(FillUser FillKernel Clear Replace Protect Widen Touch Age LinkTable UnlinkTable);
kinds!(Resize Unfold);

impl Resolvable for FillUser {}
impl Resolvable for Touch {}

/// The debt of a change of an entry.
#[must_use = "a change of an entry is paid for"]
pub struct Owed<C: Kind>(PhantomData<C>);

impl<C: Kind> Owed<C> {
    /// The debt of a change that is made.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "nobody owes by default")]
    pub const fn new() -> Self {
        Owed(PhantomData)
    }

    /// Joins another debt: both are paid at once.
    #[inline(always)]
    pub fn join(&mut self, other: Self) {
        mem::forget(other);
    }

    /// Joins this debt to `some`, if there is one, or becomes it.
    #[inline(always)]
    pub fn join_to(self, some: &mut Option<Self>) {
        match some {
            Some(owed) => owed.join(self),
            none => *none = Some(self),
        }
    }

    /// For the payment: the change.
    #[inline(always)]
    pub fn pay(self) -> Change {
        mem::forget(self);
        C::CHANGE
    }

    /// Nobody can hold a copy of the changed entry: nothing led to the table yet, or all have
    /// forgotten its space.
    #[inline(always)]
    pub fn held_by_nobody(self) {
        mem::forget(self);
    }
}

impl Owed<UnlinkTable> {
    /// Joins the debt for pages of the same space, all of which is forgotten.
    #[inline(always)]
    pub fn with_pages(self, pages: Owed<Clear>) -> Self {
        mem::forget(pages);
        self
    }
}

impl Owed<FillUser> {
    /// A table above the entry was linked in the same fault, and that debt is paid afterwards: for
    /// all of the space.
    #[inline(always)]
    pub fn paid_with_table(self) {
        mem::forget(self);
    }
}

impl<C: Resolvable> Owed<C> {
    /// Leaves it to the fault of the CPU that needs the change.
    #[inline(always)]
    pub fn leave_to_fault(self) {
        mem::forget(self);
    }
}

#[cfg(debug_assertions)]
impl<C: Kind> Drop for Owed<C> {
    fn drop(&mut self) {
        panic!("{:?} was not paid for", C::CHANGE);
    }
}

/// Debts of one kind for addresses that one payment is to cover.
#[must_use = "changes of entries are paid for"]
pub struct Debts<C: Kind> {
    /// From the first to the last; its start is not above its end if there is one.
    span: Range<usize>,
    kind: PhantomData<C>,
}

/// Smaller than any when addresses join it.
const NOWHERE: Range<usize> = Range {
    start: usize::MAX,
    end: 0,
};

impl<C: Kind> Debts<C> {
    /// None.
    pub const fn new() -> Self {
        Debts {
            span: NOWHERE,
            kind: PhantomData,
        }
    }

    /// Adds that of a change at `range`.
    #[inline(always)]
    pub fn add(&mut self, range: Range<usize>, owed: Owed<C>) {
        mem::forget(owed);
        self.span = self.span.start.min(range.start)..self.span.end.max(range.end);
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.span.is_empty()
    }

    /// All of them as one, and the addresses; none if there are none.
    #[inline(always)]
    pub fn take(&mut self) -> Option<(Range<usize>, Owed<C>)> {
        let span = mem::replace(&mut self.span, NOWHERE);
        (!span.is_empty()).then(|| (span, Owed::new()))
    }
}

impl<C: Kind> Default for Debts<C> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(debug_assertions)]
impl<C: Kind> Drop for Debts<C> {
    fn drop(&mut self) {
        assert!(self.is_empty(), "{:?} was not paid for", C::CHANGE);
    }
}
