//! The layouts of the status structures of System V IPC.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::layout::{Compat, Layout, Native};
use crate::errno::Result;
use crate::ipc::{Header, Owner};
use crate::mm::PAGE_SIZE;
use crate::mm::user::UserPtr;

/// `struct shmid64_ds` (include/uapi/asm-generic/shmbuf.h).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct SegmentStatus {
    /// Owner and permissions.
    pub header: Header,
    /// Its size in bytes.
    pub size: u64,
    /// The times of its uses, by kind, and of its last change, in s.
    pub times: [u64; 3],
    /// The processes that created it and last used it.
    pub users: [i32; 2],
    /// The number of mappings.
    pub attached: u64,
    /// Unused.
    pub unused: [u64; 2],
}

/// `struct msqid64_ds` (include/uapi/asm-generic/msgbuf.h).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct QueueStatus {
    /// Owner and permissions.
    pub header: Header,
    /// The times of its uses, by kind, and of its last change, in s.
    pub times: [u64; 3],
    /// The number of bytes in it.
    pub bytes: u64,
    /// The number of messages in it.
    pub count: u64,
    /// The maximum number of bytes in it.
    pub capacity: u64,
    /// The processes that last sent and received.
    pub users: [i32; 2],
    /// Unused.
    pub unused: [u64; 2],
}

/// `struct semid64_ds` (include/uapi/asm-generic/sembuf.h).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct SetStatus {
    /// Owner and permissions.
    pub header: Header,
    /// The times of its last use and of its last change, in s.
    pub times: [u64; 2],
    /// The number of semaphores in it.
    pub count: u64,
    /// Unused.
    pub unused: [u64; 2],
}

/// A layout of these structures.
pub trait IpcLayout: Layout {
    /// The multiple to which SHM_RND rounds addresses down (SHMLBA), in bytes.
    const ROUNDING: usize;
    /// The largest segment that IPC_INFO shows, in bytes.
    const LARGEST_SHOWN: usize;

    /// Writes the status of a segment.
    ///
    /// # Errors
    /// EFAULT.
    fn put_segment(address: usize, status: &SegmentStatus) -> Result<()>;

    /// Reads the new owner and permissions of a segment.
    ///
    /// # Errors
    /// EFAULT.
    fn segment_owner(address: usize) -> Result<Owner>;

    /// Writes the status of a queue.
    ///
    /// # Errors
    /// EFAULT.
    fn put_queue(address: usize, status: &QueueStatus) -> Result<()>;

    /// Reads the new owner, permissions and capacity in bytes of a queue.
    ///
    /// # Errors
    /// EFAULT.
    fn queue_owner(address: usize) -> Result<(Owner, usize)>;

    /// Writes the status of a set of semaphores.
    ///
    /// # Errors
    /// EFAULT.
    fn put_set(address: usize, status: &SetStatus) -> Result<()>;

    /// Reads the new owner and permissions of a set.
    ///
    /// # Errors
    /// EFAULT.
    fn set_owner(address: usize) -> Result<Owner>;
}

impl IpcLayout for Native {
    const ROUNDING: usize = PAGE_SIZE;
    const LARGEST_SHOWN: usize = usize::MAX;

    fn put_segment(address: usize, status: &SegmentStatus) -> Result<()> {
        UserPtr::new(address).write(status)
    }

    fn segment_owner(address: usize) -> Result<Owner> {
        let status: SegmentStatus = UserPtr::new(address).read()?;
        Ok(status.header.owner())
    }

    fn put_queue(address: usize, status: &QueueStatus) -> Result<()> {
        UserPtr::new(address).write(status)
    }

    fn queue_owner(address: usize) -> Result<(Owner, usize)> {
        let status: QueueStatus = UserPtr::new(address).read()?;
        Ok((status.header.owner(), status.capacity as usize))
    }

    fn put_set(address: usize, status: &SetStatus) -> Result<()> {
        UserPtr::new(address).write(status)
    }

    fn set_owner(address: usize) -> Result<Owner> {
        let status: SetStatus = UserPtr::new(address).read()?;
        Ok(status.header.owner())
    }
}

/// The words of a `struct compat_ipc64_perm`: the key, owner and group, those of the creator, the
/// mode, the sequence number, two unused ones.
const HEADER: usize = 9;
const UID: usize = 1;
const GID: usize = 2;
const MODE: usize = 5;
/// Words of a `struct compat_shmid64_ds`, of a `compat_msqid64_ds` and of a `compat_semid64_ds`.
const SEGMENT: usize = HEADER + 12;
const QUEUE: usize = HEADER + 13;
const SET: usize = HEADER + 7;
/// The offset of a queue's capacity.
const CAPACITY: usize = HEADER + 8;

fn header_words(header: &Header) -> [usize; HEADER] {
    let ids = [header.uid, header.gid, header.cuid, header.cgid].map(|id| id as usize);
    let [uid, gid, cuid, cgid] = ids;
    let (key, mode) = (header.key as usize, header.mode as u16);
    let sequence = header.sequence.into();
    [key, uid, gid, cuid, cgid, mode.into(), sequence, 0, 0]
}

fn owner(words: &[usize]) -> Owner {
    Owner {
        uid: words[UID] as u32,
        gid: words[GID] as u32,
        // The mode has 16 bits.
        mode: (words[MODE] as u16).into(),
    }
}

/// Times as two words each.
fn halves<const N: usize, const WORDS: usize>(times: &[u64; N]) -> [usize; WORDS] {
    core::array::from_fn(|at| (times[at / 2] >> (32 * (at % 2))) as u32 as usize)
}

/// Writes a structure of `N` words: a header, the parts that follow it, and zeroes.
fn put<const N: usize>(address: usize, header: &Header, parts: &[&[usize]]) -> Result<()> {
    let mut words = [0; N];
    let header = header_words(header);
    let known = header.iter().chain(parts.iter().copied().flatten());
    words
        .iter_mut()
        .zip(known)
        .for_each(|(word, known)| *word = *known);
    Compat::put_words(address, &words)
}

impl IpcLayout for Compat {
    const ROUNDING: usize = 4 * PAGE_SIZE;
    const LARGEST_SHOWN: usize = i32::MAX as usize;

    fn put_segment(address: usize, status: &SegmentStatus) -> Result<()> {
        let times: [usize; 6] = halves(&status.times);
        let users = status.users.map(|user| user as usize);
        let (size, attached) = ([status.size as usize], [status.attached as usize]);
        put::<SEGMENT>(address, &status.header, &[&size, &times, &users, &attached])
    }

    fn segment_owner(address: usize) -> Result<Owner> {
        Ok(owner(&Self::words::<SEGMENT>(address)?))
    }

    fn put_queue(address: usize, status: &QueueStatus) -> Result<()> {
        let times: [usize; 6] = halves(&status.times);
        let sizes = [status.bytes, status.count, status.capacity].map(|size| size as usize);
        let users = status.users.map(|user| user as usize);
        put::<QUEUE>(address, &status.header, &[&times, &sizes, &users])
    }

    fn queue_owner(address: usize) -> Result<(Owner, usize)> {
        let words = Self::words::<QUEUE>(address)?;
        Ok((owner(&words), words[CAPACITY]))
    }

    fn put_set(address: usize, status: &SetStatus) -> Result<()> {
        let times: [usize; 4] = halves(&status.times);
        put::<SET>(address, &status.header, &[&times, &[status.count as usize]])
    }

    fn set_owner(address: usize) -> Result<Owner> {
        Ok(owner(&Self::words::<SET>(address)?))
    }
}
