//! The CPUs that must act on a change at once.

use core::fmt;

use translation::Change;

/// Whether an entry must be invalid, and that paid for, before its new value is stored. Otherwise a
/// CPU could write the new frame while another still reads the old one.
pub const fn breaks_first(change: Change) -> bool {
    matches!(change, Change::Replace)
}

/// The CPUs that must fence before the change may be relied on. Each value includes those above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Nobody.
    #[default]
    Nobody,
    /// Each CPU, if and when it traps on the address: set all bits of [`Unseen`](crate::Unseen).
    OnTrap,
    /// The CPU that made the change. Others that trap on it find a sufficient entry and owe
    /// [`Policy::spurious`].
    Local,
    /// Every CPU that may hold the entry.
    Everywhere,
}

/// New kernel mappings (`fence.kernel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// None; a CPU that traps on one fences then.
    Lazy,
    /// One on every CPU after each.
    Preventive,
}

/// New user mappings, as settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// None: the hardware sees new entries by itself.
    Svvptc,
    /// One local fence after each.
    Preventive,
}

/// New user mappings, as the boot parameter asks (`fence.user`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `Svvptc` if the system has it, else `Preventive`.
    Auto,
    /// This one.
    This(User),
}

/// `fence.user=svvptc` was asked for on a system without the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fence.user=svvptc needs the extension Svvptc on every hart")
    }
}

impl Asked {
    /// Resolves the request, where every hart has Svvptc or not. With the injector, entries are
    /// hidden and found by software, so that `svvptc` may be asked for on any system.
    pub const fn resolve(self, svvptc: bool, injecting: bool) -> Result<User, Refused> {
        match self {
            Asked::Auto if svvptc => Ok(User::Svvptc),
            Asked::Auto => Ok(User::Preventive),
            Asked::This(User::Svvptc) if !svvptc && !injecting => Err(Refused),
            Asked::This(user) => Ok(user),
        }
    }
}

/// Both policies, settled at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// For kernel mappings.
    pub kernel: Kernel,
    /// For user mappings.
    pub user: User,
}

impl Policy {
    /// The harts that `change` of an entry in a program's half of an address space concerns.
    ///
    /// Svvptc covers invalid to valid only. A valid entry that is widened (permission, Accessed and
    /// Dirty under Svade) is fenced everywhere with it, since a spurious fault then fences nothing
    /// and would come back for ever.
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
            // Nothing depends on a page's age: a stale young entry hides uses until it falls out of
            // the TLB.
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

    /// The harts that `change` of an entry in the kernel's half concerns. Kernel entries are
    /// global: the
    /// fence is for all ASIDs.
    pub const fn kernel(self, change: Change) -> Reach {
        match (change, self.kernel) {
            (Change::FillUser | Change::FillKernel | Change::LinkTable, Kernel::Lazy) => {
                Reach::OnTrap
            }
            _ => Reach::Everywhere,
        }
    }

    /// The CPUs that fence when a fault on a user's address finds the entry valid and sufficient.
    pub const fn spurious(self) -> Reach {
        match self.user {
            User::Svvptc => Reach::Nobody,
            User::Preventive => Reach::Local,
        }
    }
}
