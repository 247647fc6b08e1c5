//! The flags of an open file.

use super::inode::Kind;
use super::mount::Mount;
use super::path::Path;
use super::writers::Claim;
use alloc::sync::Arc;
use linux_raw_sys::general::*;

/// The flags of open(2) and fcntl(F_SETFL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    /// The kernel's own: this open made the file.
    const CREATED: u32 = 1 << 31;
    /// The kernel's own: to run it as a program, so that nobody may write it.
    const EXECUTES: u32 = 1 << 30;
    /// The kernel's own: nobody was notified that it was opened, nor will be of its end.
    pub(super) const UNREPORTED: u32 = 1 << 29;
    /// The kernel's own: the file was moved, to end elsewhere; its position holds its old address.
    pub(super) const MOVED: u32 = 1 << 28;

    /// To run a program.
    pub fn executing() -> Self {
        OpenFlags(O_RDONLY | Self::EXECUTES)
    }

    /// These flags for the open that makes the file.
    pub fn creating(self) -> Self {
        OpenFlags(self.0 | Self::CREATED)
    }

    /// True when the open made the file.
    pub fn created(self) -> bool {
        self.has(Self::CREATED)
    }

    /// As programs see them.
    pub fn visible(self) -> u32 {
        self.0 & !(Self::CREATED | Self::EXECUTES | Self::UNREPORTED | Self::MOVED)
    }

    /// True when all of `flags` (not the access mode) are set.
    pub fn has(self, flags: u32) -> bool {
        self.0 & flags == flags
    }

    /// The access mode allows reading.
    pub fn readable(self) -> bool {
        matches!(self.0 & O_ACCMODE, O_RDONLY | O_RDWR) && !self.has(O_PATH)
    }

    /// The access mode allows writing.
    pub fn writable(self) -> bool {
        matches!(self.0 & O_ACCMODE, O_WRONLY | O_RDWR) && !self.has(O_PATH)
    }

    /// The access that the open file claims; none for O_PATH.
    pub(super) fn claim(self) -> Option<Claim> {
        if self.writable() {
            Some(Claim::Write)
        } else if self.has(Self::EXECUTES) {
            Some(Claim::Execute)
        } else {
            self.readable().then_some(Claim::Read)
        }
    }

    /// The mount that counts its writers.
    pub(super) fn writes_through(self, path: &Path) -> Option<&Arc<Mount>> {
        path.mount()
            .filter(|_| self.writable() && path.kind() == Kind::Regular)
    }

    /// An operation shall fail with EAGAIN where it would wait.
    pub fn nonblocking(self) -> bool {
        self.has(O_NONBLOCK)
    }
}
