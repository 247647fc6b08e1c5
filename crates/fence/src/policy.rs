//! The CPUs that must act on a change at once.

use core::fmt;

use translation::Change;

/// Whether an entry must be made invalid, with a fence, before its new value is stored. Otherwise a
/// CPU could write to the new frame while another still reads the old one.
pub const fn breaks_first(change: Change) -> bool {
    matches!(change, Change::Replace)
}

/// The CPUs that must fence before anyone may rely on the change. Each value includes those above
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// No CPU.
    #[default]
    Nobody,
    /// Each CPU when it traps on the address: set all bits of [`Unseen`](crate::Unseen).
    OnTrap,
    /// The CPU that made the change. Other CPUs that trap on the entry find that it is sufficient,
    /// and owe [`Policy::spurious`].
    Local,
    /// Every CPU that may hold the entry.
    Everywhere,
}

/// New kernel mappings (`fence.kernel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// No fence; a CPU that traps on a mapping fences then.
    Lazy,
    /// A fence on every CPU after each new mapping.
    Preventive,
}

/// The policy for new user mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// No fence: the hardware sees new entries by itself.
    Svvptc,
    /// A local fence after each new mapping.
    Preventive,
}

/// The policy for new user mappings that the boot parameter requests (`fence.user`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `Svvptc` if the system has it, otherwise `Preventive`.
    Auto,
    /// The given policy.
    This(User),
}

/// `fence.user=svvptc` was requested on a system without the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fence.user=svvptc needs the extension Svvptc on every hart")
    }
}

impl Asked {
    /// Resolves the request; `svvptc` tells whether every hart has the extension. With the
    /// injector, entries are hidden and found by software, so `svvptc` may be requested on any
    /// system.
    pub const fn resolve(self, svvptc: bool, injecting: bool) -> Result<User, Refused> {
        match self {
            Asked::Auto if svvptc => Ok(User::Svvptc),
            Asked::Auto => Ok(User::Preventive),
            Asked::This(User::Svvptc) if !svvptc && !injecting => Err(Refused),
            Asked::This(user) => Ok(user),
        }
    }
}

/// Both policies, fixed at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// For kernel mappings.
    pub kernel: Kernel,
    /// For user mappings.
    pub user: User,
}

impl Policy {
    /// The harts that must see a `change` of an entry in the user half of an address space.
    ///
    /// Svvptc only covers entries that become valid. With it, a valid entry that is widened
    /// (permission, or Accessed and Dirty under Svade) is fenced everywhere, because a spurious
    /// fault then executes no fence and would recur forever.
    pub const fn user(self, change: Change) -> Reach {
        match (change, self.user) {
            (Change::FillUser | Change::FillKernel | Change::LinkTable, User::Svvptc) => {
                Reach::Nobody
            }
            (Change::FillUser | Change::FillKernel | Change::LinkTable, User::Preventive) => {
                Reach::Local
            }
            (Change::Widen | Change::Touch, User::Preventive) => Reach::Local,
            (Change::Widen | Change::Touch, User::Svvptc) => Reach::Everywhere,
            // Nothing depends on a page's age: a stale entry with the Accessed bit hides uses only
            // until the TLB drops it.
            (Change::Age, _) => Reach::Nobody,
            (
                Change::Clear
                | Change::Replace
                | Change::Protect
                | Change::UnlinkTable
                | Change::Resize
                | Change::Unfold,
                _,
            ) => Reach::Everywhere,
        }
    }

    /// The harts that must see a `change` of an entry in the kernel half. Kernel entries are
    /// global, so the fence covers all ASIDs.
    pub const fn kernel(self, change: Change) -> Reach {
        match (change, self.kernel) {
            (Change::FillUser | Change::FillKernel | Change::LinkTable, Kernel::Lazy) => {
                Reach::OnTrap
            }
            _ => Reach::Everywhere,
        }
    }

    /// The CPUs that fence if a fault on a user address finds a valid and sufficient entry.
    pub const fn spurious(self) -> Reach {
        match self.user {
            User::Svvptc => Reach::Nobody,
            User::Preventive => Reach::Local,
        }
    }
}
