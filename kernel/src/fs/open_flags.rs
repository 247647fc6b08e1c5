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
    /// Kernel-internal: this open created the file.
    const CREATED: u32 = 1 << 31;
    /// Kernel-internal: the file is executed, so that it must not be written.
    const EXECUTES: u32 = 1 << 30;
    /// Kernel-internal: neither this open nor its close is reported to watchers.
    pub(super) const UNREPORTED: u32 = 1 << 29;
    /// Kernel-internal: the file was moved, to be closed elsewhere; its position holds its old
    /// address.
    pub(super) const MOVED: u32 = 1 << 28;

    /// The flags for executing a program.
    pub fn executing() -> Self {
        OpenFlags(O_RDONLY | Self::EXECUTES)
    }

    /// These flags for the open that creates the file.
    pub fn creating(self) -> Self {
        OpenFlags(self.0 | Self::CREATED)
    }

    /// Whether this open created the file.
    pub fn created(self) -> bool {
        self.has(Self::CREATED)
    }

    /// The flags that programs see.
    pub fn visible(self) -> u32 {
        self.0 & !(Self::CREATED | Self::EXECUTES | Self::UNREPORTED | Self::MOVED)
    }

    /// Whether all of `flags` (not the access mode) are set.
    pub fn has(self, flags: u32) -> bool {
        self.0 & flags == flags
    }

    /// Whether the access mode allows reading.
    pub fn readable(self) -> bool {
        matches!(self.0 & O_ACCMODE, O_RDONLY | O_RDWR) && !self.has(O_PATH)
    }

    /// Whether the access mode allows writing.
    pub fn writable(self) -> bool {
        matches!(self.0 & O_ACCMODE, O_WRONLY | O_RDWR) && !self.has(O_PATH)
    }

    /// The access that the open file claims; `None` for O_PATH.
    pub(super) fn claim(self) -> Option<Claim> {
        if self.writable() {
            Some(Claim::Write)
        } else if self.has(Self::EXECUTES) {
            Some(Claim::Execute)
        } else {
            self.readable().then_some(Claim::Read)
        }
    }

    /// The mount that counts it as a writer.
    pub(super) fn writes_through(self, path: &Path) -> Option<&Arc<Mount>> {
        path.mount()
            .filter(|_| self.writable() && path.kind() == Kind::Regular)
    }

    /// Whether an operation must fail with EAGAIN instead of waiting.
    pub fn nonblocking(self) -> bool {
        self.has(O_NONBLOCK)
    }
}
